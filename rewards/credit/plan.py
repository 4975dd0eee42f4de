"""A whole way of giving credit, from its name: ``turn_gae``, ``process+token_gae``, ``my_code:Mine``.

The parts of a name are joined by ``+``. Assigners work one after the other on what was earned; at most one
estimator makes advantages of it; modifiers come last.
"""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agentic_gym.errors import ConfigError
from agentic_gym.rewards.credit.base import (
    AdvantageModifier,
    AttentionNeed,
    CreditAssigner,
    CreditBatch,
    Floats,
    Invariance,
)
from agentic_gym.rewards.credit.outcome import earned
from agentic_gym.suggest import did_you_mean

ESTIMATORS = ("turn_gae", "token_gae", "group", "gigpo")
"""What makes advantages of rewards; ``turn_gae`` and ``token_gae`` have a value head."""

_PARTS = {
    "outcome": "agentic_gym.rewards.credit.outcome:OutcomeCredit",
    "process": "agentic_gym.rewards.credit.process:ProcessCredit",
    "model": "agentic_gym.rewards.credit.process_model:ModelPotential",
    "attention": "agentic_gym.rewards.credit.attention:AttentionCredit",
    "causal_attention": "agentic_gym.rewards.credit.attention:CausalAttentionCredit",
    "preplan_anchor": "agentic_gym.rewards.credit.attention:PreplanAnchor",
}
_ORDER = list(Invariance)  # from what leaves most as it was


@dataclass(frozen=True, slots=True)
class CreditPlan:
    """How a batch gets its credit.

    Attributes:
        name: that it was made from.
        assigners: that change what each sampled token earned, in this order.
        estimator: one of :data:`ESTIMATORS`.
        modifiers: of advantages, in this order.
    """

    name: str = "turn_gae"
    assigners: tuple[CreditAssigner, ...] = ()
    estimator: str = "turn_gae"
    modifiers: tuple[AdvantageModifier, ...] = ()

    @property
    def needs_attention(self) -> AttentionNeed:
        """Which facts of its attention the batch must have: what any part reads."""
        need = AttentionNeed.NOTHING
        parts: tuple[CreditAssigner | AdvantageModifier, ...] = (*self.assigners, *self.modifiers)
        for part in parts:
            need |= AttentionNeed.of(part.needs_attention)
        return need

    @property
    def needs_values(self) -> bool:
        """Whether the estimator has a value head."""
        return self.estimator in ("turn_gae", "token_gae")

    @property
    def invariance(self) -> Invariance:
        """What all parts together leave as it was."""
        if self.modifiers:
            return Invariance.NOTHING
        return max(
            (part.invariance for part in self.assigners),
            key=_ORDER.index,
            default=Invariance.OPTIMAL_POLICY,
        )

    def rewards(self, batch: CreditBatch) -> Floats:
        """Reward of each sampled token.  # [N]"""
        rewards = earned(batch)
        for assigner in self.assigners:
            rewards = assigner.assign(batch, rewards)
        return rewards

    def modify(self, batch: CreditBatch, advantages_N: Floats) -> Floats:
        """Advantages of the sampled tokens, as the modifiers leave them.  # [N]"""
        for modifier in self.modifiers:
            advantages_N = modifier.modify(batch, advantages_N)
        return advantages_N


def make_credit(
    name: str,
    *,
    estimator: str = "turn_gae",
    options: Mapping[str, Mapping[str, Any]] | None = None,
) -> CreditPlan:
    """A plan from its name.

    >>> make_credit("outcome+token_gae").estimator
    'token_gae'

    Args:
        name: parts joined by ``+``: names of :data:`ESTIMATORS` and of assigners and modifiers, or import
            paths ``module:Class``.
        estimator: where the name says none.
        options: of each part, by its name.

    Raises:
        ConfigError: a part is unknown, comes twice, cannot be made of its options, or does not say which
            attention it needs; two estimators; an option belongs to no part.
    """
    assigners: list[CreditAssigner] = []
    modifiers: list[AdvantageModifier] = []
    chosen: str | None = None
    left = dict(options or {})
    parts = [part.strip() for part in name.split("+")]
    if len(set(parts)) != len(parts):
        raise ConfigError(f"credit={name!r} names a part twice")
    for part in parts:
        if part in ESTIMATORS:
            if chosen is not None:
                raise ConfigError(f"credit={name!r} names two estimators: {chosen} and {part}")
            chosen = part
            continue
        made = _make_part(part, left.pop(part, {}))
        if hasattr(made, "assign"):
            assigners.append(made)
        elif hasattr(made, "modify"):
            modifiers.append(made)
        else:
            raise ConfigError(f"credit part {part!r} has neither an assign nor a modify method")
        _check_need(part, made)
    if left:
        raise ConfigError(
            f"credit_options has {sorted(left)[0]!r}, which credit={name!r} does not read"
        )
    return CreditPlan(name, tuple(assigners), chosen or estimator, tuple(modifiers))


def credit_names() -> list[str]:
    """What the parts of a name may be, beside import paths."""
    return [*ESTIMATORS, *_PARTS]


def _make_part(name: str, options: Mapping[str, Any]) -> Any:
    path = _PARTS.get(name, name)
    module, _, attribute = path.partition(":")
    if not module or not attribute:
        hint = did_you_mean(name, credit_names())
        raise ConfigError(
            f"no credit part {name!r}.{hint} Known: {', '.join(credit_names())}; or module:Class"
        )
    try:
        kind = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise ConfigError(f"credit part {name!r} cannot be imported: {error}") from error
    if dataclasses.is_dataclass(kind):
        known = [f.name for f in dataclasses.fields(kind) if f.name not in _FIXED]
        for option in options:
            if option not in known:
                hint = did_you_mean(str(option), known)
                raise ConfigError(
                    f"credit_options.{name} has {option!r}, which it does not read.{hint} "
                    f"Known: {', '.join(known) or 'none'}"
                )
    try:
        return kind(**options)
    except TypeError as error:
        raise ConfigError(f"credit_options.{name}: {error}") from error


def _check_need(name: str, part: Any) -> None:
    try:
        AttentionNeed.of(getattr(part, "needs_attention", None))  # type: ignore[arg-type]
    except ConfigError as error:
        raise ConfigError(f"credit part {name!r}: {error}") from error


_FIXED = ("invariance", "needs_attention")
