from __future__ import annotations

import numpy as np
import pytest
import torch

from agentic_gym.errors import ConfigError
from agentic_gym.trainers import batching
from agentic_gym.types import Outcome, TokenStream, Trajectory


def trajectory(sampled: list[bool] | None, ids: list[int] | None = None) -> Trajectory:
    stream = None
    if sampled is not None:
        n = len(sampled)
        stream = TokenStream(
            ids=np.asarray(ids if ids is not None else range(n), np.int32),
            sampled=np.asarray(sampled),
            logprobs=np.zeros(n, np.float32),
            versions=np.zeros(n, np.int32),
            turns=np.zeros(n, np.int32),
        )
    return Trajectory("t7", "k", "g", 0, "p", (), stream, Outcome.FAILED, True, False)


def test_padding_is_known_from_provenance_not_from_ids() -> None:
    """With the padding id equal to the end-of-turn id, the last end-of-turn token still trains."""
    rows = batching.make_rows(
        [
            trajectory([False, True, True], [5, 6, 0]),
            trajectory([False, True, True, True, True], [5, 6, 7, 8, 0]),
        ]
    )
    micro = batching.collate(rows, layout="plain")
    assert micro.targets.tolist() == [6, 0, 6, 7, 8, 0]
    assert micro.attention_mask is not None
    assert micro.attention_mask.tolist() == [[True, True, False, False], [True] * 4]


def test_the_last_sampled_token_is_predicted_but_not_read() -> None:
    rows = batching.make_rows([trajectory([False, False, True, False, False], [1, 2, 3, 4, 5])])
    cut = batching.collate(rows, layout="packed")
    whole = batching.collate(rows, layout="packed", whole=True)
    assert cut.input_ids.tolist() == [[1, 2]]
    assert whole.input_ids.tolist() == [[1, 2, 3, 4, 5]]
    assert (cut.targets.tolist(), cut.select.tolist()) == ([3], [1])
    assert whole.last.tolist() == [4]


def test_packed_rows_start_anew() -> None:
    rows = batching.make_rows([trajectory([False, True, True]), trajectory([False, False, True])])
    micro = batching.collate(rows, layout="packed")
    assert micro.position_ids.tolist() == [[0, 1, 0, 1]]
    assert micro.offsets is not None
    assert micro.offsets.dtype is torch.int32
    assert micro.offsets.tolist() == [0, 2, 4]
    assert micro.index.tolist() == [0, 1, 2]


def test_what_can_train() -> None:
    assert batching.trainable(trajectory([False, True]))
    assert not batching.trainable(trajectory([False, False]))
    assert not batching.trainable(trajectory([True]))  # nothing precedes it
    assert not batching.trainable(trajectory(None))


def test_a_trajectory_without_tokens_is_refused_by_name() -> None:
    with pytest.raises(ConfigError, match="t7 has no token stream"):
        batching.make_rows([trajectory(None)])


def test_a_budget_without_tokens_is_refused() -> None:
    with pytest.raises(ConfigError, match="token_budget is 0"):
        batching.plan([3], token_budget=0)
