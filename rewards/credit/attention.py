"""Credit by the policy's own attention.

Sources: attention-based credit (ABC; Chan, Sun, Holt and van der Schaar 2024, "Dense Reward for Free in
Reinforcement Learning from Human Feedback", section 3), which spreads the return over the tokens to which the
last ones attended; here the deciding ones (last edit or submission). That looks into the future: which tokens
are attended to is known only at the end. So it moves reward to go, and is no potential; the causal form below
asks at each turn what it attends to, and is one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from agentic_gym.errors import ConfigError
from agentic_gym.rewards.credit.base import (
    AttentionFacts,
    AttentionNeed,
    CreditBatch,
    Floats,
    Ints,
    Invariance,
    last_tokens,
    turn_starts,
)


@dataclass(frozen=True, slots=True)
class AttentionCredit:
    """Spreads an episode's return over its sampled tokens by the attention of the deciding ones.

    ``r_t = β·α_t·R + (1-β)·(r_t as it was)``, α normalised over the sampled tokens. A trajectory whose
    attention cannot be had, is not finite or adds up to nothing keeps everything at its end, and is counted
    (``credit_fallback``).

    Attributes:
        beta: share that is spread, in [0, 1].
        per_turn: all tokens of a turn share what falls on it. To an estimator with one step a turn it
            makes no difference.

    Raises:
        ConfigError: β is out of range.
    """

    beta: float = 0.5
    per_turn: bool = False
    invariance: Invariance = Invariance.RETURN
    needs_attention: AttentionNeed = AttentionNeed.DECIDING

    def __post_init__(self) -> None:
        _check_share("beta", self.beta)

    def assign(self, batch: CreditBatch, rewards_N: Floats) -> Floats:
        """See :class:`~agentic_gym.rewards.credit.base.CreditAssigner`."""
        moved = rewards_N.copy()
        for part, facts in zip(batch.parts, _attention(batch), strict=True):
            if part.stop == part.start:
                continue
            total = float(rewards_N[part].sum())
            share = None if facts is None else normalised(facts.deciding)
            if share is None:
                batch.count("credit_fallback")
                moved[part] = 0.0
                moved[part.stop - 1] = total
                continue
            if self.per_turn:
                share = _shared_by_turn(share, batch.turns[part])
            moved[part] = self.beta * total * share + (1 - self.beta) * rewards_N[part]
        return moved


@dataclass(frozen=True, slots=True)
class CausalAttentionCredit:
    """Potential differences of how much each turn builds on the turns before it.

    Φ after turn k = ``scale`` times the share of its attention that turn k pays to what was sampled in
    earlier turns: known when the turn is over, so a function of the prefix. Rewards get γΦ(after) -
    Φ(before), with Φ = 0 before the first turn and after the last. The potential depends on the weights,
    and is fixed only within an update: what Ng's theorem says, it says of each update's problem.

    Attributes:
        scale: of the potential; keep it well under the reward of solving.

    Raises:
        ConfigError: the scale is negative or not finite.
    """

    scale: float = 0.2
    invariance: Invariance = Invariance.OPTIMAL_POLICY
    needs_attention: AttentionNeed = AttentionNeed.TURNS

    def __post_init__(self) -> None:
        if not 0 <= self.scale < float("inf"):
            raise ConfigError(f"scale={self.scale} must be finite and not negative")

    def assign(self, batch: CreditBatch, rewards_N: Floats) -> Floats:
        """See :class:`~agentic_gym.rewards.credit.base.CreditAssigner`."""
        moved = rewards_N.copy()
        for part, facts in zip(batch.parts, _attention(batch), strict=True):
            turns = batch.turns[part]
            if not len(turns):
                continue
            grounded = None if facts is None else facts.turns.sum(axis=1)
            if grounded is None or not np.isfinite(grounded).all():
                batch.count("credit_fallback")
                continue
            after = self.scale * np.clip(grounded, 0.0, 1.0)
            after[-1] = 0.0
            before = np.concatenate([[0.0], after[:-1]])
            numbered = np.cumsum(turn_starts(turns)) - 1
            ends = last_tokens(numbered, len(after))
            np.add.at(moved[part], ends, batch.gamma * after - before)
        return moved


@dataclass(frozen=True, slots=True)
class PreplanAnchor:
    """Raises the advantages of tokens that later ones lean on, and of where they were planned.

    Source: arXiv 2510.13554, section 4: of the tokens with the highest influence (FAI), those with an
    advantage of at least 0 get ``factor`` times theirs. An anchor that attends only to what is near (its
    reach is low) was planned by the token before it with the longest reach (WAAD), at most ``back`` tokens
    earlier: half of what the anchor gains goes there.

    Attributes:
        share: of the sampled tokens that are anchors.
        factor: of their advantages.
        back: tokens up to which a plan may lie before its anchor.

    Raises:
        ConfigError: a number is out of range.
    """

    share: float = 0.4
    factor: float = 1.5
    back: int = 3
    needs_attention: AttentionNeed = AttentionNeed.INFLUENCE

    def __post_init__(self) -> None:
        _check_share("share", self.share)
        if self.factor < 1 or self.back < 0:
            raise ConfigError(
                f"factor={self.factor} must be at least 1 and back={self.back} at least 0"
            )

    def modify(self, batch: CreditBatch, advantages_N: Floats) -> Floats:
        """See :class:`~agentic_gym.rewards.credit.base.AdvantageModifier`."""
        changed = advantages_N.copy()
        for part, facts in zip(batch.parts, _attention(batch), strict=True):
            if part.stop == part.start:
                continue
            if facts is None or not _finite(facts.influence, facts.reach):
                batch.count("credit_fallback")
                continue
            changed[part] += self._gains(advantages_N[part], facts)
        return changed

    def _gains(self, advantages: Floats, facts: AttentionFacts) -> Floats:
        gains = np.zeros(len(advantages))
        count = int(self.share * len(advantages))
        # Stable: of equals, the earlier one.
        anchors = np.argsort(-facts.influence, kind="stable")[:count]
        near = float(np.median(facts.reach))
        for t in anchors:
            gain = (self.factor - 1) * advantages[t]
            if gain <= 0:
                continue
            first = max(0, t - self.back)
            if facts.reach[t] >= near or first == t:
                gains[t] += gain
                continue
            plan = first + int(np.argmax(facts.reach[first:t]))
            gains[t] += gain / 2
            gains[plan] += gain / 2
        return gains


def normalised(weights: Floats) -> Floats | None:
    """Weights that add up to 1; None if they are negative, not finite or add up to nothing."""
    total = float(weights.sum()) if len(weights) else 0.0
    if not (np.isfinite(weights).all() and (weights >= 0).all() and total > 0):
        return None
    return weights / total


def _shared_by_turn(share: Floats, turns: Ints) -> Floats:
    step = np.cumsum(turn_starts(turns)) - 1
    means: Floats = np.bincount(step, weights=share) / np.bincount(step)
    shared: Floats = means[step]
    return shared


def _attention(batch: CreditBatch) -> list[AttentionFacts | None]:
    return list(batch.attention) or [None] * len(batch.parts)


def _finite(*arrays: Floats) -> bool:
    return all(bool(np.isfinite(array).all()) for array in arrays)


def _check_share(name: str, value: float) -> None:
    if not 0 <= value <= 1:
        raise ConfigError(f"{name}={value} must lie between 0 and 1")
