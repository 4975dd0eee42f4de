"""Candidate repairs of one line: the injector's operators run backwards.

This is the search space of the ``random`` baseline, which needs no learning. Most operators are symmetric
(:mod:`.confusions`), so that running them on the buggy source offers the repair; here are the others:
what was dropped is put back, what is misspelt gets a near name, what does not parse gets a token.
"""

from __future__ import annotations

import builtins
import difflib
import re
import string
import sys
from collections.abc import Iterator, Sequence

import libcst as cst

from agentic_gym.envs.swe.injection.compiling import LineChecker
from agentic_gym.envs.swe.injection.inject import OPERATORS, NodeOperator, apply
from agentic_gym.envs.swe.injection.tree import LineChange, Tree

_WRAPPERS = (
    *("len", "str", "int", "float", "abs", "sorted", "list", "set", "tuple", "sum"),
    *("reversed", "range", "enumerate", "round", "bool", "max", "min"),
)
_METHODS = ("strip", "lower", "upper", "split", "copy", "rstrip", "lstrip", "title")
_KEYWORDS = {"retrun": "return", "fro": "for", "whlie": "while", "elseif": "elif", "dfe": "def"}
_TYPES = (str, list, dict, set, tuple, int, float, bytes)
_ATTRIBUTES = sorted({name for kind in _TYPES for name in dir(kind) if not name.startswith("_")})
_LETTERS = string.ascii_lowercase + "_"
_VALUE = cst.Name | cst.Call | cst.BinaryOperation | cst.Subscript | cst.Attribute


def inverse_candidates(source: str, line: int | None = None) -> list[str]:
    """Sources that differ from ``source`` in one line and might repair a bug in it.

    Args:
        source: a possibly buggy module; it need not parse.
        line: only changes of this line, from 1; any line if None.

    Returns:
        Whole sources that all compile, each once, without ``source`` itself, ordered by line.
    """
    lines = source.split("\n")
    return [apply(lines, change, "repair").source for change in inverse_changes(source, line)]


def inverse_changes(source: str, line: int | None = None) -> list[LineChange]:
    """As :func:`inverse_candidates`, giving only the changed lines."""
    lines = source.split("\n")
    checker = LineChecker(lines)
    changes = _repairs(source, line) if checker.whole else _syntax_repairs(lines)
    found = {
        change
        for change in changes
        if change.after != lines[change.line - 1] and line in (None, change.line)
    }
    ordered = sorted(found, key=lambda change: (change.line, change.after))
    return [change for change in ordered if checker.accepts(change)]


def _repairs(source: str, line: int | None) -> Iterator[LineChange]:
    tree = Tree(cst.parse_module(source))
    forward = [op for op in OPERATORS if op.error_class not in ("syntax", "import", "name")]
    for operator in (*forward, *_BACKWARD):
        for node in tree.nodes_on(line):
            yield from operator.rewrite(node, tree)


def _syntax_repairs(lines: Sequence[str]) -> Iterator[LineChange]:
    """Puts a token into a line, in every place where one of its kind can be missing."""
    for number, text in enumerate(lines, 1):
        if not text.strip():
            continue
        yield LineChange(number, text + ":")
        first = text.split()[0]
        if first in _KEYWORDS:
            yield LineChange(number, text.replace(first, _KEYWORDS[first], 1))
        for at in range(len(text) - len(text.lstrip()), len(text) + 1):
            before, after = text[:at], text[at:]
            inside_word = re.search(r"\w$", before) and re.match(r"\w", after)
            for token in "\"'" if inside_word else ")]}\"'":
                yield LineChange(number, before + token + after)
            if re.match(r"=[^=]", after) and not re.search(r"[=<>!]$", before):
                yield LineChange(number, f"{before}={after}")


def _returned(node: cst.CSTNode, tree: Tree) -> Iterator[LineChange]:
    """A value that should have been returned, or returned instead of None."""
    if isinstance(node, cst.Expr):
        yield from tree.replace(node, f"return {tree.text(node)}")
    elif isinstance(node, cst.Return) and (node.value is None or tree.text(node.value) == "None"):
        for name in (*tree.variables(node), "True", "False"):
            yield from tree.replace(node, f"return {name}")


def _wrapped(node: cst.CSTNode, tree: Tree) -> Iterator[LineChange]:
    """A call that was dropped around a value, or one more or less."""
    if not isinstance(node, _VALUE) or not _is_value(node, tree):
        return
    text = tree.text(node)
    for name in (*_WRAPPERS, *tree.functions):
        yield from tree.replace(node, f"{name}({text})")
    if not isinstance(node, cst.BinaryOperation):
        for name in _METHODS:
            yield from tree.replace(node, f"{text}.{name}()")
        yield from tree.replace(node, f"-{text}")
    parent = tree.parent(node)
    bare = not isinstance(parent, cst.BinaryOperation | cst.UnaryOperation)
    for sign in "+-":
        yield from tree.replace(node, f"{text} {sign} 1" if bare else f"({text} {sign} 1)")


def _is_value(node: cst.CSTNode, tree: Tree) -> bool:
    parent = tree.parent(node)
    if isinstance(parent, cst.Call | cst.Attribute | cst.Decorator | cst.Expr | cst.Raise):
        return False
    return tree.is_load(node)


def _renamed(node: cst.CSTNode, tree: Tree) -> Iterator[LineChange]:
    """A misspelt name gets the names that are nearest; a misspelt definition gets a letter back."""
    if not isinstance(node, cst.Name):
        return
    parent = tree.parent(node)
    if isinstance(parent, cst.FunctionDef) and parent.name is node:
        for letter in _LETTERS:
            yield from tree.replace(node, f"{node.value[:-1]}{letter}{node.value[-1]}")
        return
    if isinstance(parent, cst.Attribute) and parent.attr is node:
        known: list[str] = [*_ATTRIBUTES, *tree.names]
    elif isinstance(parent, cst.ImportAlias | cst.ImportFrom):
        known = [*sorted(sys.stdlib_module_names), *tree.imported_members]
    elif tree.is_load(node):
        known = [*tree.names, *dir(builtins)]
    else:
        return
    for name in difflib.get_close_matches(node.value, known, n=4, cutoff=0.6):
        yield from tree.replace(node, name)


def _typed(node: cst.CSTNode, tree: Tree) -> Iterator[LineChange]:
    """A missing call or argument, a number in quotes, an index written as a call."""
    if isinstance(node, cst.Attribute) and tree.is_load(node):
        yield from tree.replace(node, f"{tree.text(node)}()")
    elif isinstance(node, cst.SimpleString) and re.fullmatch(r"\d+", node.raw_value):
        yield from tree.replace(node, node.raw_value)
    elif isinstance(node, cst.Call):
        text = tree.text(node)
        opening = len(tree.text(node.func))
        yield from tree.replace(node, f"{text[:opening]}[{text[opening + 1 : -1]}]")
        if node.args:
            numbers = ("0", "1", "-1", "2", '""', '" "', "None")
            for name in (*tree.variables(node), *numbers):
                yield from tree.replace(node, f"{text[:-1]}, {name})")


def _conditioned(node: cst.CSTNode, tree: Tree) -> Iterator[LineChange]:
    """A ``not`` around a condition; ``=`` for ``+=``; a lost statement; a slice without its step."""
    if isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Not):
        text = tree.text(node.expression)
        yield from tree.replace(node, text[1:-1] if text.startswith("(") else text)
    elif isinstance(node, cst.Assign) and len(node.targets) == 1:
        start = tree.span(node.targets[0].target)[1]
        equals = tree.source.index("=", start)
        for sign in ("+", "-", "*", "//", "%"):
            yield from tree.splice(equals, equals, sign)
    elif isinstance(node, cst.Pass):
        for name in tree.variables(node):
            for other in tree.variables(node):
                if other != name:
                    yield from tree.replace(node, f"{name}.append({other})")
        yield from tree.replace(node, "break")
        yield from tree.replace(node, "continue")
    elif isinstance(node, cst.Slice) and node.step is None:
        yield from tree.replace(node, f"{tree.text(node).rstrip(':')}::-1")
        for bound in ("1", "-1", *tree.variables(node)):
            yield from tree.replace(node, f"{tree.text(node)}{bound}")
            yield from tree.replace(node, f"{bound}{tree.text(node)}")


_BACKWARD = (
    NodeOperator("returned", "logic", _returned),
    NodeOperator("wrapped", "logic", _wrapped),
    NodeOperator("renamed", "name", _renamed),
    NodeOperator("typed", "type", _typed),
    NodeOperator("conditioned", "logic", _conditioned),
)
