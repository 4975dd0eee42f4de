from __future__ import annotations

import ast
import random
from typing import Any

import pytest

from agentic_gym.envs.swe.canaries import counterfeit, make_canaries, perturb

TESTS = '''\
"""Hidden."""
import pytest
from m import f


def helper(x):
    return x


# a comment
def test_one():
    assert f(1) == 2
    assert f("é") == "é!"


@pytest.mark.parametrize("x", [1, 2])
def test_two(x):
    assert f(x) == 7


def test_three():
    assert f(0) is True


def test_four():
    result = helper(f(2))
    assert result == [
        1,
        "b",
    ]


class TestMore:
    def test_five(self):
        assert f(5) == 5
'''


def namespace(source: str, answers: dict[Any, Any]) -> dict[str, Any]:
    scope: dict[str, Any] = {"f": answers.__getitem__}
    body = "\n".join(line for line in source.splitlines() if line != "from m import f")
    exec(body, scope)
    return scope


def test_counterfeits_fail_for_right_code_and_for_code_that_is_equal_to_nothing() -> None:
    made = counterfeit(TESTS, random.Random(0), 3)
    assert made is not None
    source, names = made
    assert names == ("test_one", "test_four")
    for answers in ({1: 2, "é": "é!", 2: [1, "b"]}, {1: None, "é": None, 2: None}):
        scope = namespace(source, answers)
        for name in names:
            with pytest.raises(AssertionError):
                scope[name]()


def test_counterfeits_differ_from_the_original_in_one_literal_each() -> None:
    made = counterfeit(TESTS, random.Random(1), 3)
    assert made is not None
    before = {n.name: n for n in ast.parse(TESTS).body if isinstance(n, ast.FunctionDef)}
    after = {n.name: n for n in ast.parse(made[0]).body if isinstance(n, ast.FunctionDef)}
    assert set(after) == set(before)
    assert all(ast.dump(after[name]) == ast.dump(before[name]) for name in {*before} - {*made[1]})
    for name in made[1]:
        pairs = zip(before[name].body, after[name].body, strict=True)
        assert sum(ast.dump(old) != ast.dump(new) for old, new in pairs) == 1


def test_long_files_keep_only_the_counterfeits() -> None:
    made = counterfeit(TESTS + "# more\n" * 200, random.Random(1), 1)
    assert made is not None
    body = ast.parse(made[0]).body
    kept = [node.name for node in body if isinstance(node, (ast.FunctionDef, ast.ClassDef))]
    assert kept == ["helper", made[1][0]]


def test_a_counterfeit_catches_objects_equal_to_everything() -> None:
    class Anything:
        def __eq__(self, other: object) -> bool:
            return True

        __hash__ = None  # type: ignore[assignment]

    made = counterfeit(TESTS, random.Random(2), 3)
    assert made is not None
    scope = namespace(made[0], {1: Anything(), "é": Anything(), 2: Anything()})
    for name in made[1]:
        scope[name]()  # passes, which no honest code makes it do


def test_files_without_a_usable_assertion_give_none() -> None:
    assert counterfeit("def test_a():\n    assert f(1) is None\n", random.Random(0), 3) is None
    assert counterfeit("def test_a(:\n", random.Random(0), 3) is None


@pytest.mark.parametrize(
    "value",
    [
        3,
        2.5,
        "",
        "text",
        b"raw",
        [],
        [1, None],
        (1, "a"),
        {},
        {"k": 1},
        {"k": None},
        {1, 2},
        [[True]],
    ],
)
def test_perturb_changes_the_value_and_keeps_its_type(value: Any) -> None:
    for seed in range(20):
        other = perturb(value, random.Random(seed))
        assert type(other) is type(value)
        assert other != value
        assert ast.literal_eval(repr(other)) == other


@pytest.mark.parametrize("value", [None, True, False, ...])
def test_perturb_leaves_small_value_spaces(value: Any) -> None:
    assert perturb(value, random.Random(0)) is None


def test_two_sets_with_fresh_names() -> None:
    hidden = {"tests/test_m.py": TESTS}
    first, second = make_canaries(hidden, random.Random(0))
    paths = [*first.files, *second.files]
    assert len(set(paths)) == 4
    assert all(path.startswith("tests/test_m_") and path not in hidden for path in paths)
    assert set(first.plain) < set(first.ids)
    other = make_canaries(hidden, random.Random(1))[0]
    assert not set(first.files) & set(other.files)


def test_plain_canaries_fail_by_themselves() -> None:
    only = make_canaries({"t.py": "def test_a():\n    pass\n"}, random.Random(3))[0]
    assert only.ids == only.plain
    scope: dict[str, Any] = {}
    exec(next(iter(only.files.values())), scope)
    for node_id in only.plain:
        with pytest.raises((AssertionError, ValueError)):
            scope[node_id.split("::")[1]]()
