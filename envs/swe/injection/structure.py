"""Operators on calls and statements: what is lost, swapped or left too early."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import libcst as cst

from agentic_gym.envs.swe.injection import confusions
from agentic_gym.envs.swe.injection.tree import LineChange, Tree

_UNWRAPPED = ("strip", "lstrip", "rstrip", "lower", "upper", "title", "copy", "casefold", "replace")
_NOT_COMMUTATIVE = cst.Subtract | cst.Divide | cst.FloorDivide | cst.Modulo | cst.Power | cst.Add


def missing_return(node: cst.CSTNode, tree: Tree) -> Iterator[LineChange]:
    """A value that is computed and not returned, or a bare ``return``."""
    if isinstance(node, cst.Return) and node.value is not None:
        value = tree.text(node.value)
        yield from tree.replace(node, value)
        yield from tree.replace(node, "return" if value == "None" else "return None")


def swapped_arguments(node: cst.CSTNode, tree: Tree) -> Iterator[LineChange]:
    """Neighbouring arguments, operands, tuple items or branches in the wrong order."""
    if isinstance(node, cst.Call):
        plain = [arg for arg in node.args if arg.keyword is None and not arg.star]
        yield from _swap_neighbours([arg.value for arg in plain], tree)
    elif isinstance(node, cst.Tuple):
        yield from _swap_neighbours([element.value for element in node.elements], tree)
    elif isinstance(node, cst.BinaryOperation) and isinstance(node.operator, _NOT_COMMUTATIVE):
        yield from _swap(node.left, node.right, tree)
    elif isinstance(node, cst.IfExp):
        yield from _swap(node.body, node.orelse, tree)


def _swap_neighbours(items: Sequence[cst.BaseExpression], tree: Tree) -> Iterator[LineChange]:
    for left, right in pairwise(items):
        yield from _swap(left, right, tree)


def _swap(left: cst.CSTNode, right: cst.CSTNode, tree: Tree) -> Iterator[LineChange]:
    (a, b), (c, d) = tree.span(left), tree.span(right)
    source = tree.source
    yield from tree.splice(a, d, source[c:d] + source[b:c] + source[a:b])


def dropped_call(node: cst.CSTNode, tree: Tree) -> Iterator[LineChange]:
    """``f(x)`` becomes ``x``, ``x.strip()`` becomes ``x``, a statement becomes ``pass``."""
    if isinstance(node, cst.Expr) and isinstance(node.value, cst.Call):
        yield from tree.replace(node, "pass")
    if not isinstance(node, cst.Call) or isinstance(tree.parent(node), cst.Expr | cst.Raise):
        return
    if isinstance(node.func, cst.Name):
        if len(node.args) == 1 and node.args[0].keyword is None and not node.args[0].star:
            yield from tree.replace(node, tree.text(node.args[0].value))
    elif isinstance(node.func, cst.Attribute) and node.func.attr.value in _UNWRAPPED:
        yield from tree.replace(node, tree.text(node.func.value))


def exception_type(node: cst.CSTNode, tree: Tree) -> Iterator[LineChange]:
    """Another exception raised, or another one caught."""
    kind: cst.BaseExpression | None = None
    if isinstance(node, cst.Raise):
        kind = node.exc.func if isinstance(node.exc, cst.Call) else node.exc
    elif isinstance(node, cst.ExceptHandler):
        kind = node.type
    if isinstance(kind, cst.Name):
        for other in confusions.EXCEPTIONS.get(kind.value, ()):
            yield from tree.replace(kind, other)


def loop_control(node: cst.CSTNode, tree: Tree) -> Iterator[LineChange]:
    """``break`` for ``continue``, or neither."""
    if isinstance(node, cst.Break | cst.Continue):
        other = "continue" if isinstance(node, cst.Break) else "break"
        yield from tree.replace(node, other)
        yield from tree.replace(node, "pass")
