"""From a configuration to credit and selection: what does not fit is refused before anything is loaded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agentic_gym.errors import ConfigError
from agentic_gym.rewards.credit.process import ProcessCredit
from agentic_gym.trainers.learning import (
    credit_of,
    filter_of,
    refill_of,
    rubric_of,
    selector_of,
)
from agentic_gym.trainers.ppo_args import ppo_args
from agentic_gym.trainers.run_config import TrainConfig
from agentic_gym.trainers.selection import UniformTasks
from agentic_gym.trainers.selection.base import TaskFacts


def config(**values: Any) -> TrainConfig:
    return TrainConfig.model_validate(values)


def test_the_default_is_what_it_was() -> None:
    usual = config()
    assert credit_of(usual).assigners == ()
    assert ppo_args(usual, Path("x")).advantage == "turn_gae"
    assert (refill_of(usual), filter_of(usual), rubric_of(usual)) == (None, None, None)
    assert isinstance(selector_of(usual, [TaskFacts("a")]), UniformTasks)


def test_the_estimator_reaches_the_trainer() -> None:
    assert ppo_args(config(credit="outcome+token_gae"), Path("x")).advantage == "token_gae"
    assert ppo_args(config(credit="gigpo", ppo={"gamma": 0.9}), Path("x")).advantage == "gigpo"


def test_potentials_are_told_what_the_run_says_elsewhere() -> None:
    made = credit_of(
        config(
            credit="process+turn_gae",
            credit_options={"process": {"weights": {"parses": 0.5}}},
            env={"train_options": {"process_state": True, "reward": {"solve": 3.0}}},
            ppo={"extra": {"bootstrap_truncated": True}},
        )
    )
    [process] = made.assigners
    assert isinstance(process, ProcessCredit)
    assert process.bootstrap_truncated
    assert process.weights.solve == 3.0  # type: ignore[union-attr]
    assert process.weights.parses == 0.5  # type: ignore[union-attr]


STATE = {"train_options": {"process_state": True}}


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"credit": "turn_gea"}, "no credit part 'turn_gea'"),
        ({"credit": "process"}, "set env.train_options.process_state"),
        ({"credit": "process+group", "env": STATE}, "add up to nothing over an episode"),
        ({"credit": "group", "ppo": {"gamma": 0.4}}, "reads no discount: set ppo.gamma"),
        ({"credit": "group", "ppo": {"group_size": 1}}, "a group of one teaches nothing"),
        ({"credit": "gigpo", "ppo": {"group_size": 1}}, "compares the members of a group, and"),
        ({"credit": "attention+group"}, "'attention' moves reward within an episode, and 'group'"),
        ({"credit": "causal_attention+group"}, "or take preplan_anchor"),
        ({"credit": "process+outcome", "env": STATE}, "name outcome first"),
        (
            {"credit": "process+token_gae", "env": STATE, "ppo": {"extra": {"token_gamma": 0.9}}},
            "leave ppo.extra.token_gamma at 1",
        ),
        ({"credit": "model"}, "credit_options.model"),
        ({"ppo": {"extra": {"advantage": "group"}}}, "which the run says in credit"),
        ({"ppo": {"refill": 4}}, "would learn a wrong mean"),
        (
            {"credit": "group", "ppo": {"refill": 4, "group_size": 1}},
            "ppo.refill=4 compares the members",
        ),
        (
            {"credit": "group", "ppo": {"stream": True}, "filters": {"suspected_hack": True}},
            "leave out filters, or stream",
        ),
        ({"credit": "outcome", "credit_options": {"attention": {}}}, "does not read"),
    ],
)
def test_what_does_not_fit_is_refused(values: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        ppo_args(config(**values), Path("x"))


def test_a_discount_that_group_credit_would_not_read_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"reads no discount: set ppo\.gamma \(now 0\.4\) to 1"):
        ppo_args(config(credit="group", ppo={"gamma": 0.4}), Path("x"))


def test_rewards_and_selections_are_found_or_refused() -> None:
    with pytest.raises(ConfigError, match="no reward 'speed'"):
        rubric_of(config(rewards={"speed": 1.0}))
    with pytest.raises(ConfigError, match="no selector 'bond'"):
        selector_of(config(selection="bond"), [TaskFacts("a")])
    with pytest.raises(ConfigError, match="reads no 'lowest'"):
        selector_of(config(selection="band", selection_options={"lowest": 1}), [TaskFacts("a")])
    assert filter_of(config(filters={"max_tokens": 5})) is not None
    assert refill_of(config(credit="group", ppo={"refill": 3})) is not None
