"""Credit by name."""

from __future__ import annotations

import numpy as np
import pytest

from agentic_gym.errors import ConfigError
from agentic_gym.rewards.credit.attention import AttentionCredit
from agentic_gym.rewards.credit.base import CreditBatch, Floats, Invariance
from agentic_gym.rewards.credit.estimators import horizon_warning
from agentic_gym.rewards.credit.plan import ESTIMATORS, credit_names, make_credit


class Doubled:
    """An assigner of somebody else."""

    invariance = Invariance.NOTHING
    needs_attention = False

    def assign(self, batch: CreditBatch, rewards_N: Floats) -> Floats:
        return 2 * rewards_N


@pytest.mark.parametrize("name", ESTIMATORS)
def test_an_estimator_alone_leaves_rewards_where_they_were_earned(name: str) -> None:
    plan = make_credit(name)
    assert (plan.estimator, plan.assigners, plan.modifiers) == (name, (), ())
    assert plan.needs_values == name.endswith("gae")
    assert plan.invariance is Invariance.OPTIMAL_POLICY


def test_parts_are_put_together_in_their_order() -> None:
    plan = make_credit("outcome+attention+token_gae+preplan_anchor", estimator="group")
    assert [type(part).__name__ for part in plan.assigners] == ["OutcomeCredit", "AttentionCredit"]
    assert [type(part).__name__ for part in plan.modifiers] == ["PreplanAnchor"]
    assert plan.estimator == "token_gae"
    assert plan.needs_attention
    assert plan.invariance is Invariance.NOTHING
    assert make_credit("outcome", estimator="group").estimator == "group"
    assert not make_credit("outcome").needs_attention


def test_a_plan_leaves_what_its_weakest_part_leaves() -> None:
    assert make_credit("causal_attention").invariance is Invariance.OPTIMAL_POLICY
    assert make_credit("causal_attention+attention").invariance is Invariance.RETURN
    assert make_credit(f"attention+{__name__}:Doubled").invariance is Invariance.NOTHING


def test_options_reach_their_part() -> None:
    plan = make_credit("attention", options={"attention": {"beta": 0.25, "per_turn": True}})
    assert plan.assigners == (AttentionCredit(0.25, per_turn=True),)


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("atention", {}, "no credit part 'atention'.*attention"),
        ("", {}, "no credit part ''"),
        ("turn_gae+token_gae", {}, "two estimators: turn_gae and token_gae"),
        ("outcome+outcome", {}, "names a part twice"),
        ("nowhere.at_all:Thing", {}, "cannot be imported"),
        ("agentic_gym.rewards.credit.plan:Nothing", {}, "cannot be imported"),
        ("agentic_gym.rewards.credit.base:CreditBatch", {}, "credit_options"),
        ("collections:Counter", {}, "neither an assign nor a modify"),
        ("attention", {"attention": {"bета": 1}}, "which it does not read"),
        ("attention", {"attention": {"invariance": "none"}}, "which it does not read"),
        ("attention", {"attention": {"beta": 2}}, "beta=2 must lie between 0 and 1"),
        ("preplan_anchor", {"preplan_anchor": {"factor": 0.5}}, "factor=0.5 must be at least 1"),
        ("causal_attention", {"causal_attention": {"scale": -1}}, "scale=-1 must be finite"),
        ("outcome", {"attention": {"beta": 0.5}}, "does not read"),
    ],
)
def test_what_cannot_be_made_is_refused(name: str, options: dict, words: str) -> None:  # type: ignore[type-arg]
    with pytest.raises(ConfigError, match=words):
        make_credit(name, options=options)


def test_every_known_name_can_be_made() -> None:
    for name in credit_names():
        if name != "model":  # which needs one
            assert make_credit(name).name == name


@pytest.mark.parametrize("steps", [1, 2, 7, 10, 40, 200])
def test_a_discount_that_is_advised_is_enough_and_hardly_more(steps: int) -> None:
    words = horizon_warning(0.3, steps)
    if steps == 1:
        assert words is not None
    assert words is not None
    advised = float(words.rsplit(" ", 1)[1])
    assert advised**steps >= 0.5
    assert (advised - 0.001) ** steps < 0.5
    assert horizon_warning(advised, steps) is None
    assert horizon_warning(1.0, steps) is None
    assert horizon_warning(0.5, 0) is None
    assert np.isclose(advised, 0.5 ** (1 / steps), atol=1e-3)
