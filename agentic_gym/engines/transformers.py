"""The embedded engine: a ``transformers`` model, continuous batching, keys and values kept over turns.

One worker thread (:mod:`.worker`) owns the model and runs forward passes; coroutines talk to it through a
queue, and get their completions through futures. The thread never waits while anything can be computed,
and between two passes it takes in whatever has arrived: new requests join, aborted ones leave, weights
are swapped. The other parts are :mod:`.batching` (what to compute), :mod:`.ragged` (one pass without
padding), :mod:`.kv_cache` and :mod:`.sampling`.

Rejected: one task per request around a lock (no batching across turns), a process of its own (weights
would cross a boundary at every update, for a model that is small by design).
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Self, get_args

import numpy as np
import torch

from agentic_gym.engines.base import EngineLoad, PublishMode
from agentic_gym.engines.batching import Batcher, EngineStats, Request, StepPlan
from agentic_gym.engines.kv_cache import KVStore
from agentic_gym.engines.models import ServedModel, without_progress_bars
from agentic_gym.engines.ragged import RaggedBatch
from agentic_gym.engines.sampling import noise_key, sample, uniforms
from agentic_gym.engines.settling import settler
from agentic_gym.engines.worker import Worker
from agentic_gym.errors import CheckpointError, ConfigError, EngineError
from agentic_gym.types import Completion, SamplingParams


class TransformersEngine:
    """Serves a causal LM in this process (implements :class:`agentic_gym.engines.base.Engine`).

    Args:
        model: a ``transformers`` causal LM with full attention; copied, never changed.
        max_batch: requests that run at once; more wait.
        max_context: most tokens of a conversation, prompt and completion together.
        kv_rows: conversations whose keys and values are held, running ones included; with more
            episodes than rows the one used longest ago is computed anew. Default ``max_batch``.
        prefill_tokens: most prompt tokens of one forward pass, so that decoding goes on beside it.
        threads: torch threads of the worker; None leaves torch's own setting. With sandboxes busy
            on the same cores, 1 is often fastest.
        dtype: of weights and cache; float32 makes log-probabilities agree with a trainer's to 1e-4.
        device: where to run.
        version: of the given weights.

    Raises:
        ConfigError: a limit is not positive, or the model cannot be served exactly.
    """

    def __init__(
        self,
        model: Any,
        *,
        max_batch: int = 32,
        max_context: int = 2048,
        kv_rows: int | None = None,
        prefill_tokens: int = 2048,
        threads: int | None = None,
        dtype: torch.dtype = torch.float32,
        device: str | torch.device = "cpu",
        version: int = 0,
    ) -> None:
        rows = max_batch if kv_rows is None else kv_rows
        if min(max_batch, max_context, prefill_tokens) < 1 or rows < max_batch:
            raise ConfigError(
                f"max_batch={max_batch}, max_context={max_context} and prefill_tokens="
                f"{prefill_tokens} must be positive, and kv_rows={rows} at least max_batch"
            )
        place = torch.device(device)
        self._model = ServedModel(model, max_context=max_context, dtype=dtype, device=place)
        self._store = KVStore(self._model.num_layers, rows, max_context, place)
        self._batcher = Batcher(
            num_rows=rows,
            max_batch=max_batch,
            max_context=max_context,
            prefill_tokens=prefill_tokens,
        )
        self.max_context = max_context
        self._threads = threads
        self._version = version
        self._publishes: list[tuple[Mapping[str, Any], int, Callable[[Any], None]]] = []
        self._names: set[str] = set()
        self._kv_capacity = rows * max_context
        self._worker = Worker(ready=self._ready, step=self._work, end=self._end, within=self._torch)

    @classmethod
    def from_pretrained(cls, path: str, **options: Any) -> Self:
        """Loads a checkpoint folder (or a hub name) and serves it; ``options`` as for the class.

        Raises:
            CheckpointError: there is no causal LM that can be loaded.
        """
        from transformers import AutoModelForCausalLM

        dtype = options.get("dtype", torch.float32)
        try:
            with without_progress_bars():
                model = AutoModelForCausalLM.from_pretrained(path, dtype=dtype)
        except (OSError, ValueError) as error:
            raise CheckpointError(
                f"{path!r} is no causal LM that can be loaded here: {error}. Give a folder that "
                "save_pretrained wrote."
            ) from error
        return cls(model, **options)

    @property
    def version(self) -> int:
        """Version of the weights that the next token is sampled from."""
        return self._version

    @property
    def alive(self) -> bool:
        """False once it is closed or its worker has died."""
        return self._worker.alive

    @property
    def load(self) -> EngineLoad:
        """Requests, and what the rows of the running ones hold; rows kept for later turns do not count."""
        return EngineLoad(len(self._names), self._batcher.kv_tokens, self._kv_capacity)

    @property
    def fused(self) -> bool:
        """Whether the leaner pass of :mod:`agentic_gym.engines.fused` runs, or the model's own."""
        return self._model.fused

    @property
    def stats(self) -> EngineStats:
        """Counts since the engine was made."""
        return self._batcher.stats

    async def generate(
        self,
        prompt_ids: Sequence[int],
        sampling: SamplingParams,
        *,
        request_id: str,
        session_id: str | None = None,
    ) -> Completion:
        """Samples one completion; see :meth:`agentic_gym.engines.base.Engine.generate`.

        Raises:
            EngineError: generation failed.
            ConfigError: the prompt is empty or too long, it or what is forced is not made of token ids,
                ``max_tokens`` or ``noise_offset`` cannot be, or a running request has the same id.
        """
        self._check(prompt_ids, sampling, request_id)
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Completion] = loop.create_future()
        request = Request(
            request_id=request_id,
            session_id=session_id,
            sequence=[int(token) for token in prompt_ids],
            prompt_length=len(prompt_ids),
            sampling=sampling,
            noise_key=noise_key(
                secrets.randbits(64) if sampling.seed is None else sampling.seed, request_id
            ),
            finish=settler(loop, future),
            stop=frozenset(sampling.stop_token_ids),
        )
        self._names.add(request_id)
        try:
            self._worker.tell(lambda: self._batcher.submit(request), request.finish)
            return await future
        finally:
            self._names.discard(request_id)
            if not future.done() or future.cancelled():
                self._worker.tell(lambda: self._abort(request_id))

    async def abort(self, request_id: str) -> None:
        """Ends a request now; its ``generate`` returns what was sampled."""
        self._worker.tell(lambda: self._abort(request_id))

    async def release(self, session_id: str) -> None:
        """Lets the episode's row be taken."""
        self._worker.tell(lambda: self._batcher.table.release(session_id))

    async def publish(
        self, weights: Mapping[str, Any], version: int, *, mode: PublishMode = "wait"
    ) -> None:
        """Copies weights in; they must not change before this returns.

        A caller who is cancelled withdraws the publish, and the engine goes on with the weights that it
        has. Only a publish that is loading by then is completed; the version tells.

        Raises:
            EngineError: names or shapes do not fit (nothing was changed), or the engine is closed.
            ConfigError: unknown mode.
        """
        if mode not in get_args(PublishMode):
            raise ConfigError(f"publish mode must be one of {get_args(PublishMode)}, not {mode!r}")
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        settle = settler(loop, future)

        def begin() -> None:
            if mode == "abort":
                for request in self._batcher.running:
                    self._abort(request.request_id)
            if mode == "wait":
                self._batcher.held = True
                self._publishes.append((weights, version, settle))
            else:
                self._load(weights, version, settle, keep_kv=mode == "keep_kv")

        def withdraw() -> None:
            self._publishes = [pending for pending in self._publishes if pending[2] is not settle]
            self._batcher.held = bool(self._publishes)
            withdrawn(None)

        self._worker.tell(begin, settle)
        try:
            await future
        except asyncio.CancelledError:
            gone: asyncio.Future[None] = loop.create_future()
            withdrawn = settler(loop, gone)
            self._worker.tell(withdraw, withdrawn)
            with contextlib.suppress(EngineError):
                await gone  # from here on the caller may change the weights
            raise

    async def close(self) -> None:
        """Ends running requests as aborted and stops the worker; idempotent."""
        await self._worker.close()

    def _check(self, prompt_ids: Sequence[int], sampling: SamplingParams, request_id: str) -> None:
        if not 0 < len(prompt_ids) < self.max_context:
            raise ConfigError(
                f"the prompt of {request_id!r} has {len(prompt_ids)} tokens; the engine takes 1 to "
                f"{self.max_context - 1} (max_context={self.max_context})"
            )
        for what, ids in (("prompt", prompt_ids), ("forced part", sampling.forced)):
            if len(ids) and (min(ids) < 0 or max(ids) >= self._model.vocab_size):
                raise ConfigError(
                    f"the {what} of {request_id!r} has ids outside the vocabulary of "
                    f"{self._model.vocab_size}: wrong tokenizer?"
                )
        if sampling.max_tokens < 1:
            raise ConfigError(f"max_tokens must be positive, not {sampling.max_tokens}")
        if not 0 <= sampling.noise_offset < len(prompt_ids):
            raise ConfigError(
                f"noise_offset={sampling.noise_offset} counts tokens at the end of the prompt of "
                f"{request_id!r}, which has {len(prompt_ids)}"
            )
        if request_id in self._names:
            raise ConfigError(f"a request named {request_id!r} is running; ids must be unique")

    # Everything below runs in the worker thread.

    @contextlib.contextmanager
    def _torch(self) -> Iterator[None]:
        if self._threads is not None:
            torch.set_num_threads(self._threads)
        with torch.inference_mode():
            yield

    def _ready(self) -> bool:
        return not self._batcher.idle or self._loadable

    @property
    def _loadable(self) -> bool:
        return bool(self._publishes) and not self._batcher.running

    def _work(self) -> None:
        if not self._loadable:
            self._step()
            return
        for weights, version, settle in self._publishes:
            self._load(weights, version, settle)
        self._publishes.clear()
        self._batcher.held = False

    def _end(self, error: EngineError | None) -> None:
        for request in self._batcher.remove_all():
            request.finish(request.completion("abort") if error is None else error)
        if error is not None:
            for _, _, settle in self._publishes:
                settle(error)

    def _step(self) -> None:
        plan = self._batcher.plan()
        for source, target, length in plan.copies:
            self._store.copy(source, target, length)
        for a, b, length in plan.swaps:
            self._store.swap(a, b, length)
        try:
            sampling, tokens, logprobs, finite = self._forward(plan)
        except Exception as error:
            for request in plan.requests:
                self._fail(request, error)
            return
        good = []
        for position, (request, ok) in enumerate(zip(sampling, finite, strict=True)):
            if ok:
                good.append(position)
            else:
                self._fail(request, FloatingPointError("a logit is not finite"))
        ended = self._batcher.commit(
            [sampling[i] for i in good],
            [tokens[i] for i in good],
            [logprobs[i] for i in good],
            self._version,
        )
        for request, reason in ended:
            request.finish(request.completion(reason))

    def _forward(self, plan: StepPlan) -> tuple[list[Request], list[int], list[float], list[bool]]:
        device = self._model.device
        batch = RaggedBatch(
            self._store,
            [len(request.sequence) - 1 for request in plan.decode],
            [segment for _, segment in plan.segments],
            dtype=self._model.dtype,
            device=device,
        )
        ids = torch.tensor(plan.input_ids, device=device)
        logits = self._model.forward(ids, batch)
        ends = set(map(id, sampling := self._batcher.advance(plan)))
        if len(sampling) < len(plan.requests):  # some prompts go on in the next step
            kept = [i for i, request in enumerate(plan.requests) if id(request) in ends]
            logits = logits[torch.tensor(kept, dtype=torch.long, device=device)]
        noise = uniforms(
            np.array([request.noise_key for request in sampling], dtype=np.uint64),
            np.array([request.noise_index for request in sampling]),
        )
        temperatures = [request.sampling.temperature for request in sampling]
        forced = [request.next_forced for request in sampling]
        tokens, logprobs, finite = sample(
            logits,
            torch.tensor(temperatures, dtype=torch.float32, device=device),
            torch.from_numpy(noise).to(device),
            forced=torch.tensor(forced, device=device) if max(forced, default=-1) >= 0 else None,
        )
        return sampling, tokens.tolist(), logprobs.tolist(), finite.tolist()

    def _abort(self, request_id: str) -> None:
        request = self._batcher.abort(request_id)
        if request is not None:
            request.finish(request.completion("abort"))

    def _fail(self, request: Request, cause: Exception) -> None:
        self._batcher.fail(request)
        self._store.wipe(request.row)
        error = EngineError(f"generation of {request.request_id!r} failed: {cause}")
        error.__cause__ = cause
        request.finish(error)

    def _load(
        self,
        weights: Mapping[str, Any],
        version: int,
        settle: Callable[[Any], None],
        *,
        keep_kv: bool = False,
    ) -> None:
        try:
            self._model.load(weights)
        except Exception as error:
            settle(error if isinstance(error, EngineError) else EngineError(f"publish: {error}"))
            return
        self._batcher.reload(keep_kv=keep_kv)
        self._version = version
        settle(None)
