"""A parsed module whose nodes can be replaced in the text, one line at a time.

Bugs are spliced into the source at the node's span instead of being rendered from a changed tree: what
the author wrote stays byte for byte, also inside f-strings and multi-line calls, and a change that would
touch two lines is seen and dropped. Rendering a changed tree (``deep_replace``) gave the same text at ten
times the cost.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import libcst as cst
from libcst.metadata import (
    ExpressionContext,
    ExpressionContextProvider,
    MetadataWrapper,
    ParentNodeProvider,
    WhitespaceInclusivePositionProvider,
)


@dataclass(frozen=True, slots=True)
class LineChange:
    """One line of a source gets another text.

    Attributes:
        line: number of the line, from 1.
        after: its new text, without the line end.
    """

    line: int
    after: str


class Tree:
    """One module: its nodes in source order, their parents, their text.

    Annotations and docstrings are left out of ``nodes``: a bug there changes no behaviour.
    """

    def __init__(self, module: cst.Module) -> None:
        self.source = module.code
        self.lines = self.source.split("\n")
        wrapper = MetadataWrapper(module)
        self._spans = wrapper.resolve(WhitespaceInclusivePositionProvider)
        self._parents = wrapper.resolve(ParentNodeProvider)
        self._contexts = wrapper.resolve(ExpressionContextProvider)
        starts = [0]
        for line in self.lines:
            starts.append(starts[-1] + len(line) + 1)
        self._starts = starts
        collector = _Collector()
        wrapper.module.visit(collector)
        self.nodes: list[cst.CSTNode] = collector.nodes
        self._scopes: dict[cst.CSTNode, list[str]] = {}

    @cached_property
    def names(self) -> list[str]:
        """Every name in the module, sorted."""
        return sorted({node.value for node in self.nodes if isinstance(node, cst.Name)})

    @cached_property
    def functions(self) -> list[str]:
        """Names of the functions that the module defines, in source order."""
        return [node.name.value for node in self.nodes if isinstance(node, cst.FunctionDef)]

    @cached_property
    def imported_members(self) -> list[str]:
        """Public members of the standard modules that the module imports from, sorted."""
        found: set[str] = set()
        for node in self.nodes:
            module = node.module.value if isinstance(node, cst.ImportFrom) and node.module else ""
            # Only the standard library: nothing of a task may be imported here.
            if module in sys.stdlib_module_names and module not in ("this", "antigravity"):
                found.update(dir(importlib.import_module(str(module))))
        return sorted(name for name in found if not name.startswith("_"))

    def nodes_on(self, line: int | None) -> list[cst.CSTNode]:
        """The nodes that touch a line, or all nodes if it is None."""
        if line is None:
            return self.nodes
        spans = self._spans
        return [n for n in self.nodes if spans[n].start.line <= line <= spans[n].end.line]

    def parent(self, node: cst.CSTNode) -> cst.CSTNode | None:
        """The node around this one, None for the module."""
        return self._parents.get(node)

    def line(self, node: cst.CSTNode) -> int:
        """Number of the line on which the node starts, from 1."""
        return int(self._spans[node].start.line)

    def span(self, node: cst.CSTNode) -> tuple[int, int]:
        """Offsets in the source, with the node's own parentheses and whitespace."""
        where = self._spans[node]
        return (
            self._starts[where.start.line - 1] + where.start.column,
            self._starts[where.end.line - 1] + where.end.column,
        )

    def text(self, node: cst.CSTNode) -> str:
        """The node as the author wrote it."""
        start, end = self.span(node)
        return self.source[start:end]

    def replace(self, node: cst.CSTNode, text: str) -> Iterator[LineChange]:
        """The change that writes ``text`` over the node; nothing if it is not a change of one line."""
        start, end = self.span(node)
        yield from self.splice(start, end, text)

    def splice(self, start: int, end: int, text: str) -> Iterator[LineChange]:
        """As :meth:`replace`, over a range of offsets."""
        old, new = self.source[start:end], text
        if old == new or old.count("\n") != new.count("\n"):
            return
        lines = (self.source[:start] + new + self.source[end:]).split("\n")
        changed = [i for i, (a, b) in enumerate(zip(self.lines, lines, strict=True)) if a != b]
        if len(changed) == 1:
            yield LineChange(changed[0] + 1, lines[changed[0]])

    def is_load(self, node: cst.CSTNode) -> bool:
        """Whether the name or expression is read here (not written, deleted or defined)."""
        parent = self.parent(node)
        if isinstance(parent, cst.NameItem | cst.ImportAlias | cst.ImportFrom):
            return False
        if isinstance(parent, cst.Arg) and parent.keyword is node:
            return False
        if isinstance(parent, cst.Attribute) and parent.attr is node:
            return False
        return self._contexts.get(node, ExpressionContext.LOAD) is ExpressionContext.LOAD

    def function(self, node: cst.CSTNode) -> cst.CSTNode | None:
        """The innermost function (or None, at module level) whose body or header holds the node."""
        current = self.parent(node)
        while current is not None and not isinstance(current, cst.FunctionDef):
            current = self.parent(current)
        return current

    def variables(self, node: cst.CSTNode) -> list[str]:
        """Names that the function around the node binds, in the order of their first binding."""
        function = self.function(node)
        if function is None:
            return []
        if function not in self._scopes:
            found: dict[str, None] = {}
            for other in self.nodes:
                if isinstance(other, cst.Name) and self.function(other) is function:
                    parent = self.parent(other)
                    bound = isinstance(parent, cst.Param) and parent.name is other
                    stored = self._contexts.get(other) is ExpressionContext.STORE
                    if bound or (stored and not self._is_inner(other)):
                        found.setdefault(other.value)
            self._scopes[function] = list(found)
        return self._scopes[function]

    def _is_inner(self, name: cst.Name) -> bool:
        """Whether the name is bound by a comprehension, or names the function itself."""
        current = self.parent(name)
        if isinstance(current, cst.FunctionDef | cst.ClassDef):
            return True
        while isinstance(current, cst.Tuple | cst.Element | cst.List):
            current = self.parent(current)
        return isinstance(current, cst.CompFor)


class _Collector(cst.CSTVisitor):
    def __init__(self) -> None:
        super().__init__()
        self.nodes: list[cst.CSTNode] = []

    def on_visit(self, node: cst.CSTNode) -> bool:
        if isinstance(node, cst.Annotation) or _is_docstring(node):
            return False
        self.nodes.append(node)
        return True


def _is_docstring(node: cst.CSTNode) -> bool:
    return isinstance(node, cst.Expr) and isinstance(
        node.value, cst.SimpleString | cst.ConcatenatedString
    )
