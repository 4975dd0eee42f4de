from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agentic_gym.errors import ConfigError
from agentic_gym.trainers.config import AgenticPPOConfig
from agentic_gym.trainers.run_config import RolloutSection

STREAM = {"stream": True, "ppo_epochs": 1, "whiten_advantages": False}


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"ppo_epochs": 0}, "ppo_epochs is 0"),
        ({"temperature": 0.0}, "temperature is 0"),
        ({"gamma": 1.1}, "gamma is 1.1"),
        ({"clip_high": -0.1}, "clip_high is -0.1"),
        ({"value_clip": 0.0}, "value_clip is 0.0"),
        ({"advantage": "gea"}, "advantage is 'gea'"),
        ({"staleness_decay": -3.0}, "staleness_decay is -3.0: it must not be negative"),
        ({"layout": "padded"}, "layout is 'padded'"),
        ({"fp16": True}, "fp16"),
        ({"reuse_behaviour": True}, "reuse_behaviour is True, which nothing reads"),
        ({"group_scale": "none", "advantage": "token_gae"}, "group_scale is 'none', which nothing"),
        ({"gamma": 0.9, "advantage": "group"}, "gamma is 0.9, which nothing reads with .*'group'"),
        ({"bootstrap_truncated": True, "advantage": "group"}, "bootstrap_truncated is True, which"),
        ({"gradient_accumulation_steps": 4}, "micro_batch_tokens"),
        ({"load_best_model_at_end": True}, "load_best_model_at_end"),
        ({"stream": True, "whiten_advantages": False}, "needs ppo_epochs=1, not 2"),
        ({"stream": True, "ppo_epochs": 1}, "needs whiten_advantages=False, not True: mean"),
        (STREAM | {"value_detach": False}, "needs value_detach=True, not False: in the trunk"),
        (STREAM | {"advantage": "group", "reuse_behaviour": True}, "needs reuse_behaviour=False"),
    ],
)
def test_what_cannot_work_is_refused_with_a_remedy(
    tmp_path: Path, settings: dict[str, Any], words: str
) -> None:
    with pytest.raises(ConfigError, match=words):
        AgenticPPOConfig(output_dir=str(tmp_path), **settings)


def test_more_relays_than_replicas_are_refused() -> None:
    assert RolloutSection(replicas=2, relays=2).relays == 2
    with pytest.raises(ConfigError, match="relays=3 are more than replicas=2"):
        RolloutSection(replicas=2, relays=3)


def test_a_heartbeat_without_relays_is_refused() -> None:
    assert RolloutSection(replicas=2, relays=1, relay_heartbeat_s=0.5).relay_heartbeat_s == 0.5
    with pytest.raises(ConfigError, match=r"relay_heartbeat_s=0\.5 is not read without relays"):
        RolloutSection(relay_heartbeat_s=0.5)


def test_the_old_name_of_activation_checkpointing_still_works(tmp_path: Path) -> None:
    args = AgenticPPOConfig(output_dir=str(tmp_path), use_cpu=True, gradient_checkpointing=True)
    assert args.activation_checkpointing


def test_training_is_in_float32_unless_asked(tmp_path: Path) -> None:
    args = AgenticPPOConfig(output_dir=str(tmp_path), use_cpu=True)
    assert (args.bf16, args.fp16) == (False, False)
