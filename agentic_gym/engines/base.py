"""The engine protocol: token in, token out (DESIGN §4).

An engine is asynchronous and serves many requests at once. It lives on one event loop; every method
is called from that loop.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, runtime_checkable

from agentic_gym.types import Completion, FinishReason, SamplingParams

PublishMode = Literal["wait", "keep", "keep_kv", "abort"]
"""What happens to running requests on a publish.

``wait``: they finish under the old weights, new ones are held back. ``keep``: they go on under the new
weights after an exact re-prefill, and their tokens carry several versions. ``keep_kv``: they go on under the
new weights at once, on the keys and values of the old ones; the log-probabilities are those of this mixture,
which no single version's forward pass gives. What an episode holds between two turns stays as well, so its
later turns read old keys and values too, until it is released or weights are published in another mode. An
episode that begins after the publish never reads any. ``abort``: they end with finish reason "abort" and what
they had.
"""

ANY = -1
"""No particular replica: the one with the least to do."""


@dataclass(frozen=True, slots=True)
class EngineLoad:
    """What an engine has to do now.

    Attributes:
        requests: that run or wait.
        kv_tokens: tokens whose keys and values are held for them.
        kv_capacity: tokens that fit.
    """

    requests: int
    kv_tokens: int
    kv_capacity: int


@runtime_checkable
class Engine(Protocol):
    """A served policy."""

    @property
    def version(self) -> int:
        """Version of the weights: number of updates published."""
        ...

    @property
    def alive(self) -> bool:
        """False once it is closed or has died: whatever is asked of it then fails."""
        ...

    @property
    def load(self) -> EngineLoad:
        """What it has to do now."""
        ...

    async def generate(
        self,
        prompt_ids: Sequence[int],
        sampling: SamplingParams,
        *,
        request_id: str,
        session_id: str | None = None,
    ) -> Completion:
        """Samples one completion.

        Args:
            prompt_ids: the whole conversation so far; never re-tokenised.
            sampling: limits, temperature, seed, tokens that are given.
            request_id: names the request for :meth:`abort`; unique among running ones.
            session_id: names the episode: its KV cache may be kept for the next turn until
                :meth:`release`.

        Raises:
            EngineError: generation failed (infrastructure, never a reward).
        """
        ...

    async def abort(self, request_id: str) -> None:
        """Ends a request now; its ``generate`` returns what was sampled, finish reason "abort".

        Aborting an unknown or finished request does nothing.
        """
        ...

    async def release(self, session_id: str) -> None:
        """Drops what was cached for an episode."""
        ...

    async def publish(
        self, weights: Mapping[str, Any], version: int, *, mode: PublishMode = "wait"
    ) -> None:
        """Loads new weights; returns once every later token is sampled from them."""
        ...

    async def close(self) -> None:
        """Ends running requests and frees everything; idempotent."""
        ...


def joined(parts: Sequence[Completion], reason: FinishReason) -> Completion:
    """One completion of parts that carry one another on.

    >>> joined([Completion((5,), (-0.1,), (0,), "abort"), Completion((6,), (-0.2,), (1,), "stop")], "stop")
    Completion(token_ids=(5, 6), logprobs=(-0.1, -0.2), weight_versions=(0, 1), finish_reason='stop')
    """
    return Completion(
        tuple(token for part in parts for token in part.token_ids),
        tuple(logprob for part in parts for logprob in part.logprobs),
        tuple(version for part in parts for version in part.weight_versions),
        reason,
    )
