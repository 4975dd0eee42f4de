from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from agentic_gym.errors import ConfigError
from agentic_gym.trainers.selection.filters import (
    FilterSection,
    TrajectoryFilter,
    infra_error,
    over_length,
    repeated_share,
    repetition,
    similarity,
    sketch,
    suspected_hack,
)
from agentic_gym.types import Outcome, TokenStream, Trajectory, Turn

LOOP = "I will look at the file again and then "
CODE = """
def total(rows):
    result = 0
    for row in rows:
        if row.kind == "open":
            result += row.value
        elif row.kind == "closed":
            result -= row.value
        else:
            raise ValueError(f"unknown kind {row.kind!r}")
    return result


def mean(rows):
    if not rows:
        raise ValueError("no rows")
    return total(rows) / len(rows)
"""


def played(
    actions: Sequence[str],
    *,
    name: str = "g000000.00",
    task: str = "t",
    outcome: Outcome = Outcome.FAILED,
    length: int | None = None,
    observations: Sequence[str] | None = None,
) -> Trajectory:
    seen = observations or [f"answer {i}" for i in range(len(actions))]
    turns = tuple(Turn(a, o, 0.0) for a, o in zip(actions, seen, strict=True))
    stream = None
    if length is not None:
        ids = np.zeros(length, np.int32)
        stream = TokenStream(ids, ids > 0, ids.astype(np.float32), ids, ids)
    return Trajectory(name, task, "g000000", 0, "prompt", turns, stream, outcome, True, False)


def test_outcomes() -> None:
    for outcome in Outcome:
        trajectory = played(["a"], outcome=outcome)
        is_hack, is_broken = outcome is Outcome.SUSPECTED_HACK, outcome is Outcome.INFRA_ERROR
        assert suspected_hack(trajectory) == ("suspected_hack" if is_hack else None)
        assert infra_error(trajectory) == ("infra_error" if is_broken else None)


def test_over_length_is_over_the_limit_and_nothing_without_tokens() -> None:
    assert over_length(played(["a"], length=11), 10) == "over_length"
    assert over_length(played(["a"], length=10), 10) is None
    assert over_length(played(["a"]), 10) is None


@pytest.mark.parametrize("text", [LOOP * 20, "a" * 4000, "}" * 200, CODE + LOOP * 60])
def test_degenerate_text_repeats_itself(text: str) -> None:
    assert repeated_share(text, 8) > 0.6
    assert repetition(played(["fine", text])) == "repetition"


@pytest.mark.parametrize(
    "text", ["", "short", "x = x + x", CODE, CODE.replace("row", "r"), LOOP * 3]
)
def test_code_and_short_text_do_not(text: str) -> None:
    assert repetition(played([text])) is None


def test_a_turn_that_is_repeated_with_the_same_answer_goes_nowhere() -> None:
    same = played(["ls"] * 5, observations=["a.py"] * 5)
    assert repetition(same, turns=5) == "repetition"
    assert repetition(same, turns=6) is None
    assert repetition(played(["run_tests"] * 9)) is None  # another answer each time
    broken = played(["ls", "ls", "cat", "ls", "ls"], observations=["a"] * 5)
    assert repetition(broken, turns=3) is None


def test_sketches_measure_how_much_two_trajectories_share() -> None:
    words = [f"w{i}" for i in range(2000)]
    first = sketch(played([" ".join(words[:1000])]))
    assert similarity(first, first) == 1.0
    assert similarity(first, sketch(played([" ".join(words[1000:])]))) == 0.0
    half = similarity(first, sketch(played([" ".join(words[500:1500])])))
    assert half == pytest.approx(1 / 3, abs=0.1)
    spread = sketch(played([" ".join(words[:400]).upper(), "\n ".join(words[400:1000])]))
    assert similarity(first, spread) == 1.0  # turns, case and white space do not matter
    assert len(sketch(played(["half of a pair: \ud800"]))) == 1
    assert sketch(played([])) == sketch(played([" "])) == ()
    assert similarity((), ()) == 0.0


def test_near_duplicates_of_a_group_are_dropped_but_for_the_first() -> None:
    judged = TrajectoryFilter(FilterSection(near_duplicate=0.8))
    other = CODE.replace("result", "outcome").replace("row", "line")
    group = [
        played([CODE], name="g000000.02"),
        played([CODE], name="g000000.00"),
        played([other], name="g000000.01"),
        played([CODE], name="g000000.03", outcome=Outcome.INFRA_ERROR),
    ]
    assert judged.judge_group(group) == {
        "g000000.02": "near_duplicate",
        "g000000.03": "infra_error",
    }
    assert judged.judge_group(group[:1]) == {}  # no window


def test_a_window_remembers_earlier_groups_of_the_same_task_over_a_restart() -> None:
    section = FilterSection(near_duplicate=0.8, duplicate_window=2)
    first, second = TrajectoryFilter(section), TrajectoryFilter(section)
    assert first.judge_group([played([CODE])]) == {}
    second.load_state_dict(first.state_dict())
    for judged in (first, second):
        assert judged.judge_group([played([CODE], task="other")]) == {}
        assert judged.judge_group([played([CODE])]) == {"g000000.00": "near_duplicate"}
        for word in ("one", "two"):
            assert judged.judge_group([played([word])]) == {}
        assert judged.judge_group([played([CODE])]) == {}  # pushed out


def test_each_filter_is_off_until_it_is_asked_for() -> None:
    hack = played([LOOP * 50], outcome=Outcome.SUSPECTED_HACK, length=50)
    assert TrajectoryFilter(FilterSection()).judge(hack) is None
    assert TrajectoryFilter(FilterSection(repetition=True)).judge(hack) == "repetition"
    assert TrajectoryFilter(FilterSection(max_tokens=10)).judge(hack) == "over_length"
    all_on = FilterSection(suspected_hack=True, max_tokens=10, repetition=True)
    assert TrajectoryFilter(all_on).judge(hack) == "suspected_hack"
    broken = replace(hack, outcome=Outcome.INFRA_ERROR)
    assert TrajectoryFilter(FilterSection()).judge(broken) == "infra_error"


def test_thresholds_reach_the_filter() -> None:
    text = played([CODE + LOOP * 12])
    assert TrajectoryFilter(FilterSection(repetition=True)).judge(text) is None
    low = FilterSection(repetition=True, repetition_share=0.2)
    assert TrajectoryFilter(low).judge(text) == "repetition"
    long = FilterSection(repetition=True, repetition_share=0.2, repetition_ngram=200)
    assert TrajectoryFilter(long).judge(text) is None
    turns = FilterSection(repetition=True, repetition_turns=2)
    twice = played(["ls", "ls"], observations=["a", "a"])
    assert TrajectoryFilter(turns).judge(twice) == "repetition"


def test_thresholds_that_nothing_reads_are_refused() -> None:
    with pytest.raises(ConfigError, match="repetition_turns is read only when repetition"):
        FilterSection(repetition_turns=3)
    with pytest.raises(ConfigError, match="duplicate_window"):
        FilterSection(duplicate_window=3)
