"""Filters never raise, whatever a trajectory holds, and a restart changes no verdict."""

from __future__ import annotations

import json

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from agentic_gym.trainers.selection.filters import (
    FilterSection,
    TrajectoryFilter,
    repeated_share,
    similarity,
    sketch,
)
from agentic_gym.types import Outcome, TokenStream, Trajectory, Turn

REASONS = {"infra_error", "suspected_hack", "over_length", "repetition", "near_duplicate"}
odd = st.sampled_from(["a", "B", "}", " ", "\n", "\0", "\ud800"])  # the last is half a pair
text = (
    st.text(max_size=60)
    | st.text(odd, max_size=60)
    | st.builds(lambda part, times: part * times, st.text(odd, max_size=8), st.integers(0, 60))
)


def stream(length: int) -> TokenStream:
    ids = np.zeros(length, np.int32)
    return TokenStream(ids, ids > 0, ids.astype(np.float32), ids, ids)


trajectories = st.builds(
    lambda number, task, turns, length, outcome: Trajectory(
        f"g000000.{number:02d}",
        task,
        "g000000",
        0,
        "prompt",
        tuple(Turn(action, answer, 0.0) for action, answer in turns),
        None if length is None else stream(length),
        outcome,
        True,
        False,
    ),
    st.integers(0, 99),
    st.sampled_from(["t", "u"]),
    st.lists(st.tuples(text, text), max_size=5),
    st.none() | st.integers(0, 40),
    st.sampled_from(Outcome),
)
sections = st.builds(
    lambda hack, circles, tokens, near, window: FilterSection(
        suspected_hack=hack,
        repetition=circles,
        max_tokens=tokens,
        near_duplicate=near,
        duplicate_window=window if near else 0,
    ),
    st.booleans(),
    st.booleans(),
    st.sampled_from([0, 20]),
    st.sampled_from([0.0, 0.5, 1.0]),
    st.integers(0, 3),
)


@settings(deadline=None, derandomize=True, max_examples=70)
@given(sections, st.lists(st.lists(trajectories, max_size=3), max_size=3))
def test_arbitrary_trajectories(section: FilterSection, groups: list[list[Trajectory]]) -> None:
    judged = TrajectoryFilter(section)
    for group in groups:
        resumed = TrajectoryFilter(section)
        resumed.load_state_dict(json.loads(json.dumps(judged.state_dict())))
        reasons = judged.judge_group(group)
        assert reasons == resumed.judge_group(group)
        assert set(reasons.values()) <= REASONS
        broken = {t.trajectory_id for t in group if t.outcome is Outcome.INFRA_ERROR}
        assert broken <= reasons.keys() <= {t.trajectory_id for t in group}


@settings(deadline=None, derandomize=True, max_examples=100)
@given(trajectories, trajectories)
def test_similarity_is_a_symmetric_share(first: Trajectory, second: Trajectory) -> None:
    one, other = sketch(first), sketch(second)
    assert 0 <= similarity(one, other) == similarity(other, one) <= 1
    assert similarity(one, one) == (1.0 if one else 0.0)


@settings(deadline=None, derandomize=True, max_examples=150)
@given(text, st.integers(1, 12))
def test_a_repeated_share_is_a_share(text: str, ngram: int) -> None:
    assert 0 <= repeated_share(text, ngram) < 1
