import pytest

from agentic_gym.envs.swe.injection import inverse_candidates, inverse_changes
from agentic_gym.envs.swe.injection.compiling import LineChecker, compiles
from agentic_gym.envs.swe.injection.tree import LineChange

RIGHT = """def count(items, limit):
    found = 0
    for item in items[1:]:
        if len(item) <= limit and item:
            found += 1
    return found
"""


@pytest.mark.parametrize(
    ("right", "buggy"),
    [
        ("    found = 0", "    found = 1"),
        ("    for item in items[1:]:", "    for item in items[2:]:"),
        ("    for item in items[1:]:", "    for item in items[:1]:"),
        ("    for item in items[1:]:", "    for item in items[1:]"),
        ("    for item in items[1:]:", "    for item in items[1::"),
        ("    for item in items[1:]:", "    for item in itms[1:]:"),
        ("        if len(item) <= limit and item:", "        if item <= limit and item:"),
        ("        if len(item) <= limit and item:", "        if len(item) <= limit or item:"),
        ("        if len(item) <= limit and item:", "        if len(item) < limit and item:"),
        ("        if len(item) <= limit and item:", "        if len(item) <= found and item:"),
        ("        if len(item) <= limit and item:", "        if len(item <= limit and item:"),
        (
            "        if len(item) <= limit and item:",
            "        if not (len(item) <= limit and item):",
        ),
        ("            found += 1", "            found -= 1"),
        ("            found += 1", '            found += "1"'),
        ("            found += 1", "            found = 1"),
        ("    return found", "    found"),
        ("    return found", "    return None"),
        ("    return found", "    retrun found"),
        ("def count(items, limit):", "def cout(items, limit):"),
    ],
)
def test_the_repair_is_among_the_candidates(right: str, buggy: str) -> None:
    line = RIGHT.split("\n").index(right) + 1
    source = RIGHT.replace(right, buggy)
    assert source != RIGHT
    assert RIGHT in inverse_candidates(source)
    assert RIGHT in inverse_candidates(source, line)


def test_candidates_compile_differ_in_one_line_and_come_once() -> None:
    for source in (RIGHT, RIGHT.replace("len(item)", "len(item"), ""):
        found = inverse_candidates(source)
        assert len(set(found)) == len(found)
        for candidate in found:
            assert compiles(candidate)
            pairs = zip(source.split("\n"), candidate.split("\n"), strict=True)
            assert sum(a != b for a, b in pairs) == 1


def test_a_line_restricts_the_search() -> None:
    assert {change.line for change in inverse_changes(RIGHT, 4)} == {4}
    assert set(inverse_changes(RIGHT, 4)) <= set(inverse_changes(RIGHT))
    assert inverse_changes(RIGHT, 99) == []


def test_a_broken_source_is_only_searched_where_it_is_broken() -> None:
    source = "def f(a):\n    return a\n\n\ndef g(b)\n    return b\n"
    assert {change.line for change in inverse_changes(source)} == {5}


@pytest.mark.parametrize(
    "source",
    [
        RIGHT,
        'text = """\ndef f(:\n"""\nx = 1\n',
        "@d\ndef f():\n    pass\nelse_ = 1\n",
        "if a:\n    b\nelse:\n    c\n",
        "x = (\n1\n)\n",
        "def f(:\n    pass\n",
    ],
)
def test_the_checker_agrees_with_the_compiler(source: str) -> None:
    lines = source.split("\n")
    checker = LineChecker(lines)
    assert checker.whole == compiles(source)
    for number in range(1, len(lines) + 1):
        for text in ("", "x = 1", "    y = 2", "    return 3", "z = (", "def f():", "else:"):
            whole = "\n".join([*lines[: number - 1], text, *lines[number:]])
            assert checker.accepts(LineChange(number, text)) <= compiles(whole), (number, text)
