"""What an update measures: sums over tokens while it runs, means afterwards."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
from torch import Tensor

from agentic_gym.trainers.advantages import explained_variance
from agentic_gym.trainers.experience import Experience
from agentic_gym.trainers.gradient_norms import mean_norms
from agentic_gym.trainers.losses import PolicyTerm, kl_k3
from agentic_gym.trainers.scoring import Scores
from agentic_gym.types import Outcome

_SUMMED = (
    "policy_loss",
    "value_loss",
    "entropy",
    "kl",
    "reference_kl",
    "clipped",
    "capped",
    "ratio",
    "weight",
    "weight_squared",
)

_LONG = 3
"""Turns from which on an episode has a middle, so that credit can be said to come late."""


@dataclass(slots=True, eq=False)
class Totals:
    """Sums over the tokens of one or more minibatches.

    ``tokens`` and ``targets`` are those of all devices; the other sums are of this device until
    :meth:`load` puts in those of all.
    """

    tokens: int = 0
    targets: int = 0
    policy_loss: float = 0.0
    value_loss: float = 0.0
    entropy: float = 0.0
    kl: float = 0.0
    reference_kl: float = 0.0
    clipped: float = 0.0
    capped: float = 0.0
    ratio: float = 0.0
    weight: float = 0.0
    weight_squared: float = 0.0
    minibatches: int = 0
    passes: int = 0
    stopped_early: bool = False
    grad_norms: list[float] = field(default_factory=list)
    value_grad_norms: list[float] = field(default_factory=list)
    layer_norms: list[dict[str, float]] = field(default_factory=list)

    @property
    def loss(self) -> float:
        """Sum of the losses, for the check that they are finite."""
        return self.policy_loss + self.value_loss + self.reference_kl + self.entropy

    def worst(self) -> str:
        """Which of the losses is not finite."""
        names = ("policy_loss", "value_loss", "reference_kl", "entropy")
        return ", ".join(n for n in names if not np.isfinite(getattr(self, n)))

    def record(
        self, term: PolicyTerm, scores: Scores, proximal: Tensor, value_loss: Tensor
    ) -> None:
        """Adds one micro-batch."""
        weight = term.weight.double()
        self.policy_loss += float(term.loss.detach())
        self.value_loss += float(value_loss.detach())
        self.entropy += float(scores.entropy.detach().sum())
        # KL(proximal ‖ current): the tokens were sampled from (nearly) the proximal policy.
        self.kl += float(kl_k3(proximal, scores.logprobs.detach()).sum())
        self.clipped += float(term.clipped.sum())
        self.capped += float(term.capped.sum())
        self.ratio += float(term.ratio.sum())
        self.weight += float(weight.sum())
        self.weight_squared += float(weight.square().sum())

    def sums(self) -> npt.NDArray[np.float64]:
        """What has to be added up over devices."""
        return np.asarray([getattr(self, name) for name in _SUMMED])

    def load(self, sums: npt.NDArray[np.float64]) -> None:
        """Puts in the sums over all devices."""
        for name, value in zip(_SUMMED, sums, strict=True):
            setattr(self, name, float(value))

    def add(self, step: Totals) -> None:
        """Adds a minibatch."""
        self.minibatches += 1
        self.tokens += step.tokens
        self.targets += step.targets
        for name in _SUMMED:
            setattr(self, name, getattr(self, name) + getattr(step, name))

    def means(self) -> dict[str, float]:
        """Means over tokens; losses are means over minibatches."""
        tokens, steps = max(self.tokens, 1), max(self.minibatches, 1)
        return {
            "policy_loss": self.policy_loss / steps,
            "value_loss": self.value_loss / steps,
            "entropy": self.entropy / tokens,
            "approx_kl": self.kl / tokens,
            "reference_kl": self.reference_kl / tokens,
            "clip_fraction": self.clipped / tokens,
            "capped_fraction": self.capped / tokens,
            "ratio": self.ratio / tokens,
            "ess": self.weight**2 / max(tokens * self.weight_squared, 1e-300),
            "grad_norm": _mean(self.grad_norms),
            "value_grad_norm": _mean(self.value_grad_norms),
            "optimizer_steps": float(len(self.grad_norms)),
            "stopped_early": float(self.stopped_early),
            **mean_norms(self.layer_norms),
        }


def _mean(values: list[float]) -> float:
    return float(np.mean(values)) if values else 0.0


def describe(experience: Experience) -> dict[str, float]:
    """Facts of a batch: rewards, lengths, staleness, mismatch between engine and trainer."""
    mask = experience.value_mask
    rewards = np.asarray([t.reward for t in experience.trajectories])
    staleness = experience.staleness
    fresh = staleness == 0
    gap = np.abs(np.exp(experience.proximal[fresh]) - np.exp(experience.behaviour[fresh]))
    facts = {
        "reward": float(rewards.mean()),
        "reward_std": float(rewards.std()),
        "turns": float(np.mean([len(t.turns) for t in experience.trajectories])),
        "tokens": float(sum(len(row.ids) for row in experience.rows)),
        "sampled_tokens": float(len(experience.behaviour)),
        "trajectories": float(len(experience.rows)),
        "explained_variance": explained_variance(experience.values[mask], experience.returns[mask]),
        "value": float(experience.values[mask].mean()) if mask.any() else 0.0,
        "staleness": float(staleness.mean()),
        "staleness_max": float(staleness.max()),
        "probability_mismatch": float(gap.mean()) if len(gap) else 0.0,
    }
    for outcome in Outcome:
        if outcome is Outcome.INFRA_ERROR:
            continue  # never in a batch; whoever plays the episodes counts them
        share = np.mean([t.outcome is outcome for t in experience.trajectories])
        facts[f"outcome_{outcome.value}"] = float(share)
    for versions_old, count in zip(
        *np.unique(np.minimum(staleness, 8), return_counts=True), strict=True
    ):
        facts[f"staleness_share_{versions_old}"] = float(count / len(staleness))
    credit = {f"credit/{name}": value for name, value in experience.facts.items()}
    return (
        facts
        | credit
        | _late_credit(experience)
        | _custom_rewards(experience)
        | _version_kl(experience)
    )


def _late_credit(experience: Experience) -> dict[str, float]:
    """Share of what tokens earn, in absolute numbers, that falls into the last turn of long episodes.

    Near 1, an agent is trained on how it ends alone, and nothing holds on to what it did before. Nothing to
    say where no episode has 3 turns, or none of these earns anything.
    """
    whole = late = 0.0
    for r, trajectory in enumerate(experience.trajectories):
        if len(trajectory.turns) < _LONG:
            continue
        part = experience.part(r)
        earned, turns = np.abs(experience.rewards[part]), experience.turns[part]
        whole += float(earned.sum())
        late += float(earned[turns == turns[-1]].sum())
    return {"late_credit_share": late / whole} if whole > 0 else {}


def _custom_rewards(experience: Experience) -> dict[str, float]:
    """Means of the custom rewards, by name, unweighted (:class:`~agentic_gym.rewards.rubric.Rubric`)."""
    found: dict[str, list[float]] = {}
    for trajectory in experience.trajectories:
        for name, value in trajectory.metrics.items():
            if name.startswith("reward/"):
                found.setdefault(name, []).append(value)
    return {name: float(np.mean(values)) for name, values in found.items()}


def _version_kl(experience: Experience) -> dict[str, float]:
    """KL(sampler ‖ policy before the update), by the number of versions between them.

    From the tokens that the sampler drew, by the estimator ``r - 1 - log r`` of one sample, with
    r = π_proximal / π_behaviour (Schulman, "Approximating KL divergence", 2020). At distance 0 it is what
    engine and trainer differ by.
    """
    distance = np.minimum(experience.staleness, 8)
    log_ratio = experience.proximal - experience.behaviour
    kl = np.expm1(log_ratio) - log_ratio
    found = {f"version_kl_{n}": float(kl[distance == n].mean()) for n in np.unique(distance)}
    return {"version_kl": float(kl.mean()), **found}
