"""Hands new weights to the engine and proves that it samples from them.

The engine is made to sample tokens that the trainer has scored, and the log-probabilities that it reports are
compared. A stale layer, a lost bias or a wrong precision shows here, before it trains anything. The trainer's
side is computed when the weights are made (:class:`References`), so that a replica that loads them much
later is compared with them, not with what the trainer has become. Comparing weights by checksum was rejected:
it says nothing of how the engine uses them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from agentic_gym.engines.base import Engine, PublishMode
from agentic_gym.errors import ConfigError, EngineError, EngineMismatch
from agentic_gym.trainers.source import Policy
from agentic_gym.types import SamplingParams

Sample = tuple[Sequence[int], Sequence[int]]
"""A prompt, and the tokens that were sampled after it."""

FIRST_SAMPLES: tuple[Sample, ...] = (((0,), (1, 2, 3)),)
"""What to compare where nothing has been sampled yet: the first tokens of any vocabulary."""


@dataclass(frozen=True, slots=True)
class References:
    """What an engine must report once it serves these weights.

    Attributes:
        version: of the weights.
        prompts: one a sequence.
        tokens: that follow each prompt.  # [T] each
        logprobs: of these tokens under the trainer's policy.  # [T] each
    """

    version: int
    prompts: tuple[tuple[int, ...], ...]
    tokens: tuple[tuple[int, ...], ...]
    logprobs: tuple[tuple[float, ...], ...]


@dataclass(frozen=True, slots=True)
class Weights:
    """Weights that the trainer has made.

    Attributes:
        version: number of updates made.
        tensors: by the names that the causal LM has on disk; nobody changes them any more.
        references: to prove that an engine serves them.
    """

    version: int
    tensors: Mapping[str, Any]
    references: References | None = None


class WeightPublisher:
    """Publishes weights, and compares.

    Args:
        temperature: at which the trainer scores.
        tolerance: largest difference of a log-probability. Float32 on both sides stays below 1e-3; for
            bfloat16 give 0.1.
        sequences: compared after each publish; 0 checks nothing.
        tokens: of each.
    """

    def __init__(
        self,
        *,
        temperature: float = 1.0,
        tolerance: float = 1e-3,
        sequences: int = 2,
        tokens: int = 16,
    ) -> None:
        self._temperature = temperature
        self._tolerance = tolerance
        self._sequences = sequences
        self._tokens = tokens

    def references(
        self, policy: Policy, version: int, samples: Sequence[Sample] = ()
    ) -> References:
        """Scores a few samples with the policy as it is now.

        Args:
            policy: of the trainer.
            version: of its weights.
            samples: sequences to compare, the first few of which are taken, and of each the first tokens.
                Where there are none: :data:`FIRST_SAMPLES`.
        """
        known = [(prompt, tokens) for prompt, tokens in samples if len(prompt) and len(tokens)]
        chosen = [
            (tuple(int(i) for i in prompt), tuple(int(i) for i in tokens[: self._tokens]))
            for prompt, tokens in (known or FIRST_SAMPLES)[: self._sequences]
        ]
        return References(
            version,
            tuple(prompt for prompt, _ in chosen),
            tuple(tokens for _, tokens in chosen),
            tuple(tuple(policy.logprobs(prompt, tokens)) for prompt, tokens in chosen),
        )

    async def publish(
        self,
        engine: Engine,
        weights: Mapping[str, Any],
        version: int,
        references: References,
        mode: PublishMode = "wait",
    ) -> float:
        """Publishes, then compares.

        Args:
            engine: to load the weights; of a :class:`~agentic_gym.engines.replicas.ReplicaSet` one of its
                ``engines``, so that each is compared.
            weights: tensors by the names on disk.
            version: of them.
            references: that :meth:`references` made for this version.
            mode: what becomes of requests that run.

        Returns:
            The largest difference of a log-probability; 0 where nothing was compared.

        Raises:
            EngineMismatch: the engine serves another version, or other probabilities.
            EngineError: it cannot load the weights, or ended while it was asked.
            ConfigError: the references are of another version.
        """
        if references.version != version:
            raise ConfigError(
                f"version {version} cannot be compared with references of version "
                f"{references.version}: make them when the weights are made, and keep them together"
            )
        await engine.publish(weights, version, mode=mode)
        gaps = await asyncio.gather(
            *(self._compare(engine, references, i) for i in range(len(references.prompts)))
        )
        return max(gaps, default=0.0)

    async def _compare(self, engine: Engine, references: References, number: int) -> float:
        version, tokens = references.version, references.tokens[number]
        completion = await engine.generate(
            references.prompts[number],
            SamplingParams(len(tokens), temperature=self._temperature, seed=version, forced=tokens),
            request_id=f"verify-{version}-{number}",
        )
        if completion.finish_reason == "abort":
            raise EngineError(f"the engine ended before version {version} could be compared")
        served = set(completion.weight_versions)
        if served - {version}:
            raise EngineMismatch(
                f"version {version} was published, but the engine sampled from {sorted(served)}"
            )
        if completion.token_ids != tokens:
            raise EngineMismatch(
                f"the engine was to sample {tokens}, and sampled {completion.token_ids}: it does not know "
                "forced tokens, or its context is too short for the reference"
            )
        expected = np.asarray(references.logprobs[number])
        gap = float(np.abs(expected - np.asarray(completion.logprobs)).max(initial=0.0))
        if not gap <= self._tolerance:  # also for a NaN
            raise EngineMismatch(
                f"after publishing version {version} engine and trainer differ by {gap:.2g} in a "
                f"log-probability (tolerance {self._tolerance:g}): check that both use the same dtype, "
                "temperature and weights"
            )
        return gap
