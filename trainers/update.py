"""One PPO update: score a batch, estimate advantages, take the optimiser steps.

Separate from the trainer so that it can be read, timed and tested without TRL's loop. The policy is the
same in all passes: dropout is off, so the ratio is exactly one before the first step.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from agentic_gym.errors import NonFiniteError
from agentic_gym.rewards.credit.base import AttentionFacts
from agentic_gym.rewards.credit.plan import CreditPlan
from agentic_gym.trainers import losses
from agentic_gym.trainers.attention_facts import attention_facts
from agentic_gym.trainers.batching import MicroBatch, collate, plan
from agentic_gym.trainers.config import AgenticPPOConfig
from agentic_gym.trainers.experience import Experience
from agentic_gym.trainers.gradient_norms import layer_norms
from agentic_gym.trainers.model_parts import began_in
from agentic_gym.trainers.scoring import Scorer
from agentic_gym.trainers.update_metrics import Totals, describe
from agentic_gym.trainers.update_parts import Flat, ScaledRates
from agentic_gym.trainers.value_head import is_value_parameter


@dataclass(slots=True, eq=False)
class Reference:
    """The policy that the KL term holds on to.

    Attributes:
        scorer: of ``model``.
        model: a frozen copy, or the policy itself under ``adapter_off``.
        adapter_off: context that switches LoRA off, or None.
    """

    scorer: Scorer
    model: nn.Module
    adapter_off: Any = None


@dataclass(slots=True, eq=False)
class Updater:
    """Runs updates.

    Attributes:
        config: settings.
        accelerator: of the trainer.
        scorer: of the policy.
        credit: what each sampled token earns.
        reference: for the KL term, or None.
    """

    config: AgenticPPOConfig
    accelerator: Any
    scorer: Scorer
    credit: CreditPlan
    reference: Reference | None = None

    def run(
        self, model: nn.Module, optimizer: torch.optim.Optimizer, experience: Experience
    ) -> dict[str, float]:
        """All optimiser steps on one batch. Gradients are None afterwards.

        Args:
            model: the policy with its value head, as prepared for training.
            optimizer: over its parameters.
            experience: as gathered; advantages are filled in.

        Returns:
            What was measured.

        Raises:
            NonFiniteError: a NaN or an infinity; the batch was saved.
        """
        started = time.perf_counter()
        self._refuse(experience, experience.problem())
        self.score(model, experience)
        experience.estimate(self.config, self.credit)
        self._refuse(experience, experience.problem())
        scored = time.perf_counter()
        totals = Totals()
        with self._learning_rates_scaled(optimizer, experience):
            self._optimise(model, optimizer, experience, totals)
        ended = time.perf_counter()
        passes = totals.passes + 1
        return {
            **totals.means(),
            **describe(experience),
            "time_score_s": scored - started,
            "time_optimise_s": ended - scored,
            "update_tokens_per_s": passes
            * sum(row.length for row in experience.rows)
            / (ended - started),
        }

    # ---- scoring -------------------------------------------------------------------------------

    def score(self, model: nn.Module, experience: Experience) -> None:
        """Fills proximal (and reference) log-probabilities, values and attention, without gradient."""
        config = self.config
        if self.credit.needs_attention:
            experience.attention = self._attention(model, experience)
        needs_values = self.credit.needs_values
        reusable = config.reuse_behaviour and not experience.staleness.any()
        if reusable and not needs_values and self.reference is None:
            return
        last = config.bootstrap_truncated and needs_values
        mine = range(self.accelerator.process_index, len(experience.rows), self._world)
        flat = np.zeros((3, len(experience.behaviour)))
        last_values = np.zeros(len(experience.rows))
        for chosen, micro in self._micro_batches(experience, mine, whole=last):
            index = micro.index.cpu().numpy()
            with torch.no_grad():
                scores = self.scorer(self.accelerator.unwrap_model(model), micro, last=last)
                flat[0, index] = scores.logprobs.double().cpu().numpy()
                flat[1, index] = scores.values.double().cpu().numpy()
                if last:
                    last_values[chosen] = scores.last_values.double().cpu().numpy()
                if self.reference is not None:
                    flat[2, index] = self._reference_logprobs(micro)
        flat, last_values = self._sum_over_devices(flat), self._sum_over_devices(last_values)
        experience.proximal, experience.values = flat[0], flat[1]
        experience.last_values = last_values
        if self.reference is not None:
            experience.reference = flat[2]

    def _attention(
        self, model: nn.Module, experience: Experience
    ) -> Sequence[AttentionFacts | None]:
        """The same on all devices, which must agree on the advantages."""
        box: list[list[AttentionFacts | None]] = [[]]
        if self.accelerator.is_main_process:
            box[0] = attention_facts(
                self.accelerator.unwrap_model(model),
                experience.trajectories,
                needs=self.credit.needs_attention,
                layout=self.config.layout,
                token_budget=self.config.micro_batch_tokens,
                layers=self.config.attention_layers,
            )
        if self._world > 1:
            torch.distributed.broadcast_object_list(box, src=0)
        return box[0]

    def _reference_logprobs(self, micro: MicroBatch) -> Any:
        reference = self.reference
        assert reference is not None
        if reference.adapter_off is None:
            scores = reference.scorer(reference.model, micro)
        else:
            with reference.adapter_off():
                scores = reference.scorer(reference.model, micro)
        return scores.logprobs.double().cpu().numpy()

    # ---- optimisation --------------------------------------------------------------------------

    def _optimise(
        self,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        experience: Experience,
        totals: Totals,
    ) -> None:
        flat = Flat.of(experience, self.accelerator.device)
        rng = np.random.default_rng([self.config.seed, experience.version])
        count = len(experience.rows)
        parts = -(-count // self.config.minibatch_size)
        for _ in range(self.config.ppo_epochs):
            totals.passes += 1
            for minibatch in np.array_split(rng.permutation(count), parts):
                rows = minibatch.tolist()
                step = Totals(*self._counts(experience, rows))
                self._backward(model, experience, flat, rows, step)
                if not self._conclude(model, optimizer, experience, step, totals):
                    return

    def _conclude(
        self,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        experience: Experience,
        step: Totals,
        totals: Totals,
    ) -> bool:
        """Takes the optimiser step of a minibatch; False: the policy has moved too far for it."""
        self._reduce(step)
        if not np.isfinite(step.loss):
            epoch = totals.passes - 1
            self._refuse(experience, f"the loss is {step.loss} ({step.worst()}) in epoch {epoch}")
        totals.add(step)
        limit = self.config.target_kl
        warming_up = self._warming_up(experience)
        if limit is not None and not warming_up and step.kl / step.tokens > limit:
            totals.stopped_early = True
            optimizer.zero_grad()
            return False
        self._step(model, optimizer, experience, totals, warming_up)
        return True

    def _warming_up(self, experience: Experience) -> bool:
        """The value head trains alone in this update."""
        config = self.config
        return self.credit.needs_values and experience.version < config.value_warmup_updates

    def _counts(self, experience: Experience, rows: Iterable[int]) -> tuple[int, int]:
        """Sampled tokens and value targets of some trajectories."""
        parts = [experience.part(r) for r in rows]
        return (
            sum(part.stop - part.start for part in parts),
            sum(int(experience.value_mask[part].sum()) for part in parts),
        )

    def _backward(
        self,
        model: nn.Module,
        experience: Experience,
        flat: Flat,
        minibatch: list[int],
        step: Totals,
        *,
        send: bool = True,
    ) -> None:
        """Adds the gradients of one minibatch, over its micro-batches; ``step`` says what divides the sums.

        Only the last backward pass sends gradients to the other devices, if ``send``.
        """
        warming_up = self._warming_up(experience)
        # A device without a trajectory still takes part in the reduction, with weight zero.
        mine = minibatch[self.accelerator.process_index :: self._world]
        weight = float(bool(mine)) * self._world
        micros = list(self._micro_batches(experience, mine or minibatch[:1]))
        for number, (_, micro) in enumerate(micros):
            last = send and number == len(micros) - 1
            with contextlib.nullcontext() if last else self.accelerator.no_sync(model):
                loss = self._loss(model, micro, flat, step, warming_up, bool(mine))
                self.accelerator.backward(weight * loss)

    def _loss(
        self,
        model: nn.Module,
        micro: MicroBatch,
        flat: Flat,
        step: Totals,
        warming_up: bool,
        counted: bool,
    ) -> Tensor:
        config = self.config
        scores = self.scorer(model, micro, entropy_grad=config.entropy_coef != 0 and not warming_up)
        at = micro.index
        term = losses.policy_term(
            scores.logprobs,
            flat.proximal[at],
            flat.behaviour[at],
            flat.advantages[at],
            count=step.tokens,
            clip_low=config.clip_low,
            clip_high=config.clip_high,
            weight_cap=config.weight_cap,
        )
        value_loss = losses.value_term(
            scores.values,
            flat.values[at],
            flat.returns[at],
            count=step.targets,
            clip=config.value_clip,
            mask=flat.value_mask[at],
        )
        policy_loss = term.loss
        if config.entropy_coef:
            bonus = losses.masked_mean(scores.entropy, count=step.tokens)
            policy_loss = policy_loss - config.entropy_coef * bonus
        if flat.reference is not None:
            kl = losses.masked_mean(
                losses.kl_k3(scores.logprobs, flat.reference[at]), count=step.tokens
            )
            policy_loss = policy_loss + config.kl_coef * kl
            step.reference_kl += float(kl.detach()) * step.tokens if counted else 0.0
        if counted:
            step.record(term, scores, flat.proximal[at], value_loss)
        value_loss = config.value_coef * value_loss
        if not warming_up:
            return policy_loss + value_loss
        # Data parallelism waits for a gradient of every parameter; alone, the trunk is not computed.
        return value_loss if self._world == 1 else value_loss + 0.0 * policy_loss

    def _step(
        self,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        experience: Experience,
        totals: Totals,
        warming_up: bool,
    ) -> None:
        """Clips policy and critic apart (so that neither drowns the other), checks, and steps."""
        totals.layer_norms.append(layer_norms(model))
        norms = []
        for critic in (False, True):
            own = [p for n, p in model.named_parameters() if is_value_parameter(n) == critic]
            if warming_up and not critic:
                for parameter in own:
                    parameter.grad = None
            limit = self.config.max_grad_norm or float("inf")
            norms.append(float(self.accelerator.clip_grad_norm_(own, limit)))
        if not np.isfinite(norms).all():
            who = "policy" if not np.isfinite(norms[0]) else "value head"
            bad = [n for n, norm in totals.layer_norms[-1].items() if not np.isfinite(norm)]
            self._refuse(
                experience,
                f"the gradient of the {who} is not finite (norms {norms}), began in {began_in(bad)}",
            )
        optimizer.step()
        optimizer.zero_grad()
        totals.grad_norms.append(norms[0])
        totals.value_grad_norms.append(norms[1])

    # ---- helpers -------------------------------------------------------------------------------

    @property
    def _world(self) -> int:
        return int(self.accelerator.num_processes)

    def _micro_batches(
        self, experience: Experience, chosen: Iterable[int], *, whole: bool = False
    ) -> Iterable[tuple[list[int], MicroBatch]]:
        """(rows, tensors) of each micro-batch."""
        rows = list(chosen)
        lengths = [
            len(experience.rows[r].ids) if whole else experience.rows[r].length for r in rows
        ]
        for group in plan(
            lengths, token_budget=self.config.micro_batch_tokens, layout=self.config.layout
        ):
            members = [rows[i] for i in group]
            yield (
                members,
                collate(
                    [experience.rows[r] for r in members],
                    layout=self.config.layout,
                    device=self.accelerator.device,
                    whole=whole,
                ),
            )

    def _sum_over_devices(self, array: Any) -> Any:
        if self._world == 1:
            return array
        tensor = torch.as_tensor(array, device=self.accelerator.device)
        return self.accelerator.reduce(tensor, "sum").cpu().numpy()

    def _reduce(self, step: Totals) -> None:
        if self._world > 1:
            step.load(self._sum_over_devices(step.sums()))

    def _learning_rates_scaled(
        self, optimizer: torch.optim.Optimizer, experience: Experience
    ) -> ScaledRates:
        mean = float(experience.staleness.mean()) if len(experience.versions) else 0.0
        fresh = 1.0 / (1.0 + self.config.staleness_decay * mean)
        ramp = self.config.ramp_updates
        risen = min(1.0, experience.version / ramp) if ramp else 1.0
        return ScaledRates(optimizer, policy=fresh * risen, value=fresh)

    def _refuse(self, experience: Experience, problem: str | None) -> None:
        if problem is None:
            return
        path = Path(self.config.output_dir) / f"nonfinite-update-{experience.version + 1}.npz"
        experience.save(path, problem)
        raise NonFiniteError(
            f"update {experience.version + 1} cannot go on: {problem}. The batch is in {path}."
        )
