"""An engine that tells when a call finds it dead, and when it has new weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from agentic_gym.engines.base import Engine, EngineLoad, PublishMode
from agentic_gym.errors import EngineError
from agentic_gym.types import Completion, SamplingParams


class WatchedEngine:
    """Another engine, watched.

    Args:
        engine: that does the work.
        on_death: told, perhaps more than once, what a call met when the engine was dead; the call then
            fails with it.
        on_load: told when new weights are loaded.
    """

    def __init__(
        self,
        engine: Engine,
        on_death: Callable[[EngineError], None],
        on_load: Callable[[], None],
    ) -> None:
        self._engine = engine
        self._on_death = on_death
        self._on_load = on_load

    @property
    def version(self) -> int:
        """Of its weights."""
        return self._engine.version

    @property
    def alive(self) -> bool:
        """False once it is closed or has died; asking does not tell anybody."""
        return self._engine.alive

    @property
    def load(self) -> EngineLoad:
        """What it has to do now."""
        return self._engine.load

    async def generate(
        self,
        prompt_ids: Sequence[int],
        sampling: SamplingParams,
        *,
        request_id: str,
        session_id: str | None = None,
    ) -> Completion:
        """Samples one completion."""
        try:
            return await self._engine.generate(
                prompt_ids, sampling, request_id=request_id, session_id=session_id
            )
        except EngineError as error:
            self.look(error)
            raise

    async def abort(self, request_id: str) -> None:
        """Ends a request now."""
        await self._engine.abort(request_id)

    async def release(self, session_id: str) -> None:
        """Drops what was cached for an episode."""
        await self._engine.release(session_id)

    async def publish(
        self, weights: Mapping[str, Any], version: int, *, mode: PublishMode = "wait"
    ) -> None:
        """Loads new weights."""
        try:
            await self._engine.publish(weights, version, mode=mode)
        except EngineError as error:
            self.look(error)
            raise
        self._on_load()

    async def close(self) -> None:
        """Ends running requests and frees everything."""
        await self._engine.close()

    def look(self, error: EngineError) -> None:
        """Tells of the engine's death, if it is dead, as this error."""
        if not self._engine.alive:
            self._on_death(error)
