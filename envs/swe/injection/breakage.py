"""Operators whose bug has a class of its own: syntax, imports, names, types."""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from agentic_gym.envs.swe.injection.tree import LineChange, Tree

_COMPOUND = cst.If | cst.Else | cst.For | cst.While | cst.FunctionDef | cst.ClassDef | cst.Try
_KEYWORDS = {"return": "retrun", "for": "fro", "while": "whlie", "elif": "elseif", "def": "dfe"}


def syntax(node: cst.CSTNode, tree: Tree) -> Iterator[LineChange]:
    """A colon, bracket or quote is missing, ``=`` stands for ``==``, a keyword is misspelt."""
    if isinstance(node, _COMPOUND):
        yield from _without_colon(node, tree)
    elif isinstance(node, cst.Call | cst.Subscript | cst.SimpleString):
        yield from tree.replace(node, tree.text(node)[:-1])
    elif isinstance(node, cst.Equal) and isinstance(_statement(node, tree), cst.If | cst.While):
        yield from tree.replace(node, tree.text(node).replace("==", "="))
    elif isinstance(node, cst.Return) and node.value is not None:
        yield from tree.replace(node, tree.text(node).replace("return", "retrun", 1))


def _without_colon(node: cst.CSTNode, tree: Tree) -> Iterator[LineChange]:
    start, _ = tree.span(node)
    number = tree.source.count("\n", 0, start) + 1
    # The span of a compound statement begins at the blank lines and comments before it.
    while number < len(tree.lines) and not _is_header(tree.lines[number - 1]):
        number += 1
    line = tree.lines[number - 1]
    if line.endswith(":"):
        yield LineChange(number, line[:-1])
        word = line.split()[0]
        if word in _KEYWORDS:
            yield LineChange(number, line.replace(word, _KEYWORDS[word], 1))


def _is_header(line: str) -> bool:
    return re.match(r"\s*(if|elif|else|for|while|def|class|try)\b", line) is not None


def _statement(node: cst.CSTNode, tree: Tree) -> cst.CSTNode | None:
    current = tree.parent(node)
    while current is not None and not isinstance(
        current, cst.BaseSmallStatement | cst.BaseCompoundStatement
    ):
        current = tree.parent(current)
    return current


def misspell(name: str) -> str | None:
    """The name without its last letter but one, None if it is too short to look like a slip.

    >>> misspell("numeral")
    'numerl'
    """
    return name[:-2] + name[-1] if len(name) >= 4 and name.isidentifier() else None


def imports(node: cst.CSTNode, tree: Tree) -> Iterator[LineChange]:
    """A module, an imported name, or a function that others import is misspelt."""
    at_top = isinstance(tree.parent(node), cst.Module)
    if isinstance(node, cst.ImportAlias) or (isinstance(node, cst.FunctionDef) and at_top):
        yield from _misspelt(node.name, tree)
    elif isinstance(node, cst.ImportFrom) and isinstance(node.module, cst.Name):
        yield from _misspelt(node.module, tree)


def _misspelt(node: cst.CSTNode, tree: Tree) -> Iterator[LineChange]:
    wrong = misspell(tree.text(node))
    if wrong is not None:
        yield from tree.replace(node, wrong)


def name(node: cst.CSTNode, tree: Tree) -> Iterator[LineChange]:
    """A name or attribute is misspelt where it is used."""
    if not isinstance(node, cst.Name) or node.value in ("True", "False", "None", "self", "cls"):
        return
    parent = tree.parent(node)
    attribute = isinstance(parent, cst.Attribute) and parent.attr is node
    if attribute or tree.is_load(node):
        yield from _misspelt(node, tree)


def types(node: cst.CSTNode, tree: Tree) -> Iterator[LineChange]:
    """An argument or the call itself is missing, a number is text, an index is a call."""
    if isinstance(node, cst.Call) and not isinstance(tree.parent(node), cst.Expr | cst.Raise):
        if len(node.args) >= 2:
            last = tree.span(node.args[-2].value)[1]
            yield from tree.splice(last, tree.span(node.args[-1])[1], "")
        if isinstance(node.func, cst.Attribute) and not node.args:
            yield from tree.replace(node, tree.text(node.func))
    elif isinstance(node, cst.Integer) and isinstance(
        tree.parent(node), cst.BinaryOperation | cst.AugAssign | cst.ComparisonTarget
    ):
        yield from tree.replace(node, f'"{tree.text(node)}"')
    elif isinstance(node, cst.Subscript) and isinstance(node.slice[0].slice, cst.Index):
        start, _ = tree.span(node)
        opening = tree.span(node.value)[1]
        inner = tree.source[opening : tree.span(node)[1]]
        if inner.startswith("[") and inner.endswith("]") and tree.is_load(node):
            yield from tree.replace(node, f"{tree.source[start:opening]}({inner[1:-1]})")
