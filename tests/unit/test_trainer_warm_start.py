"""Demonstrations as tokens, and learning from them."""

from __future__ import annotations

import dataclasses
import math
from typing import Literal

import numpy as np
import pytest
import torch

from agentic_gym.chat import ChatCodec
from agentic_gym.errors import CheckpointError, ConfigError
from agentic_gym.testing import EchoEnv
from agentic_gym.tools import format_action
from agentic_gym.trainers.demonstrations import Demonstration, encode, record_many
from agentic_gym.trainers.models import DecoderShape, count_parameters, load_policy, make_decoder
from agentic_gym.trainers.tokenizer import train_tokenizer
from agentic_gym.trainers.warm_start import WarmStartConfig, WarmStartStep, warm_start
from agentic_gym.types import Slip, TokenStream

SHAPE = DecoderShape(
    hidden=32, layers=1, heads=2, kv_heads=1, head_dim=16, intermediate=32, max_context=256
)
ACTION = format_action([("edit_lines", {"path": "a.py", "start": 1, "end": 1, "text": "x = 1"})])


@pytest.fixture(scope="module")
def demonstration() -> Demonstration:
    return Demonstration(
        task_id="t",
        opening=({"role": "user", "content": "a.py\n1 x = 2\n\n1 failed"},),
        tools=(),
        actions=(ACTION, format_action([("submit", {})])),
        answers=(({"role": "tool", "name": "edit_lines", "content": "1 x = 1\n1 passed"},),),
        solved=True,
    )


@pytest.fixture(scope="module")
def codec(demonstration: Demonstration) -> ChatCodec:
    return ChatCodec(train_tokenizer(demonstration.texts(), vocab_size=320), show_tools=False)


def test_what_the_demonstrator_wrote_is_marked(
    codec: ChatCodec, demonstration: Demonstration
) -> None:
    (stream,) = encode(codec, [demonstration], max_tokens=256)
    written = codec.tokenizer.decode(stream.ids[stream.sampled])
    assert written == f"{ACTION}<|im_end|>{demonstration.actions[1]}<|im_end|>"
    whole = codec.tokenizer.decode(stream.ids)
    assert "1 x = 1\n1 passed" in whole
    assert whole.index("1 failed") < whole.index(ACTION)


def test_a_slip_is_read_and_not_imitated(codec: ChatCodec, demonstration: Demonstration) -> None:
    first, second = demonstration.actions
    slipped = dataclasses.replace(demonstration, actions=(Slip(first), second))
    (stream,) = encode(codec, [slipped], max_tokens=256)
    assert codec.tokenizer.decode(stream.ids[stream.sampled]) == f"{second}<|im_end|>"
    assert (stream.versions[~stream.sampled] == -1).all()
    (plain,) = encode(codec, [demonstration], max_tokens=256)
    assert (stream.ids == plain.ids).all()


def test_long_demonstrations_are_left_out_whole(
    codec: ChatCodec, demonstration: Demonstration
) -> None:
    assert encode(codec, [demonstration], max_tokens=20) == []


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_learning_lowers_the_loss_and_is_deterministic(
    codec: ChatCodec,
    demonstration: Demonstration,
    optimizer: Literal["adamw", "muon"],
    precision: Literal["float32", "bfloat16"],
) -> None:
    torch.set_num_threads(1)
    streams = encode(codec, [demonstration] * 8, max_tokens=256)
    config = WarmStartConfig(
        epochs=10, batch_tokens=512, learning_rate=1e-2, optimizer=optimizer, precision=precision
    )
    histories: list[list[WarmStartStep]] = []
    for _ in range(2):
        model = make_decoder(codec.tokenizer, SHAPE, seed=0)
        histories.append(warm_start(model, streams, config, seed=0))
    first, last = histories[0][0], histories[0][-1]
    assert first.loss == pytest.approx(math.log(len(codec.tokenizer)), rel=0.2)
    assert last.loss < 0.7 * first.loss
    assert histories[0] == histories[1]
    assert last.num_tokens == pytest.approx(10 * sum(map(len, streams)), rel=0.05)


def test_workers_change_nothing_but_the_time(
    codec: ChatCodec, demonstration: Demonstration
) -> None:
    streams = encode(codec, [demonstration] * 7, max_tokens=256)
    losses = []
    for workers in (1, 3, 3):
        config = WarmStartConfig(epochs=3, batch_tokens=512, workers=workers)
        history = warm_start(make_decoder(codec.tokenizer, SHAPE, seed=0), streams, config, seed=0)
        losses.append([step.loss for step in history])
    assert losses[1] == losses[2]
    assert losses[0] == pytest.approx(losses[1], rel=1e-3)


def test_the_optimizer_and_the_precision_matter(
    codec: ChatCodec, demonstration: Demonstration
) -> None:
    streams = encode(codec, [demonstration], max_tokens=256)
    seen = set()
    for change in ({}, {"optimizer": "muon"}, {"precision": "bfloat16"}):
        config = WarmStartConfig(epochs=3, batch_tokens=64, **change)
        model = make_decoder(codec.tokenizer, SHAPE, seed=0)
        history = warm_start(model, streams, config, seed=0)
        assert all(parameter.dtype == torch.float32 for parameter in model.parameters())
        seen.add(history[-1].loss)
    assert len(seen) == 3


def test_context_weight_zero_ignores_what_was_read(
    codec: ChatCodec, demonstration: Demonstration
) -> None:
    """With no weight on the context, its targets cannot matter: their rows get no gradient."""
    (stream,) = encode(codec, [demonstration], max_tokens=256)
    config = WarmStartConfig(epochs=1, context_weight=0.0, weight_decay=0.0)
    last_read = int(np.flatnonzero(~stream.sampled)[-1])
    assert stream.sampled[last_read + 1 :].any()
    # The very last token is only a target. If it was read, not written, changing it changes nothing.
    cut = _slice(stream, last_read + 1)
    changed = dataclasses.replace(cut, ids=np.append(cut.ids[:-1], cut.ids[0]).astype(np.int32))
    weights = []
    for version in (cut, changed):
        model = make_decoder(codec.tokenizer, SHAPE, seed=0)
        warm_start(model, [version], config, seed=0)
        weights.append(model.state_dict())
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])


def _slice(stream: TokenStream, end: int) -> TokenStream:
    fields = [field.name for field in dataclasses.fields(TokenStream)]
    return TokenStream(**{name: getattr(stream, name)[:end] for name in fields})


def test_nothing_to_learn_is_refused(codec: ChatCodec, demonstration: Demonstration) -> None:
    (stream,) = encode(codec, [demonstration], max_tokens=256)
    read_only = dataclasses.replace(stream, sampled=np.zeros_like(stream.sampled))
    model = make_decoder(codec.tokenizer, SHAPE, seed=0)
    with pytest.raises(ConfigError, match="no demonstration has a token to learn"):
        warm_start(model, [read_only], WarmStartConfig(), seed=0)


def test_recording_keeps_the_order_of_the_episodes() -> None:
    class Submit:
        def reset(self, task: object, seed: int) -> None:
            self.seed = seed

        def act(self, observation: str, info: dict[str, object]) -> str:
            return format_action([("echo", {"text": f"{self.seed}"})])

    class TaskEcho(EchoEnv):
        task = "t"

        def step(self, action: str):  # type: ignore[no-untyped-def]
            observation, reward, _, truncated, info = super().step(action)
            return observation, reward, True, truncated, info

    episodes = [(f"t{seed}", seed) for seed in range(7)]
    played = record_many(TaskEcho, Submit, episodes, workers=3)
    assert [demonstration.task_id for demonstration in played] == [task for task, _ in episodes]
    assert [f'"{seed}"' in played[seed].actions[0] for seed in range(7)] == [True] * 7


def test_the_decoder_is_a_qwen3_of_the_given_shape(codec: ChatCodec) -> None:
    state = torch.get_rng_state()
    model = make_decoder(codec.tokenizer, SHAPE, seed=1)
    assert torch.equal(torch.get_rng_state(), state)
    assert model.config.model_type == "qwen3"
    assert model.config.eos_token_id == codec.tokenizer.convert_tokens_to_ids("<|im_end|>")
    again = make_decoder(codec.tokenizer, SHAPE, seed=1)
    assert all(
        torch.equal(a, b) for a, b in zip(model.parameters(), again.parameters(), strict=True)
    )
    assert count_parameters(model) == sum(p.numel() for p in model.parameters())


def test_what_is_no_model_is_refused_early(tmp_path_factory: pytest.TempPathFactory) -> None:
    empty = tmp_path_factory.mktemp("empty")
    for path in (empty, empty / "missing"):
        with pytest.raises(
            CheckpointError, match=f"'{path}' is not a causal LM .* save_pretrained"
        ):
            load_policy(path)
