"""What is kept of watched rows, and what the watch refuses."""

from __future__ import annotations

import threading
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from transformers import DynamicCache, LlamaConfig, LlamaForCausalLM

from agentic_gym.errors import ConfigError
from agentic_gym.trainers.attention_rows import attention_of
from agentic_gym.trainers.attention_sums import RowDistances, RowMeans, RowWeights
from agentic_gym.trainers.attention_watch import Segment, watching
from agentic_gym.types import Outcome, TokenStream, Trajectory

LENGTH = 18
SEGMENTS = [
    Segment(0, 0, 0, LENGTH, torch.tensor([3, 9, LENGTH - 1])),
    Segment(1, 1, 0, LENGTH, torch.tensor([6, 12])),
]


@cache
def model_of() -> Any:
    """A tiny Llama of three layers and four heads, whose attention is far from uniform."""
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=31, hidden_size=32, intermediate_size=48, num_hidden_layers=3,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=64,
        pad_token_id=0, bos_token_id=None, eos_token_id=None,
    )  # fmt: skip
    model = LlamaForCausalLM(config)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.normal_(0, 0.3)
    return model.eval()


@pytest.fixture(scope="module", autouse=True)
def warm() -> None:
    """The first pass of a process takes longer than a test may."""
    with torch.no_grad():
        model_of()(**inputs())


def inputs(padding: int = 0) -> dict[str, Any]:
    """Two lines, the second with so much padding on its left."""
    ids = torch.randint(1, 31, (2, LENGTH), generator=torch.Generator().manual_seed(1))
    mask = torch.ones_like(ids, dtype=torch.bool)
    mask[1, :padding] = False
    positions = (mask.cumsum(-1) - 1).clamp(min=0)
    return {"input_ids": ids, "attention_mask": mask, "position_ids": positions, "use_cache": False}


def eager_weights(batch: dict[str, Any]) -> tuple[torch.Tensor, ...]:
    """Of each layer, [B, H, T, T]."""
    model = model_of()
    model.set_attn_implementation("eager")
    with torch.no_grad():
        weights = model(**batch, output_attentions=True).attentions
    model.set_attn_implementation("sdpa")
    return tuple(weights)


def trajectory(n: int) -> Trajectory:
    stream = TokenStream(
        np.arange(1, n + 1, dtype=np.int32), np.arange(n) > 2, np.zeros(n, np.float32),
        np.zeros(n, np.int32), np.zeros(n, np.int32),
    )  # fmt: skip
    return Trajectory("t", "k", "g", 0, "p", (), stream, Outcome.FAILED, True, False)


def test_a_row_that_sees_nothing_is_not_uniform() -> None:
    """Eager attention makes such a row uniform, and fused attention 0; both look like an answer."""
    means = RowMeans({0: torch.zeros(1, dtype=torch.long)})
    segment = Segment(0, 1, 0, LENGTH, torch.tensor([2]))  # padding
    model = model_of()
    with torch.no_grad(), watching(model, [segment], means):
        model(**inputs(padding=5))
    assert bool(means.mean(0).isnan().all())


@pytest.mark.parametrize("cells", [1, 1 << 20])
@pytest.mark.parametrize(("cap", "window"), [(3, (2, 5)), (10, (10, 50)), (1, (0, 0))])
def test_distances_are_those_of_the_definition(
    cap: int, window: tuple[int, int], cells: int
) -> None:
    model, batch = model_of(), inputs()
    rows = torch.arange(4, LENGTH)
    sums = RowDistances(cap=cap, window=window)
    segments = [Segment(7, 0, 0, LENGTH, rows)]
    with torch.no_grad(), watching(model, segments, sums, layers=[0, 2], heads=[1, 2], cells=cells):
        model(**batch)
    found = sums.distances(7)
    weights = torch.stack([eager_weights(batch)[n][0, [1, 2]] for n in (0, 2)]).numpy()
    t, s = np.meshgrid(np.arange(LENGTH), np.arange(LENGTH), indexing="ij")
    reach = (weights * np.minimum(t - s, cap)).sum(-1)[..., 4:]
    span = (weights * (t - s)).sum(-1)[..., 4:].mean(-1)
    influence = np.zeros((2, 2, LENGTH))
    for position in range(LENGTH):
        later = [r for r in range(4, LENGTH) if window[0] <= r - position <= window[1]]
        if later:
            influence[..., position] = weights[..., later, position].mean(-1)
    np.testing.assert_allclose(found.reach, reach, atol=1e-5)
    np.testing.assert_allclose(found.span, span, atol=1e-5)
    np.testing.assert_allclose(found.influence, influence, atol=1e-5)
    assert (found.influence[..., LENGTH - window[0] :] == 0).all()


def test_another_thread_is_not_watched() -> None:
    model, batch, raw = model_of(), inputs(), RowWeights()
    with torch.no_grad(), watching(model, SEGMENTS, raw):
        model(**batch)
        seen = raw.layer(0, 0)
        thread = threading.Thread(target=lambda: model(**batch))
        thread.start()
        thread.join()
    assert torch.equal(raw.layer(0, 0), seen)


def test_a_cache_and_a_missing_pass_are_refused() -> None:
    model, ids = model_of(), inputs()["input_ids"]
    with torch.no_grad():
        past = DynamicCache(config=model.config)
        model(input_ids=ids[:, :5], cache=past)
        with (
            pytest.raises(ConfigError, match="18 keys for 13 queries"),
            watching(model, SEGMENTS, RowWeights()),
        ):
            model(input_ids=ids[:, 5:], cache=past)
    with (
        pytest.raises(ConfigError, match=r"layers \[1, 2\] of this llama showed no attention"),
        watching(model, SEGMENTS, RowWeights(), layers=[1, 2]),
    ):
        pass


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"layers": []}, "layers=\\[\\]"),
        ({"layers": 1}, "a share in"),
        ({"layers": 1.5}, "layers=1.5"),
        ({"layers": "some"}, "layers='some'"),
        ({"layers": [0, 3]}, r"layers=\[0, 3\].*\[0, 1, 2\]"),
        ({"layers": [-4]}, "layers="),
        ({"heads": [4]}, "from 0 to 3"),
        ({"heads": []}, "heads="),
        ({"heads": "first"}, "heads='first'"),
        ({"tokens": [0, 3]}, "ascend from at least 1"),
        ({"tokens": [3, 3]}, "ascend"),
        ({"tokens": [3, 6]}, "at most 5"),
        ({"groups": [0, 2]}, "without gaps"),
        ({"groups": [0]}, "give each one"),
    ],
)
def test_impossible_choices_are_refused(options: dict[str, Any], words: str) -> None:
    tokens = np.asarray(options.pop("tokens", [3, 4]))
    if "groups" in options:
        options["groups"] = [np.asarray(options["groups"])]
    with pytest.raises(ConfigError, match=words):
        attention_of(model_of(), [trajectory(6)], [tokens], **options)


def test_settings_of_sums_and_chunks_are_checked() -> None:
    with pytest.raises(ConfigError, match="cells=0"):
        watching(model_of(), SEGMENTS, RowWeights(), cells=0).__enter__()
    with pytest.raises(ConfigError, match=r"window=\(5, 2\)"):
        RowDistances(window=(5, 2))
    with pytest.raises(ConfigError, match="cap=0"):
        RowDistances(cap=0)
