"""An update whose gradients are begun before its batch is whole: the stream trainer of RollPacker.

After RollPacker (NSDI '26): while the last episodes of a round are played, the trainer scores the groups that
are certain to be in the batch and adds up their gradients; when the batch is there, the rest is added and one
optimiser step taken. No weight changes before that, so what is played meanwhile is sampled by one version,
and the gradient is that of the batch in one piece, but for the order in which floats are added.

The paper reweights by sample counts. Here nothing has to be reweighted: gradients are those of *sums* over
tokens, and are divided at the end by the counts of the batch. Policy and value head have different ones
(tokens, and tokens with a target), which is exact because their parameters do not share a loss
(``value_detach``), or have the same counts. What would need the whole batch before the first gradient is
refused by :class:`~agentic_gym.trainers.config.AgenticPPOConfig`.

Rejected: sums that do not depend on the order of the pieces (two doubles on a grid for each parameter), which
would cost as much memory again as weights, gradients and optimiser together. Instead, a batch that is trained
again after a restart comes from the source in the same pieces: that gives the same bits.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import torch
from torch import nn

from agentic_gym.errors import ConfigError, TrainingError
from agentic_gym.trainers.experience import Experience
from agentic_gym.trainers.update import Updater
from agentic_gym.trainers.update_metrics import Totals, describe
from agentic_gym.trainers.update_parts import Flat
from agentic_gym.trainers.value_head import is_value_parameter


@dataclass(slots=True, eq=False)
class StreamedUpdater(Updater):
    """Runs updates that are given in pieces."""

    _pieces: list[Experience] = field(default_factory=list)
    _sums: Totals = field(default_factory=lambda: Totals(1, 1))
    _score_s: float = 0.0
    _optimise_s: float = 0.0

    def add(self, model: nn.Module, piece: Experience) -> None:
        """Adds the gradients of a part of the batch that :meth:`run` will be given.

        Args:
            model: as in :meth:`run`.
            piece: as gathered, of whole groups; advantages are filled in.

        Raises:
            NonFiniteError: a NaN or an infinity; the piece was saved.
        """
        started = time.perf_counter()
        self._refuse(piece, piece.problem())
        self.score(model, piece)
        piece.estimate(self.config, self.credit)
        self._refuse(piece, piece.problem())
        scored = time.perf_counter()
        flat = Flat.of(piece, self.accelerator.device)
        # Divided by one: the counts of the batch are not known yet.
        self._backward(model, piece, flat, list(range(len(piece.rows))), self._sums, send=False)
        self._pieces.append(piece)
        self._score_s += scored - started
        self._optimise_s += time.perf_counter() - scored

    def run(
        self, model: nn.Module, optimizer: torch.optim.Optimizer, experience: Experience
    ) -> dict[str, float]:
        """Adds what no piece had, and takes the optimiser step. Gradients are None afterwards.

        Args:
            model: the policy with its value head, as prepared for training.
            optimizer: over its parameters.
            experience: the whole batch, as gathered.

        Returns:
            What was measured.

        Raises:
            ConfigError: the batch is larger than a minibatch.
            NonFiniteError: a NaN or an infinity; the batch was saved.
            TrainingError: a piece is not of this batch.
        """
        early = self._check(experience)
        streamed = sum(len(piece.behaviour) for piece in self._pieces)
        rest = [t for t in experience.trajectories if t.trajectory_id not in early]
        if rest:
            self.add(model, Experience.gather(rest, experience.version))
        started = time.perf_counter()
        for piece in self._pieces:
            experience.fill_from(piece)
        totals = Totals(passes=1)
        step = self._divide(model, experience)
        with self._learning_rates_scaled(optimizer, experience):
            self._conclude(model, optimizer, experience, step, totals)
        optimise_s = self._optimise_s + time.perf_counter() - started
        seconds = self._score_s + optimise_s
        metrics = {
            **totals.means(),
            **describe(experience),
            "streamed_share": streamed / len(experience.behaviour),
            "time_score_s": self._score_s,
            "time_optimise_s": optimise_s,
            "update_tokens_per_s": 2 * sum(row.length for row in experience.rows) / seconds,
        }
        self.forget()
        return metrics

    def forget(self) -> None:
        """Forgets what was added for a batch that did not come; gradients are the caller's."""
        self._pieces = []
        self._sums = Totals(1, 1)
        self._score_s = self._optimise_s = 0.0

    def _check(self, experience: Experience) -> set[str]:
        """Names of the trajectories whose gradients are there."""
        if len(experience.rows) > self.config.minibatch_size:
            raise ConfigError(
                f"stream=True takes one optimiser step a batch, and this one has {len(experience.rows)} "
                f"trajectories: minibatch_size is {self.config.minibatch_size}, set it to the largest batch"
            )
        early = [t.trajectory_id for piece in self._pieces for t in piece.trajectories]
        strange = set(early).difference(t.trajectory_id for t in experience.trajectories)
        if strange or len(set(early)) < len(early):
            raise TrainingError(
                f"the source gave parts of update {experience.version + 1} that are not in its batch, or "
                f"gave them twice: {', '.join(sorted(strange or early))}"
            )
        return set(early)

    def _divide(self, model: nn.Module, experience: Experience) -> Totals:
        """Makes means of the sums: of the gradients on all devices, and of what was measured."""
        step, self._sums = self._sums, Totals(1, 1)
        step.tokens, step.targets = self._counts(experience, range(len(experience.rows)))
        step.policy_loss /= max(step.tokens, 1)
        step.value_loss /= max(step.targets, 1)
        for name, parameter in model.named_parameters():
            if parameter.grad is None:
                continue
            count = step.targets if is_value_parameter(name) else step.tokens
            if self._world > 1:
                parameter.grad = self.accelerator.reduce(parameter.grad, "mean")
            parameter.grad /= max(count, 1)
        return step
