from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from agentic_gym.rewards.credit.deciding import deciding_rows, token_shares, turn_shares
from agentic_gym.types import Outcome, TokenStream, Trajectory, Turn

EDIT = {"tools": ["edit_lines"], "edited": {"path": "a.py", "start": 1, "end": 1}}
REFUSED = {"tools": ["edit_lines"]}
SUBMIT = {"tools": ["submit"], "grade": {"outcome": "failed"}}
VIEW = {"tools": ["view"]}


def trajectory(*turns: tuple[dict[str, Any], int], prompt: int = 2) -> Trajectory:
    """Turns of (facts, sampled tokens), each followed by one token of observation."""
    sampled, owner = [False] * prompt, [-1] * prompt
    for k, (_, count) in enumerate(turns):
        sampled += [True] * count + [False]
        owner += [k] * (count + 1)
    n = len(sampled)
    stream = TokenStream(
        np.zeros(n, np.int32), np.asarray(sampled, bool), np.zeros(n, np.float32),
        np.zeros(n, np.int32), np.asarray(owner, np.int32),
    )  # fmt: skip
    records = tuple(Turn("a", "o", 0.0, info=info) for info, _ in turns)
    return Trajectory("t", "k", "g", 0, "", records, stream, Outcome.FAILED, True, False)


@pytest.mark.parametrize(
    ("turns", "expected"),
    [
        ([(VIEW, 2), (EDIT, 2), (SUBMIT, 3)], [8, 9, 10]),  # a submission
        ([(EDIT, 1), (EDIT, 2), (VIEW, 3)], [4, 5]),  # the last edit
        ([(EDIT, 2), (REFUSED, 2)], [2, 3]),  # a refused edit left nothing
        ([(VIEW, 2), (REFUSED, 1)], [5]),  # nothing: the last turn
        ([({}, 2), ({}, 0)], [2, 3]),  # nothing, and the last turn is silent
        ([(EDIT, 2), (SUBMIT, 0)], [2, 3]),  # a silent turn is passed over
        ([({"tools": ["view", "submit"]}, 1), (VIEW, 1)], [2]),  # several calls in a turn
        ([], []),
    ],
)
def test_the_turn_that_decided(
    turns: list[tuple[dict[str, Any], int]], expected: list[int]
) -> None:
    found = deciding_rows(trajectory(*turns))
    assert found.tolist() == expected
    assert found.dtype == np.int64


def test_other_environments_name_their_tools_and_facts() -> None:
    one = trajectory(({"tools": ["move"]}, 2), ({"saved": True}, 1), (SUBMIT, 1))
    assert deciding_rows(one, tools=["move"], facts=[]).tolist() == [2, 3]
    assert deciding_rows(one, tools=["move"], facts=["saved"]).tolist() == [5]


def test_nothing_precedes_the_first_token() -> None:
    one = trajectory((SUBMIT, 2), prompt=0)
    assert deciding_rows(one).tolist() == [1]
    assert deciding_rows(trajectory((SUBMIT, 1), prompt=0)).tolist() == []


def test_without_a_token_stream_there_are_none() -> None:
    one = Trajectory("t", "k", "g", 0, "", (), None, Outcome.FAILED, True, False)
    assert deciding_rows(one).tolist() == []


def test_shares_are_over_the_sampled_tokens_before() -> None:
    one = trajectory((VIEW, 2), (SUBMIT, 2))  # sampled: 2, 3, 5, 6
    assert one.tokens is not None
    weights = np.asarray([0.4, 0.1, 0.1, 0.1, 0.1, 0.2, 0.0, 0.0])
    everywhere = token_shares(weights, one.tokens)
    assert everywhere is not None
    np.testing.assert_allclose(everywhere, [0.25, 0.25, 0.5, 0])
    earlier = token_shares(weights, one.tokens, before=5)
    assert earlier is not None
    np.testing.assert_allclose(earlier, [0.5, 0.5, 0, 0])
    np.testing.assert_allclose(turn_shares(everywhere, np.asarray([0, 0, 1, 1]), 3), [0.5, 0.5, 0])
    both = turn_shares(np.stack([everywhere, earlier]), np.asarray([0, 0, 1, 1]), 2)
    np.testing.assert_allclose(both, np.asarray([[0.5, 0.5], [1.0, 0.0]]))


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_no_shares_of_nothing_or_of_nan(bad: float) -> None:
    one = trajectory((SUBMIT, 2))
    assert one.tokens is not None
    assert token_shares(np.asarray([0.5, 0.5, 0, 0, 0]), one.tokens) is None
    assert token_shares(np.asarray([0, 0, 0.5, 0.5, 0]), one.tokens, before=2) is None
    assert token_shares(np.asarray([0, 0, bad, 0.5, 0]), one.tokens) is None
    assert token_shares(np.asarray([bad, 0, 0.5, 0.5, 0]), one.tokens) is not None
