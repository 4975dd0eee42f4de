"""Warm start: supervised learning on demonstrations, before reinforcement learning.

A demonstration is a trajectory whose "sampled" tokens were written by a demonstrator. The loss is the
cross-entropy of those tokens, plus ``context_weight`` times that of everything else (files, test output):
a model made from scratch has no pretraining, so what it reads is also what it learns the language from.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
import torch
from pydantic import Field
from torch.nn import functional as F

from agentic_gym.config import StrictConfig
from agentic_gym.errors import ConfigError, NonFiniteError
from agentic_gym.trainers.batching import Row, collate, plan
from agentic_gym.trainers.scoring import prepare_model
from agentic_gym.types import TokenStream

if TYPE_CHECKING:
    from transformers import PreTrainedModel


class WarmStartConfig(StrictConfig):
    """Settings of the warm start.

    Attributes:
        epochs: passes over the demonstrations; fractions are allowed.
        learning_rate: peak; warmed up over 5 % of the steps, then a cosine down to a tenth.
        batch_tokens: tokens of one step.
        context_weight: weight of the loss on tokens that the demonstrator did not write.
        weight_decay: of matrices; vectors are not decayed.
        optimizer: "adamw", or "muon": Muon for the matrices inside the layers, with the scale of its updates
            matched to AdamW's (Liu et al. 2025, arXiv 2502.16982, section 2.2), and AdamW for the rest.
        max_grad_norm: gradient clipping.
        precision: of the forward and backward pass; weights and optimizer stay in float32. "bfloat16" is
            about 1.5 times as fast on a processor with AMX; elsewhere it was not measured.
        workers: threads that share a batch, each of which computes on its own; with torch set to one thread,
            two of them are faster than two threads in every operation. Results do not depend on timing.
    """

    epochs: float = 2.0
    learning_rate: float = 3e-3
    batch_tokens: int = 8192
    context_weight: float = 0.1
    weight_decay: float = 0.05
    optimizer: Literal["adamw", "muon"] = "adamw"
    max_grad_norm: float = 1.0
    precision: Literal["float32", "bfloat16"] = "float32"
    workers: Annotated[int, Field(gt=0)] = 1


@dataclass(frozen=True, slots=True)
class WarmStartStep:
    """Progress of a warm start.

    Attributes:
        step: steps done.
        num_steps: steps in all.
        loss: mean cross-entropy of the demonstrator's tokens in this step, in nats.
        accuracy: share of them that the model would have chosen.
        num_tokens: tokens read so far.
    """

    step: int
    num_steps: int
    loss: float
    accuracy: float
    num_tokens: int


def warm_start(
    model: PreTrainedModel,
    demonstrations: Sequence[TokenStream],
    config: WarmStartConfig,
    *,
    seed: int,
    on_step: Callable[[WarmStartStep], None] = lambda step: None,
) -> list[WarmStartStep]:
    """Trains ``model`` in place.

    Args:
        model: a causal LM with full attention.
        demonstrations: token streams; ``sampled`` marks what the demonstrator wrote.
        config: settings.
        seed: order of the demonstrations.
        on_step: called after each step.

    Raises:
        ConfigError: no demonstration has a token to learn.
        NonFiniteError: the loss is not finite; the model was not stepped with it.
    """
    rows = [_row(stream) for stream in demonstrations if len(stream) > 1]
    if not any(stream.sampled[1:].any() for stream in demonstrations):
        raise ConfigError("no demonstration has a token to learn: give at least one action")
    prepare_model(model, "packed")
    model.train()
    steps = list(_batches(rows, config, seed))
    optimizers = _optimizers(model, config)
    history: list[WarmStartStep] = []
    num_tokens = 0
    with ThreadPoolExecutor(config.workers) as pool:
        for number, batch in enumerate(steps):
            for group in (group for optimizer in optimizers for group in optimizer.param_groups):
                group["lr"] = config.learning_rate * _schedule(number, len(steps))
            written = [(rows[i], demonstrations[i].sampled[1:]) for i in batch]
            loss, accuracy = _accumulate(model, written, config, pool)
            if not math.isfinite(loss):
                raise NonFiniteError(
                    f"warm start: the loss is {loss} at step {number}; lower learning_rate "
                    f"(now {config.learning_rate})"
                )
            torch.nn.utils.clip_grad_norm_(model.parameters(), config.max_grad_norm)
            for optimizer in optimizers:
                optimizer.step()
                optimizer.zero_grad(set_to_none=True)
            num_tokens += sum(len(rows[i].ids) for i in batch)
            history.append(WarmStartStep(number + 1, len(steps), loss, accuracy, num_tokens))
            on_step(history[-1])
    model.eval()
    return history


def _row(stream: TokenStream) -> Row:
    """Every token is a target here; weights tell them apart."""
    return Row(stream.ids.astype(np.int64), np.arange(1, len(stream), dtype=np.int64), 0)


def _batches(rows: Sequence[Row], config: WarmStartConfig, seed: int) -> Iterator[list[int]]:
    """Shuffled batches of about ``batch_tokens`` tokens, over ``epochs`` passes."""
    rng = np.random.default_rng(seed)
    budget = config.epochs * sum(len(row.ids) for row in rows)
    batch: list[int] = []
    tokens = 0
    while budget > 0:
        for i in rng.permutation(len(rows)):
            batch.append(int(i))
            tokens += len(rows[i].ids)
            budget -= len(rows[i].ids)
            if tokens >= config.batch_tokens or budget <= 0:
                yield batch
                batch, tokens = [], 0
            if budget <= 0:
                return


def _optimizers(model: PreTrainedModel, config: WarmStartConfig) -> list[torch.optim.Optimizer]:
    """One for each way of stepping; vectors (norms, biases) are not decayed."""
    named = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
    inside = [
        p for name, p in named if config.optimizer == "muon" and p.ndim == 2 and ".layers." in name
    ]
    known = {id(p) for p in inside}
    rest = [p for _, p in named if id(p) not in known]
    groups = [
        {"params": [p for p in rest if p.ndim > 1], "weight_decay": config.weight_decay},
        {"params": [p for p in rest if p.ndim <= 1], "weight_decay": 0.0},
    ]
    adamw = torch.optim.AdamW(groups, lr=config.learning_rate, betas=(0.9, 0.95))
    if not inside:
        return [adamw]
    muon = torch.optim.Muon(
        inside,
        lr=config.learning_rate,
        weight_decay=config.weight_decay,
        adjust_lr_fn="match_rms_adamw",
    )
    return [adamw, muon]


def _schedule(step: int, num_steps: int) -> float:
    """Linear warm-up over 5 % of the steps, then a cosine from 1 to 0.1."""
    warmup = max(1, round(0.05 * num_steps))
    if step < warmup:
        return (step + 1) / warmup
    progress = (step - warmup) / max(1, num_steps - warmup)
    return 0.1 + 0.45 * (1 + math.cos(math.pi * progress))


def _accumulate(
    model: PreTrainedModel,
    batch: Sequence[tuple[Row, np.ndarray]],
    config: WarmStartConfig,
    pool: ThreadPoolExecutor,
) -> tuple[float, float]:
    """Sets the gradients of one step; returns the loss and accuracy on the demonstrator's tokens.

    Args:
        model: gets the gradients.
        batch: rows, and which of their targets the demonstrator wrote.
        config: settings.
        pool: of ``config.workers`` threads.
    """
    total = float(sum(written.sum() for _, written in batch)) or 1.0
    budget = config.batch_tokens // max(2, config.workers)
    pieces = plan([row.length for row, _ in batch], token_budget=budget)
    parameters = [p for p in model.parameters() if p.requires_grad]
    results = pool.map(
        lambda piece: _gradients(model, parameters, [batch[i] for i in piece], total, config),
        pieces,
    )
    loss, hits = 0.0, 0.0
    for gradients, piece_loss, piece_hits in results:  # in order: sums do not depend on timing
        for parameter, gradient in zip(parameters, gradients, strict=True):
            parameter.grad = gradient if parameter.grad is None else parameter.grad + gradient
        loss += piece_loss
        hits += piece_hits
    return loss / total, hits / total


def _gradients(
    model: PreTrainedModel,
    parameters: Sequence[torch.nn.Parameter],
    rows: Sequence[tuple[Row, np.ndarray]],
    total: float,
    config: WarmStartConfig,
) -> tuple[tuple[torch.Tensor, ...], float, float]:
    """Gradients of some rows' share of the loss; sum of their losses, and how many were hit."""
    micro = collate([row for row, _ in rows], layout="packed")
    written = torch.from_numpy(np.concatenate([mask for _, mask in rows]))
    weights = torch.where(written, 1.0, config.context_weight)
    with torch.autocast(model.device.type, torch.bfloat16, enabled=config.precision == "bfloat16"):
        logits = model(
            input_ids=micro.input_ids,
            position_ids=micro.position_ids,
            use_cache=False,
            cu_seq_lens_q=micro.offsets,
            cu_seq_lens_k=micro.offsets,
            max_length_q=micro.longest,
            max_length_k=micro.longest,
        ).logits[0]
    logits = logits[micro.select].float()
    losses = F.cross_entropy(logits, micro.targets, reduction="none")
    gradients = torch.autograd.grad((losses * weights).sum() / total, parameters)
    with torch.no_grad():
        hits = float((logits.argmax(-1) == micro.targets)[written].sum())
        return gradients, float(losses[written].sum()), hits
