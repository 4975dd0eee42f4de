"""The engine protocol: token in, token out (DESIGN §4).

An engine is asynchronous and serves many requests at once. It lives on one event loop; every method
is called from that loop.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol, runtime_checkable

from agentic_gym.types import Completion, SamplingParams

PublishMode = Literal["wait", "keep", "abort"]
"""What happens to running requests on a publish.

``wait``: they finish under the old weights, new ones are held back. ``keep``: they go on under the new
weights after an exact re-prefill, and their tokens carry several versions. ``abort``: they end with
finish reason "abort" and what they had.
"""


@runtime_checkable
class Engine(Protocol):
    """A served policy."""

    @property
    def version(self) -> int:
        """Version of the weights: number of updates published."""
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
            sampling: limits, temperature, seed.
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
