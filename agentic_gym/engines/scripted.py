"""An engine that says what it was told to: for tests of agents, rollouts and trainers, without a model.

It keeps the whole contract of :class:`~agentic_gym.engines.base.Engine` (versions, log-probabilities,
abort, the publish modes), deterministically.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from agentic_gym.engines.base import EngineLoad, PublishMode
from agentic_gym.errors import EngineError
from agentic_gym.types import Completion, FinishReason, SamplingParams

Script = Callable[[Sequence[int], str], Sequence[int]]
"""What to say: from prompt ids and request id to completion ids."""


class ScriptedEngine:
    """Replays completions, one token an event-loop turn, so that requests really interleave.

    Args:
        script: completions to replay, in the order of the requests (the last one repeats), or a function
            of prompt and request id. Put a stop token at the end of each, or it ends as "length". For a
            request that carries on another (``noise_offset``) the function is asked for the whole
            completion again, from the prompt without what was sampled.
        version: of the pretended weights.
        fail: request ids for which ``generate`` raises EngineError.
        kv_capacity: tokens that are said to fit.
    """

    def __init__(
        self,
        script: Iterable[Sequence[int]] | Script,
        *,
        version: int = 0,
        fail: Iterable[str] = (),
        kv_capacity: int = 1 << 20,
    ) -> None:
        self._script = script if callable(script) else _replay(script)
        self._version = version
        self._fail = frozenset(fail)
        self._kv_capacity = kv_capacity
        self._aborted: dict[str, bool] = {}
        self._held: dict[str, int] = {}
        self._free = asyncio.Condition()
        self._waiting_publishes = 0
        self._closed = False
        self._death: EngineError | None = None
        self.released: list[str] = []
        self.prompts: list[tuple[int, ...]] = []

    @property
    def version(self) -> int:
        """Version of the last publish."""
        return self._version

    @property
    def alive(self) -> bool:
        """False once it is closed or has died."""
        return not self._closed

    @property
    def load(self) -> EngineLoad:
        """Requests, with the tokens of their prompts and what they have said."""
        return EngineLoad(len(self._aborted), sum(self._held.values()), self._kv_capacity)

    async def generate(
        self,
        prompt_ids: Sequence[int],
        sampling: SamplingParams,
        *,
        request_id: str,
        session_id: str | None = None,
    ) -> Completion:
        """The next scripted completion, cut at ``max_tokens``."""
        self._check()
        self._aborted[request_id] = False
        try:
            completion = await self._say(prompt_ids, sampling, request_id)
            if self._death is not None:
                raise self._death
            return completion
        finally:
            del self._aborted[request_id]
            self._held.pop(request_id, None)
            async with self._free:
                self._free.notify_all()

    async def abort(self, request_id: str) -> None:
        """Ends a request with what it has said."""
        if request_id in self._aborted:
            await self._abort([request_id])

    async def release(self, session_id: str) -> None:
        """Notes that the episode was released."""
        self.released.append(session_id)

    async def publish(
        self, weights: Mapping[str, Any], version: int, *, mode: PublishMode = "wait"
    ) -> None:
        """Changes the version; running requests wait, go on or end by ``mode``."""
        self._check()
        if mode == "abort":
            await self._abort(self._held)
        async with self._free:
            if mode == "wait":
                self._waiting_publishes += 1
                try:
                    await self._free.wait_for(lambda: not self._held)
                finally:
                    self._waiting_publishes -= 1
                    self._free.notify_all()
            self._check()
            self._version = version

    async def close(self) -> None:
        """Ends running requests."""
        self._closed = True
        await self._abort(self._aborted)

    async def die(self) -> None:
        """Fails, as an engine does whose machine is gone: what running requests have said is lost."""
        self._death = EngineError("the engine died: it was told to")
        await self.close()

    def _check(self) -> None:
        if self._closed:
            raise self._death or EngineError("the engine is closed")

    async def _abort(self, request_ids: Iterable[str]) -> None:
        self._aborted.update(dict.fromkeys(request_ids, True))
        async with self._free:
            self._free.notify_all()

    async def _say(
        self, prompt_ids: Sequence[int], sampling: SamplingParams, request_id: str
    ) -> Completion:
        async with self._free:
            await self._free.wait_for(
                lambda: self._aborted[request_id] or not self._waiting_publishes
            )
        if self._aborted[request_id]:  # while it was held back
            return Completion((), (), (), "abort")
        if request_id in self._fail:
            raise EngineError(f"scripted failure of {request_id!r}")
        self.prompts.append(tuple(prompt_ids))
        start, forced = len(prompt_ids) - sampling.noise_offset, sampling.forced
        said = list(self._script(prompt_ids[:start], request_id))[sampling.noise_offset :]
        said[: len(forced)] = forced
        tokens: list[int] = []
        versions: list[int] = []
        reason: FinishReason = "length"
        self._held[request_id] = len(prompt_ids)
        while len(tokens) < min(sampling.max_tokens, len(said)):
            await asyncio.sleep(0)
            if self._aborted[request_id]:
                reason = "abort"
                break
            tokens.append(said[len(tokens)])
            versions.append(self._version)
            self._held[request_id] += 1
            if tokens[-1] in sampling.stop_token_ids:
                reason = "stop"
                break
        logprobs = [
            _logprob(token, version) for token, version in zip(tokens, versions, strict=True)
        ]
        return Completion(tuple(tokens), tuple(logprobs), tuple(versions), reason)


def _replay(completions: Iterable[Sequence[int]]) -> Script:
    left = [list(completion) for completion in completions]

    def say(_prompt_ids: Sequence[int], _request_id: str) -> Sequence[int]:
        return left.pop(0) if len(left) > 1 else left[0]

    return say


def _logprob(token: int, version: int) -> float:
    """Some number in (-4, 0) that names token and version."""
    digest = hashlib.blake2b(f"{token}/{version}".encode(), digest_size=4).digest()
    return -4.0 * (int.from_bytes(digest, "little") + 1) / 2**32
