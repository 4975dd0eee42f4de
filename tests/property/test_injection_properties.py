from hypothesis import given, settings
from hypothesis import strategies as st

from agentic_gym.envs.swe.injection import inverse_changes, mutate_all
from agentic_gym.envs.swe.injection.compiling import LineChecker, compiles
from agentic_gym.envs.swe.injection.selection import split_lines
from agentic_gym.envs.swe.injection.tree import LineChange
from agentic_gym.envs.swe.pocket import pocket_modules

SOURCES = {module.name: module.source for module in pocket_modules()}
NAMES = st.sampled_from(sorted(SOURCES))


@settings(deadline=None, derandomize=True, max_examples=4)
@given(NAMES)
def test_every_bug_of_every_module_is_one_line(name: str) -> None:
    lines = SOURCES[name].split("\n")
    mutations = mutate_all(SOURCES[name])
    assert len(mutations) > 40
    for mutation in mutations:
        expected = list(lines)
        expected[mutation.line - 1] = mutation.after
        assert mutation.source == "\n".join(expected) != SOURCES[name]
        assert mutation.before == lines[mutation.line - 1]
        assert compiles(mutation.source) == (mutation.operator != "syntax")


@settings(deadline=None, derandomize=True, max_examples=40)
@given(
    NAMES,
    st.integers(0, 10**6),
    st.integers(0, 10**6),
    st.sampled_from("():=\"'x #"),
)
def test_the_checker_agrees_with_compiling_the_whole_module(
    name: str, line: int, column: int, token: str
) -> None:
    lines = SOURCES[name].split("\n")
    number = line % len(lines)
    text = lines[number]
    column %= len(text) + 1
    after = text[:column] + token + text[column:]
    whole = "\n".join([*lines[:number], after, *lines[number + 1 :]])
    assert LineChecker(lines).accepts(LineChange(number + 1, after)) == compiles(whole)


@settings(deadline=None, derandomize=True, max_examples=4)
@given(NAMES, st.integers(0, 10**6))
def test_symmetric_bugs_are_repaired_by_their_inverse(name: str, index: int) -> None:
    symmetric = [
        m
        for m in mutate_all(SOURCES[name])
        if m.operator in ("comparison", "off_by_one", "wrong_method", "exception_type", "name")
    ]
    mutation = symmetric[index % len(symmetric)]
    changes = inverse_changes(mutation.source, mutation.line)
    assert LineChange(mutation.line, mutation.before) in changes


@settings(deadline=None, derandomize=True, max_examples=60)
@given(
    st.dictionaries(st.text(min_size=1, max_size=4), st.integers(1, 6), min_size=1, max_size=40),
    st.floats(0, 0.5),
)
def test_a_split_gets_its_share_to_within_half_a_line(bugs: dict[str, int], share: float) -> None:
    split = split_lines("m", bugs, {"held": share})
    assert set(split) == set(bugs)
    got = sum(count for text, count in bugs.items() if split[text] == "held")
    assert abs(got - share * sum(bugs.values())) <= max(bugs.values()) / 2
