"""From a run's configuration to what decides on credit and tasks; refused early, before a model loads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from agentic_gym.difficulty import read_profile
from agentic_gym.errors import ConfigError
from agentic_gym.rewards.credit.plan import CreditPlan, make_credit
from agentic_gym.rewards.rubric import Rubric
from agentic_gym.trainers.run_config import TrainConfig
from agentic_gym.trainers.selection.base import TaskFacts, TaskSelector
from agentic_gym.trainers.selection.filters import TrajectoryFilter
from agentic_gym.trainers.selection.refill import Refill
from agentic_gym.trainers.selection.registry import make_selector, selection_options

_POTENTIALS = ("process", "model")
_SPREADING = ("attention", "causal_attention")


def credit_of(config: TrainConfig) -> CreditPlan:
    """The run's credit.

    Parts that are potentials are told what the run says elsewhere: what solving pays, and whether truncated
    episodes go on.

    Raises:
        ConfigError: there is no such credit, its options are wrong, or the run does not fit it.
    """
    ppo = config.ppo
    if "advantage" in ppo.extra:
        raise ConfigError("ppo.extra sets 'advantage', which the run says in credit")
    parts = [part.strip() for part in config.credit.split("+")]
    options = {name: dict(own) for name, own in config.credit_options.items()}
    reward = _env(config).get("reward") or {}
    solve = reward.get("solve", 1.0) if isinstance(reward, Mapping) else reward.solve
    for name in set(_POTENTIALS) & set(parts):
        given = options.setdefault(name, {})
        given.setdefault("bootstrap_truncated", bool(ppo.extra.get("bootstrap_truncated", False)))
        if name == "model":
            given.setdefault("solve", solve)
        else:
            weights = dict(given.get("weights") or {})
            given["weights"] = {"solve": solve, **weights}
    plan = make_credit(config.credit, options=options)
    _check(config, plan, parts)
    return plan


def _env(config: TrainConfig) -> Mapping[str, Any]:
    return {**config.env.options, **config.env.train_options}


def _check(config: TrainConfig, plan: CreditPlan, parts: Sequence[str]) -> None:
    potentials = [part for part in parts if part in _POTENTIALS]
    if potentials and not plan.needs_values:
        raise ConfigError(
            f"credit={config.credit!r}: potential differences add up to nothing over an episode, and "
            f"{plan.estimator!r} compares whole episodes: add turn_gae or token_gae instead"
        )
    _check_groups(config, plan)
    spreading = [part for part in parts if part in _SPREADING]
    if spreading and plan.estimator == "group":
        raise ConfigError(
            f"credit={config.credit!r}: {spreading[0]!r} moves reward within an episode, and 'group' gives "
            "all its tokens one advantage: add turn_gae or token_gae instead, or take preplan_anchor"
        )
    if potentials and config.ppo.extra.get("token_gamma", 1.0) != 1.0:
        raise ConfigError(
            f"credit={config.credit!r} discounts potentials by turns: leave ppo.extra.token_gamma at 1"
        )
    if "outcome" in parts[1:] and parts.index("outcome") > min(
        (parts.index(part) for part in potentials), default=len(parts)
    ):
        raise ConfigError(
            f"credit={config.credit!r} moves everything to the end after {potentials[0]} has spread it: "
            "name outcome first"
        )
    measured = config.env.id != "agentic_gym/SWE-v0" or _env(config).get("process_state")
    if "process" in parts and not measured:
        raise ConfigError(
            f"credit={config.credit!r} reads the repository's state after each turn: set "
            "env.train_options.process_state to true"
        )
    if config.ppo.refill and plan.needs_values:
        raise ConfigError(
            f"ppo.refill={config.ppo.refill} leaves out groups that are always solved or never, and the "
            f"value head of {plan.estimator!r} would learn a wrong mean: use credit 'group' or 'gigpo'"
        )
    if config.ppo.stream and config.filters != type(config.filters)():
        raise ConfigError(
            "ppo.stream begins with groups before their batch is filtered: leave out filters, or stream"
        )


def _check_groups(config: TrainConfig, plan: CreditPlan) -> None:
    ppo = config.ppo
    if plan.estimator == "group" and ppo.gamma != 1.0:
        raise ConfigError(
            f"credit={config.credit!r} compares whole returns and reads no discount: set ppo.gamma (now "
            f"{ppo.gamma:g}) to 1"
        )
    if ppo.group_size < 2 and not plan.needs_values:
        reader = f"ppo.refill={ppo.refill}" if ppo.refill else f"credit={config.credit!r}"
        raise ConfigError(
            f"{reader} compares the members of a group, and a group of one teaches nothing: give a "
            f"ppo.group_size (now {ppo.group_size}) of 2 or more"
        )


def check_selection(config: TrainConfig) -> None:
    """Refuses what is wrong with the selection whatever the tasks are: its name, its profile's file.

    Raises:
        ConfigError: there is none of that name, or the profile cannot be read.
    """
    known = selection_options(config.selection)
    profile = config.selection_options.get("profile")
    # A selector of one's own may mean something else by the word.
    if isinstance(profile, str) and "profile" in known and ":" not in config.selection:
        read_profile(profile)


def selector_of(config: TrainConfig, tasks: Sequence[TaskFacts]) -> TaskSelector:
    """The run's task selector, new.

    Args:
        config: of the run.
        tasks: that train.

    Raises:
        ConfigError: there is none of that name, or its options are wrong.
    """
    return make_selector(config.selection, tasks, config.seed, **config.selection_options)


def rubric_of(config: TrainConfig) -> Rubric | None:
    """The run's custom rewards, or None.

    Raises:
        ConfigError: a reward is not known, or its weight is not finite.
    """
    return Rubric(config.rewards) if config.rewards else None


def refill_of(config: TrainConfig) -> Refill | None:
    """What refuses groups, or None."""
    return Refill(max_in_a_row=config.ppo.refill) if config.ppo.refill else None


def filter_of(config: TrainConfig) -> TrajectoryFilter | None:
    """What drops trajectories of a batch, or None."""
    usual = config.filters == type(config.filters)()
    return None if usual else TrajectoryFilter(config.filters)
