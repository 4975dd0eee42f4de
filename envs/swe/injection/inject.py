"""The bug injector: every one-line bug that the operators can write into a source.

An operator is a small generator on one node (:mod:`.values`, :mod:`.structure`, :mod:`.breakage`); here
they become objects with a name and an expected error class, and are run over a whole module.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

import libcst as cst

from agentic_gym.envs.swe.injection import breakage, structure, values
from agentic_gym.envs.swe.injection.compiling import LineChecker
from agentic_gym.envs.swe.injection.tree import LineChange, Tree
from agentic_gym.envs.swe.task import ErrorClass
from agentic_gym.errors import TaskError

Rewrite = Callable[[cst.CSTNode, Tree], Iterator[LineChange]]


@dataclass(frozen=True, slots=True)
class Mutation:
    """A source with one line changed.

    Attributes:
        source: the whole changed source; as many lines as the original.
        operator: name of the operator that wrote it.
        line: number of the changed line, from 1.
        before: the line in the original.
        after: the line now.
    """

    source: str
    operator: str
    line: int
    before: str
    after: str


class Operator(Protocol):
    """One kind of bug."""

    @property
    def name(self) -> str:
        """How it is called in tasks and reports."""
        ...

    @property
    def error_class(self) -> ErrorClass:
        """What its bugs usually look like; the tests decide in the end."""
        ...

    def candidates(self, module: cst.Module) -> list[Mutation]:
        """Every bug of this kind in the module, in source order."""
        ...


@dataclass(frozen=True, slots=True)
class NodeOperator:
    """An :class:`Operator` that looks at one node at a time."""

    name: str
    error_class: ErrorClass
    rewrite: Rewrite

    def candidates(self, module: cst.Module) -> list[Mutation]:
        """Every bug of this kind in the module, in source order, each text once.

        Only an operator of class "syntax" writes what does not compile, and it writes nothing else.
        """
        tree = _tree(module)
        checker = LineChecker(tree.lines)
        changes = dict.fromkeys(
            change for node in tree.nodes for change in self.rewrite(node, tree)
        )
        return [
            apply(tree.lines, change, self.name)
            for change in changes
            if change.after != tree.lines[change.line - 1]
            and checker.accepts(change) != (self.error_class == "syntax")
        ]


OPERATORS: tuple[NodeOperator, ...] = (
    NodeOperator("comparison", "logic", values.comparison),
    NodeOperator("off_by_one", "logic", values.off_by_one),
    NodeOperator("wrong_slice", "logic", values.wrong_slice),
    NodeOperator("wrong_initial_value", "logic", values.wrong_initial_value),
    NodeOperator("arithmetic", "logic", values.arithmetic),
    NodeOperator("boolean", "logic", values.boolean),
    NodeOperator("wrong_constant", "logic", values.wrong_constant),
    NodeOperator("wrong_method", "logic", values.wrong_method),
    NodeOperator("wrong_variable", "logic", values.wrong_variable),
    NodeOperator("missing_return", "logic", structure.missing_return),
    NodeOperator("swapped_arguments", "logic", structure.swapped_arguments),
    NodeOperator("dropped_call", "logic", structure.dropped_call),
    NodeOperator("exception_type", "exception", structure.exception_type),
    NodeOperator("loop_control", "logic", structure.loop_control),
    NodeOperator("syntax", "syntax", breakage.syntax),
    NodeOperator("import", "import", breakage.imports),
    NodeOperator("name", "name", breakage.name),
    NodeOperator("type", "type", breakage.types),
)
"""All operators. Where two of them write the same text, the first one has it."""


def mutate_all(source: str, operators: Sequence[Operator] = OPERATORS) -> list[Mutation]:
    """Every bug that the operators can write into ``source``, each text once.

    The order depends on the text and the operators alone: operators as given, nodes in source order.

    Raises:
        TaskError: the source does not parse.
    """
    try:
        module = cst.parse_module(source)
    except cst.ParserSyntaxError as error:
        raise TaskError(
            f"line {error.raw_line} of the source does not parse: {error.message}"
        ) from error
    found: dict[str, Mutation] = {}
    for operator in operators:
        for mutation in operator.candidates(module):
            found.setdefault(mutation.source, mutation)
    return list(found.values())


def apply(lines: Sequence[str], change: LineChange, operator: str) -> Mutation:
    """The mutation that makes one change to a source given as its lines."""
    index = change.line - 1
    text = "\n".join([*lines[:index], change.after, *lines[index + 1 :]])
    return Mutation(text, operator, change.line, lines[index], change.after)


@lru_cache(maxsize=4)
def _tree(module: cst.Module) -> Tree:
    """The tree of a module, made once for all operators."""
    return Tree(module)
