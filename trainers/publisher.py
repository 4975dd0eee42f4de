"""Hands new weights to the engine and proves that it samples from them.

After every publish the engine completes a few prompts, and the log-probabilities that it reports are
compared with those that the trainer computes for the same tokens. A stale layer, a lost bias or a wrong
precision shows here, before it trains anything. Comparing weights by checksum was rejected: it says
nothing of how the engine uses them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import numpy as np

from agentic_gym.engines.base import Engine, PublishMode
from agentic_gym.errors import EngineMismatch
from agentic_gym.trainers.source import Policy
from agentic_gym.types import SamplingParams


class WeightPublisher:
    """Publishes to one engine.

    Args:
        engine: that serves the policy.
        temperature: at which the trainer scores.
        mode: what happens to running requests.
        tolerance: largest difference of a log-probability. Float32 on both sides stays below 1e-3; for
            bfloat16 give 0.1.
        sequences: prompts tried after each publish; 0 checks nothing.
        tokens: sampled for each.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        temperature: float = 1.0,
        mode: PublishMode = "wait",
        tolerance: float = 1e-3,
        sequences: int = 2,
        tokens: int = 16,
    ) -> None:
        self._engine = engine
        self._temperature = temperature
        self._mode: PublishMode = mode
        self._tolerance = tolerance
        self._sequences = sequences
        self._tokens = tokens

    async def publish(
        self, policy: Policy, version: int, prompts: Sequence[Sequence[int]] = ()
    ) -> float:
        """Publishes, then compares.

        Args:
            policy: whose weights.
            version: of them.
            prompts: to complete; the first few are taken.

        Returns:
            The largest difference of a log-probability; 0 without prompts.

        Raises:
            EngineMismatch: the engine serves another version, or other probabilities.
        """
        await self._engine.publish(policy.weights(), version, mode=self._mode)
        chosen = [list(prompt) for prompt in prompts[: self._sequences] if len(prompt)]
        gaps = await asyncio.gather(
            *(self._compare(policy, version, i, prompt) for i, prompt in enumerate(chosen))
        )
        return max(gaps, default=0.0)

    async def _compare(self, policy: Policy, version: int, number: int, prompt: list[int]) -> float:
        completion = await self._engine.generate(
            prompt,
            SamplingParams(self._tokens, temperature=self._temperature, seed=version),
            request_id=f"verify-{version}-{number}",
        )
        served = set(completion.weight_versions)
        if served - {version}:
            raise EngineMismatch(
                f"version {version} was published, but the engine sampled from {sorted(served)}"
            )
        expected = np.asarray(policy.logprobs(prompt, completion.token_ids))
        gap = float(np.abs(expected - np.asarray(completion.logprobs)).max(initial=0.0))
        if not gap <= self._tolerance:  # also for a NaN
            raise EngineMismatch(
                f"after publishing version {version} engine and trainer differ by {gap:.2g} in a "
                f"log-probability (tolerance {self._tolerance:g}): check that both use the same dtype, "
                "temperature and weights"
            )
        return gap
