"""Operators on expressions: wrong tokens, wrong values, wrong names.

Each is a generator ``(node, tree) -> changes`` that looks at one node; :mod:`.inject` walks the tree.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from agentic_gym.envs.swe.injection import confusions
from agentic_gym.envs.swe.injection.tree import LineChange, Tree

_TIGHTER_THAN_PLUS = cst.BinaryOperation | cst.UnaryOperation


def _token(node: cst.CSTNode, tree: Tree, table: confusions.Confusions) -> Iterator[LineChange]:
    text = tree.text(node)
    token = text.strip()
    for other in table.get(token, ()):
        yield from tree.replace(node, text.replace(token, other))


def comparison(node: cst.CSTNode, tree: Tree) -> Iterator[LineChange]:
    """``<`` for ``<=``, ``==`` for ``!=``, ``in`` for ``not in``."""
    if isinstance(node, cst.BaseCompOp):
        yield from _token(node, tree, confusions.COMPARISONS)


def arithmetic(node: cst.CSTNode, tree: Tree) -> Iterator[LineChange]:
    """``+`` for ``-``, ``//`` for ``%``, ``+=`` for ``=``; a minus sign lost or won."""
    if isinstance(node, cst.BaseBinaryOp):
        yield from _token(node, tree, confusions.ARITHMETIC)
    elif isinstance(node, cst.BaseAugOp):
        yield from _token(node, tree, confusions.AUGMENTED)
    elif isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Minus):
        yield from tree.replace(node, tree.text(node.expression))


def boolean(node: cst.CSTNode, tree: Tree) -> Iterator[LineChange]:
    """``and`` for ``or``, a ``not`` lost or won, one side of a condition lost."""
    if isinstance(node, cst.And | cst.Or):
        text = tree.text(node)
        old, new = ("and", "or") if isinstance(node, cst.And) else ("or", "and")
        yield from tree.replace(node, text.replace(old, new))
    elif isinstance(node, cst.BooleanOperation):
        yield from tree.replace(node, tree.text(node.left))
        yield from tree.replace(node, tree.text(node.right))
    elif isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Not):
        yield from tree.replace(node, tree.text(node.expression))
    if _is_condition(node, tree):
        text = tree.text(node)
        simple = not isinstance(node, cst.BooleanOperation | cst.IfExp)
        yield from tree.replace(node, f"not {text}" if simple else f"not ({text})")


def _is_condition(node: cst.CSTNode, tree: Tree) -> bool:
    parent = tree.parent(node)
    if isinstance(node, cst.Comparison | cst.UnaryOperation):
        return False
    if isinstance(parent, cst.If | cst.While | cst.IfExp | cst.CompIf):
        return parent.test is node
    return isinstance(parent, cst.BooleanOperation) and isinstance(node, cst.Name | cst.Call)


def off_by_one(node: cst.CSTNode, tree: Tree) -> Iterator[LineChange]:
    """One more or one less, where a number counts: ranges, indices, bounds, lengths."""
    if not isinstance(node, cst.BaseExpression):
        return
    yield from _plus_minus_one(node, tree)
    if not _counts(node, tree):
        return
    text = tree.text(node)
    if isinstance(node, cst.Integer):
        value = int(text, 0)
        for other in (value + 1, value - 1):
            yield from tree.replace(node, str(other))
    elif not isinstance(node, cst.UnaryOperation | cst.SimpleString | cst.FormattedString):
        bare = not isinstance(tree.parent(node), _TIGHTER_THAN_PLUS)
        for sign in "+-":
            yield from tree.replace(node, f"{text} {sign} 1" if bare else f"({text} {sign} 1)")


def _plus_minus_one(node: cst.BaseExpression, tree: Tree) -> Iterator[LineChange]:
    if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Add | cst.Subtract):
        for one, rest in ((node.right, node.left), (node.left, node.right)):
            if isinstance(one, cst.Integer) and one.value == "1":
                yield from tree.replace(node, tree.text(rest))


def _counts(node: cst.BaseExpression, tree: Tree) -> bool:
    if isinstance(node, cst.Call) and isinstance(node.func, cst.Name) and node.func.value == "len":
        return True
    parent = tree.parent(node)
    if isinstance(parent, cst.Index):
        return isinstance(node, cst.Integer | cst.Name | cst.BinaryOperation)
    if isinstance(parent, cst.Slice):
        return True
    call = tree.parent(parent) if isinstance(parent, cst.Arg) else None
    return isinstance(call, cst.Call) and tree.text(call.func) == "range"


def wrong_slice(node: cst.CSTNode, tree: Tree) -> Iterator[LineChange]:
    """A bound lost, the other half taken, the other end indexed."""
    if isinstance(node, cst.Slice):
        lower = tree.text(node.lower) if node.lower else ""
        upper = tree.text(node.upper) if node.upper else ""
        step = f":{tree.text(node.step)}" if node.step else ""
        if lower and upper:
            yield from tree.replace(node, f"{lower}:{step}")
            yield from tree.replace(node, f":{upper}{step}")
        elif lower or upper:
            yield from tree.replace(node, f"{upper}:{lower}{step}")
            yield from tree.replace(node, f"1:{upper}{step}" if upper else f"{lower}:-1{step}")
        if step == ":-1":
            yield from tree.replace(node, f"{lower}:{upper}")
        elif step:
            yield from tree.replace(node, f"{lower}:{upper}")
            yield from tree.replace(node, f"{lower}:{upper}{step[:1]}-{step[1:]}")
    elif isinstance(node, cst.Index):
        other = {"0": "-1", "-1": "0", "1": "-1"}.get(tree.text(node))
        if other:
            yield from tree.replace(node, other)


def wrong_constant(node: cst.CSTNode, tree: Tree) -> Iterator[LineChange]:
    """Another number, another flag, another separator."""
    text = tree.text(node)
    if isinstance(node, cst.Integer):
        value = int(text, 0)
        for number in (value + 1, value - 1, value * 10, value // 10, value * 2, value // 2):
            if number >= 0:
                yield from tree.replace(node, str(number))
    elif isinstance(node, cst.Float):
        for factor in (10.0, 0.1, 2.0, 0.5):
            yield from tree.replace(node, f"{float(text) * factor:.6g}")
    elif isinstance(node, cst.Name) and text in ("True", "False"):
        yield from tree.replace(node, "False" if text == "True" else "True")
    elif isinstance(node, cst.SimpleString) and "\n" not in text:
        quote, body = node.prefix + node.quote, node.raw_value
        for other in confusions.STRINGS.get(body, ()):
            yield from tree.replace(node, f"{quote}{other}{node.quote}")
        if len(body) > 1 and "\\" not in body and not _is_message(node, tree):
            yield from tree.replace(node, f"{quote}{body[:-1]}{node.quote}")
            yield from tree.replace(node, f"{quote}{body[1:]}{node.quote}")


def _is_message(node: cst.CSTNode, tree: Tree) -> bool:
    """Whether the text is what an exception says: tests seldom look at it."""
    current = tree.parent(node)
    while current is not None and not isinstance(current, cst.BaseSmallStatement):
        current = tree.parent(current)
    return isinstance(current, cst.Raise)


def wrong_initial_value(node: cst.CSTNode, tree: Tree) -> Iterator[LineChange]:
    """A counter, collection or default argument that starts with another value."""
    value: cst.BaseExpression | None = None
    if isinstance(node, cst.Assign):
        value = node.value
    elif isinstance(node, cst.Param):
        value = node.default
    elif isinstance(node, cst.AnnAssign):
        value = node.value
    if value is None:
        return
    text = tree.text(value)
    for other in confusions.INITIAL.get(text, ()):
        yield from tree.replace(value, other)
    if isinstance(value, cst.Subscript) and len(value.slice) == 1:
        yield from tree.replace(value, "0")
        yield from tree.replace(value, "None")


def wrong_variable(node: cst.CSTNode, tree: Tree) -> Iterator[LineChange]:
    """Another variable of the same function."""
    if not isinstance(node, cst.Name) or not tree.is_load(node):
        return
    parent = tree.parent(node)
    known = tree.variables(node)
    if node.value not in known or (isinstance(parent, cst.Call) and parent.func is node):
        return
    for other in known:
        if other not in (node.value, "self", "cls"):
            yield from tree.replace(node, other)


def wrong_method(node: cst.CSTNode, tree: Tree) -> Iterator[LineChange]:
    """``rstrip`` for ``lstrip``, ``max`` for ``min``, ``extend`` for ``append``."""
    if isinstance(node, cst.Call):
        name = node.func.attr if isinstance(node.func, cst.Attribute) else node.func
        if isinstance(name, cst.Name):
            for other in confusions.METHODS.get(name.value, ()):
                yield from tree.replace(name, other)
