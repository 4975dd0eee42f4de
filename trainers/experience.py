"""A batch of trajectories as flat arrays over its sampled tokens, and the estimation of advantages.

Everything about a batch that the optimiser needs is one number a sampled token, numbered through the
batch. The arrays are the same on every device of a data-parallel run, so whitening and counts need no
further communication.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

import numpy as np
import numpy.typing as npt

from agentic_gym.rewards.credit.base import AttentionFacts, CreditBatch, turn_starts
from agentic_gym.rewards.credit.estimators import group_advantages, token_gae, turn_gae
from agentic_gym.rewards.credit.gigpo import gigpo_advantages
from agentic_gym.rewards.credit.plan import CreditPlan
from agentic_gym.store import TokenCredit
from agentic_gym.trainers import advantages as adv
from agentic_gym.trainers.batching import Row, make_rows
from agentic_gym.types import Trajectory

Floats = npt.NDArray[np.float64]

_FILLED = ("proximal", "reference", "values", "rewards", "advantages", "returns", "value_mask")


class AdvantageSettings(Protocol):
    """The part of the configuration that :meth:`Experience.estimate` reads."""

    advantage: str
    gamma: float
    token_gamma: float
    gae_lambda: float
    adaptive_lambda: float
    gigpo_omega: float
    bootstrap_truncated: bool
    group_scale: str
    whiten_advantages: bool


@dataclass(slots=True, eq=False)
class Experience:
    """A batch, flattened. ``N`` runs over all sampled tokens, ``R`` over trajectories.

    Attributes:
        trajectories: in the order of the batch.  # [R]
        rows: their tokens.  # [R]
        version: of the weights before this update.
        behaviour: log-probabilities under the policy that sampled.  # [N]
        versions: weight versions that sampled.  # [N]
        turns: turn of each token within its trajectory.  # [N]
        proximal: log-probabilities under the weights before this update.  # [N]
        reference: log-probabilities under the reference policy, if there is one.  # [N]
        values: predictions before this update.  # [N]
        last_values: predictions after the last token.  # [R]
        rewards: what each token earns, after the credit assigners.  # [N]
        advantages: what the policy is trained on.  # [N]
        returns: what the value head is trained on.  # [N]
        value_mask: where the value head has a target.  # [N]
        attention: of the policy in each trajectory, where credit needs it.  # [R] or empty
        facts: what was counted while credit was given.
    """

    trajectories: Sequence[Trajectory]
    rows: list[Row]
    version: int
    behaviour: Floats
    versions: npt.NDArray[np.int64]
    turns: npt.NDArray[np.int64]
    proximal: Floats = field(default_factory=lambda: np.zeros(0))
    reference: Floats = field(default_factory=lambda: np.zeros(0))
    values: Floats = field(default_factory=lambda: np.zeros(0))
    last_values: Floats = field(default_factory=lambda: np.zeros(0))
    rewards: Floats = field(default_factory=lambda: np.zeros(0))
    advantages: Floats = field(default_factory=lambda: np.zeros(0))
    returns: Floats = field(default_factory=lambda: np.zeros(0))
    value_mask: npt.NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, bool))
    attention: Sequence[AttentionFacts | None] = ()
    facts: dict[str, float] = field(default_factory=dict)

    @classmethod
    def gather(cls, trajectories: Sequence[Trajectory], version: int) -> Experience:
        """Flattens trajectories that each have a sampled token.

        Args:
            trajectories: of one batch.
            version: of the weights now.
        """
        rows = make_rows(trajectories)
        streams = [t.tokens for t in trajectories if t.tokens is not None]
        pairs = list(zip(streams, rows, strict=True))

        def flat(name: str, dtype: type) -> npt.NDArray[np.generic]:
            parts = [getattr(stream, name)[row.sampled] for stream, row in pairs]
            return np.concatenate(parts).astype(dtype) if parts else np.zeros(0, dtype)

        behaviour = flat("logprobs", np.float64)
        return cls(
            trajectories=trajectories,
            rows=rows,
            version=version,
            behaviour=behaviour,  # type: ignore[arg-type]
            versions=flat("versions", np.int64),  # type: ignore[arg-type]
            turns=flat("turns", np.int64),  # type: ignore[arg-type]
            proximal=behaviour.copy(),  # type: ignore[arg-type]
            values=np.zeros(len(behaviour)),
            last_values=np.zeros(len(rows)),
        )

    def part(self, row: int) -> slice:
        """Where a trajectory's tokens lie in the flat arrays."""
        first = self.rows[row].first
        return slice(first, first + len(self.rows[row].sampled))

    @property
    def staleness(self) -> npt.NDArray[np.int64]:
        """Trainer version minus sampler version of each token.  # [N]"""
        return self.version - self.versions

    def estimate(self, settings: AdvantageSettings, credit: CreditPlan | None = None) -> None:
        """Fills rewards, advantages, returns and value mask from what was earned, and from values.

        Args:
            settings: which estimator, and its parameters.
            credit: what each sampled token earns, and what becomes of its advantage; None: each turn's
                reward at its end.
        """
        plan = credit or CreditPlan()
        self.returns = np.zeros(len(self.behaviour))
        self.value_mask = np.zeros(len(self.behaviour), bool)
        batch = CreditBatch(
            self.trajectories,
            [self.part(r) for r in range(len(self.rows))],
            self.turns,
            settings.gamma,
            self.attention,
            self.facts,
        )
        self.rewards = rewards = plan.rewards(batch)
        scale: Literal["std", "none"] = "std" if settings.group_scale == "std" else "none"
        if settings.advantage == "group":
            # Moved rewards add up with rounding, which must not become a signal between equal ones.
            totals = [round(float(rewards[part].sum()), 9) for part in batch.parts]
            whole = totals if plan.assigners else [t.reward for t in self.trajectories]
            groups = [t.group_id for t in self.trajectories]
            shares = group_advantages(whole, groups, scale=scale)
            lengths = [part.stop - part.start for part in batch.parts]
            self.advantages = np.repeat(shares, lengths)
        elif settings.advantage == "gigpo":
            self.advantages = gigpo_advantages(
                batch, rewards, omega=settings.gigpo_omega, scale=scale
            )
        else:
            self._estimate_gae(settings, rewards)
        self.advantages = plan.modify(batch, self.advantages)
        if settings.whiten_advantages and settings.advantage in ("turn_gae", "token_gae"):
            self.advantages = adv.whiten(self.advantages)

    def _estimate_gae(self, settings: AdvantageSettings, rewards_N: Floats) -> None:
        self.advantages = np.zeros(len(self.behaviour))
        for r, trajectory in enumerate(self.trajectories):
            part = self.part(r)
            turns = self.turns[part]
            open_end = (
                settings.bootstrap_truncated and trajectory.truncated and not trajectory.terminated
            )
            bootstrap = float(self.last_values[r]) if open_end else 0.0
            if settings.advantage == "turn_gae":
                advantages, returns = turn_gae(
                    rewards_N[part],
                    self.values[part],
                    turns,
                    gamma=settings.gamma,
                    lam=settings.gae_lambda,
                    alpha=settings.adaptive_lambda,
                    bootstrap=bootstrap,
                )
                self.value_mask[part] = turn_starts(turns)
            else:
                advantages, returns = token_gae(
                    rewards_N[part],
                    self.values[part],
                    turns,
                    gamma=settings.gamma,
                    token_gamma=settings.token_gamma,
                    lam=settings.gae_lambda,
                    alpha=settings.adaptive_lambda,
                    bootstrap=bootstrap,
                )
                self.value_mask[part] = True
            self.advantages[part], self.returns[part] = advantages, returns

    def fill_from(self, piece: Experience) -> None:
        """Takes over all that is known of some of these trajectories.

        Args:
            piece: an experience of these trajectories alone, scored and estimated.
        """
        row_of = {t.trajectory_id: r for r, t in enumerate(self.trajectories)}
        rows = [row_of[t.trajectory_id] for t in piece.trajectories]
        at = np.concatenate([np.arange(self.part(r).start, self.part(r).stop) for r in rows])
        for name in _FILLED:
            known = getattr(piece, name)
            if len(known) and not len(getattr(self, name)):
                setattr(self, name, np.zeros(len(self.behaviour), known.dtype))
            if len(known):
                getattr(self, name)[at] = known
        self.last_values[rows] = piece.last_values
        for name, value in piece.facts.items():
            self.facts[name] = self.facts.get(name, 0.0) + value

    def credit(self) -> dict[str, TokenCredit]:
        """What each sampled token earned and is trained on, by trajectory id; known once estimated."""
        rewards, advantages = self.rewards.astype(np.float32), self.advantages.astype(np.float32)
        return {
            trajectory.trajectory_id: TokenCredit(rewards[self.part(r)], advantages[self.part(r)])
            for r, trajectory in enumerate(self.trajectories)
        }

    def problem(self) -> str | None:
        """Names the first quantity that is not finite, and whose it is; None if all are."""
        rewards = np.asarray([t.reward for t in self.trajectories])
        if not np.isfinite(rewards).all():
            row = int(np.flatnonzero(~np.isfinite(rewards))[0])
            return (
                f"the reward of trajectory {self.trajectories[row].trajectory_id} is {rewards[row]}"
            )
        names = {
            "behaviour": "behaviour logprob (the engine's)",
            "proximal": "proximal logprob (the trainer's, before the update)",
            "reference": "reference logprob",
            "values": "value",
            "advantages": "advantage",
            "returns": "return",
        }
        for name, words in names.items():
            bad = np.flatnonzero(~np.isfinite(getattr(self, name)))
            if len(bad):
                row = int(
                    np.searchsorted([row.first for row in self.rows], bad[0], side="right") - 1
                )
                name_of = self.trajectories[row].trajectory_id
                value = getattr(self, name)[bad[0]]
                return f"{len(bad)} tokens have a {words} of {value}, first in trajectory {name_of}"
        return None

    def save(self, path: Path, problem: str = "") -> None:
        """Writes the batch with everything known of it as a NumPy archive.

        ``ids`` and ``lengths`` give the tokens, ``counts`` the sampled tokens of each trajectory.
        """
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as file:
            np.savez_compressed(
                file,
                trajectory_ids=np.asarray([t.trajectory_id for t in self.trajectories]),
                rewards=np.asarray([t.reward for t in self.trajectories]),
                ids=np.concatenate([row.ids for row in self.rows]),
                lengths=np.asarray([len(row.ids) for row in self.rows]),
                sampled=np.concatenate([row.sampled for row in self.rows]),
                counts=np.asarray([len(row.sampled) for row in self.rows]),
                behaviour=self.behaviour,
                versions=self.versions,
                turns=self.turns,
                proximal=self.proximal,
                reference=self.reference,
                values=self.values,
                advantages=self.advantages,
                returns=self.returns,
                problem=np.asarray(problem),
            )
