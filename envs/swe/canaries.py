"""Counterfeit tests: copies of hidden tests that expect a wrong value, and so must fail.

Code under test runs in the process that tests it. Code that makes tests pass without doing what they
ask (by patching pytest, by objects equal to everything, by reading the expected value from its caller)
cannot tell a counterfeit from the real test beside it, passes both, and is found out. Pure; the random
source is an argument. Rejected: only fixed ``assert False`` canaries, which such code recognises or
never meets.
"""

from __future__ import annotations

import ast
import random
from collections.abc import Container, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, TypeGuard

_SHORT_LINES = 200
_LETTERS = "abcdefghijklmnopqrstuvwxyz"


@dataclass(frozen=True, slots=True)
class Canaries:
    """Test files that must fail.

    Attributes:
        files: path to source.
        ids: node ids that must each be reported as failed once the file could be collected.
        plain: the ids among them that do not touch the code under test.
    """

    files: Mapping[str, str]
    ids: tuple[str, ...]
    plain: tuple[str, ...]


def make_canaries(
    hidden: Mapping[str, str], rng: random.Random, *, per_file: int = 3
) -> tuple[Canaries, ...]:
    """Two sets of canaries for the hidden tests: one to run before them, one after.

    Args:
        hidden: hidden test files, path to source.
        rng: chooses names, tests and wrong values; unpredictable in grading.
        per_file: number of counterfeits a set.
    """
    taken = set(hidden)
    return tuple(_one_set(hidden, rng, per_file, taken) for _ in range(2))


def counterfeit(source: str, rng: random.Random, limit: int) -> tuple[str, tuple[str, ...]] | None:
    """A copy of a test file in which up to ``limit`` tests have one wrong expectation each.

    A long file keeps only those tests: it would cost as much time as the real one. Changed are
    assertions ``assert expression == literal`` of plain test functions whose literal has a large space
    of other values (not booleans or None, which wrong code may happen to return).

    Returns:
        The new source and the names of the changed tests, or None where no test can be counterfeited.
    """
    try:
        module = ast.parse(source)
    except SyntaxError:
        return None
    tests = [node for node in module.body if _is_test(node)]
    wrong = {node.name: found for node in tests if (found := _wrong_expectation(node, rng))}
    if not wrong:
        return None
    chosen = set(rng.sample(sorted(wrong), min(limit, len(wrong))))
    lines = source.encode("utf-8", "surrogateescape").splitlines(keepends=True)
    shorten = len(lines) > _SHORT_LINES
    for node in reversed(module.body):
        if isinstance(node, ast.ClassDef):
            if shorten and node.name.startswith("Test"):
                _cut(lines, node, b"")
        elif not _is_test(node):
            continue
        elif node.name not in chosen:
            if shorten:
                _cut(lines, node, b"")
        else:
            literal, value = wrong[node.name]
            _cut(lines, literal, repr(value).encode("utf-8", "surrogateescape"))
    text = b"".join(lines).decode("utf-8", "surrogateescape")
    return text, tuple(node.name for node in tests if node.name in chosen)


def perturb(value: Any, rng: random.Random) -> Any:
    """Another value of the same shape, far from the given one; None where there is no good one."""
    if isinstance(value, bool) or value is None or value is Ellipsis:
        return None
    if isinstance(value, int):
        return value + rng.randint(1_000, 1_000_000)
    if isinstance(value, (float, complex)):
        return value + rng.uniform(1e3, 1e6)
    if isinstance(value, str):
        at = rng.randint(0, len(value))
        return value[:at] + _word(rng, 6) + value[at:]
    if isinstance(value, bytes):
        return value + _word(rng, 6).encode()
    if isinstance(value, (list, tuple)):
        items = list(value)
        places = [(at, other) for at, item in enumerate(items) if (other := perturb(item, rng))]
        if places:
            at, other = rng.choice(places)
            items[at] = other
        else:
            items.append(_word(rng, 6))
        return type(value)(items)
    if isinstance(value, dict):
        places = [(key, other) for key, item in value.items() if (other := perturb(item, rng))]
        key, other = (
            rng.choice(places) if places else (_word(rng, 6), rng.randint(1_000, 1_000_000))
        )
        return {**value, key: other}
    if isinstance(value, set):
        return {*value, rng.randint(1_000_000, 2_000_000)}
    return None


def fresh_name(path: str, rng: random.Random, taken: Container[str]) -> str:
    """A name like that of a test file, beside it, that nobody can know before."""
    pure = PurePosixPath(path)
    while (name := str(pure.with_name(f"{pure.stem}_{_word(rng, 5)}.py"))) in taken:
        pass
    return name


def _one_set(
    hidden: Mapping[str, str], rng: random.Random, per_file: int, taken: set[str]
) -> Canaries:
    paths = sorted(hidden)
    rng.shuffle(paths)
    model, made = "tests/test_module.py", None
    for path in paths:
        made = counterfeit(hidden[path], rng, per_file)
        model = path
        if made is not None:
            break
    files: dict[str, str] = {}
    ids: list[str] = []
    if made is not None:
        path = fresh_name(model, rng, taken)
        taken.add(path)
        files[path] = made[0]
        ids += [f"{path}::{name}" for name in made[1]]
    path = fresh_name(model, rng, taken)
    taken.add(path)
    files[path], names = _plain(rng)
    plain = tuple(f"{path}::{name}" for name in names)
    return Canaries(files, (*ids, *plain), plain)


def _plain(rng: random.Random) -> tuple[str, tuple[str, str]]:
    """Tests that fail without the code under test: also where it cannot be imported."""
    first, second = f"test_{_word(rng, 8)}", f"test_{_word(rng, 8)}"
    source = (
        f"def {first}():\n    value = {_word(rng, 8)!r}.upper()\n    assert value == {_word(rng, 8)!r}\n\n\n"
        f"def {second}():\n    raise ValueError({_word(rng, 8)!r})\n"
    )
    return source, (first, second)


def _word(rng: random.Random, length: int) -> str:
    return "".join(rng.choice(_LETTERS) for _ in range(length))


def _is_test(node: ast.stmt) -> TypeGuard[ast.FunctionDef]:
    return isinstance(node, ast.FunctionDef) and node.name.startswith("test")


def _wrong_expectation(node: ast.FunctionDef, rng: random.Random) -> tuple[ast.expr, Any] | None:
    if node.decorator_list:
        return None
    places: list[tuple[ast.expr, Any]] = []
    for statement in node.body:
        match statement:
            case ast.Assert(test=ast.Compare(left=left, ops=[ast.Eq()], comparators=[right])):
                if isinstance(left, ast.Constant):
                    continue
                try:
                    other = perturb(ast.literal_eval(right), rng)
                except (ValueError, TypeError, SyntaxError):
                    continue
                if other is not None:
                    places.append((right, other))
    return rng.choice(places) if places else None


def _cut(lines: list[bytes], node: ast.stmt | ast.expr, put: bytes) -> None:
    """Replaces the source of a node (ast offsets are in UTF-8 bytes)."""
    decorators = getattr(node, "decorator_list", [])
    first = min([node.lineno, *(item.lineno for item in decorators)]) - 1
    start = node.col_offset if first == node.lineno - 1 else 0
    last = (node.end_lineno or node.lineno) - 1
    rest = lines[last][node.end_col_offset or 0 :]
    lines[first : last + 1] = [lines[first][:start] + put + rest]
