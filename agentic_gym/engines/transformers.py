"""The embedded engine: a ``transformers`` model, continuous batching, keys and values kept over turns.

One worker thread owns the model and runs forward passes; coroutines talk to it through a queue, and
get their completions through futures. The thread never waits while anything can be computed, and
between two passes it takes in whatever has arrived: new requests join, aborted ones leave, weights
are swapped. The parts are :mod:`.batching` (what to compute), :mod:`.ragged` (one pass without
padding), :mod:`.kv_cache` and :mod:`.sampling`.

Rejected: one task per request around a lock (no batching across turns), a process of its own (weights
would cross a boundary at every update, for a model that is small by design).
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import secrets
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import numpy as np
import torch

from agentic_gym.engines.base import PublishMode
from agentic_gym.engines.batching import Batcher, EngineStats, Request, StepPlan
from agentic_gym.engines.kv_cache import KVStore
from agentic_gym.engines.models import ServedModel, without_progress_bars
from agentic_gym.engines.ragged import RaggedBatch
from agentic_gym.engines.sampling import noise_key, sample, uniforms
from agentic_gym.engines.settling import settler
from agentic_gym.errors import CheckpointError, ConfigError, EngineError
from agentic_gym.types import Completion, SamplingParams

_Result = Completion | BaseException


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
        self._commands: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._publishes: list[tuple[Mapping[str, Any], int, Callable[[Any], None]]] = []
        self._thread: threading.Thread | None = None
        self._names: set[str] = set()
        self._closed = False
        self._death: BaseException | None = None

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
            ConfigError: the prompt is empty, too long or not made of token ids, ``max_tokens`` is
                not positive, or a running request has the same id.
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
            self._tell(lambda: self._batcher.submit(request), request.finish)
            return await future
        finally:
            self._names.discard(request_id)
            if not future.done() or future.cancelled():
                self._tell(lambda: self._abort(request_id))

    async def abort(self, request_id: str) -> None:
        """Ends a request now; its ``generate`` returns what was sampled."""
        self._tell(lambda: self._abort(request_id))

    async def release(self, session_id: str) -> None:
        """Lets the episode's row be taken."""
        self._tell(lambda: self._batcher.table.release(session_id))

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
        if mode not in ("wait", "keep", "abort"):
            raise ConfigError(f"publish mode must be 'wait', 'keep' or 'abort', not {mode!r}")
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
                self._load(weights, version, settle)

        def withdraw() -> None:
            self._publishes = [pending for pending in self._publishes if pending[2] is not settle]
            self._batcher.held = bool(self._publishes)
            withdrawn(None)

        self._tell(begin, settle)
        try:
            await future
        except asyncio.CancelledError:
            gone: asyncio.Future[None] = loop.create_future()
            withdrawn = settler(loop, gone)
            self._tell(withdraw, withdrawn)
            with contextlib.suppress(EngineError):
                await gone  # from here on the caller may change the weights
            raise

    async def close(self) -> None:
        """Ends running requests as aborted and stops the worker; idempotent."""
        self._closed = True
        thread = self._thread
        if thread is not None and thread.is_alive():
            self._commands.put(_stop)
            await asyncio.to_thread(thread.join)

    # Everything below runs in the worker thread, but _check and _tell.

    def _check(self, prompt_ids: Sequence[int], sampling: SamplingParams, request_id: str) -> None:
        if not 0 < len(prompt_ids) < self.max_context:
            raise ConfigError(
                f"the prompt of {request_id!r} has {len(prompt_ids)} tokens; the engine takes 1 to "
                f"{self.max_context - 1} (max_context={self.max_context})"
            )
        if min(prompt_ids) < 0 or max(prompt_ids) >= self._model.vocab_size:
            raise ConfigError(
                f"the prompt of {request_id!r} has ids outside the vocabulary of "
                f"{self._model.vocab_size}: wrong tokenizer?"
            )
        if sampling.max_tokens < 1:
            raise ConfigError(f"max_tokens must be positive, not {sampling.max_tokens}")
        if request_id in self._names:
            raise ConfigError(f"a request named {request_id!r} is running; ids must be unique")

    def _tell(
        self, command: Callable[[], None], reject: Callable[[Any], None] | None = None
    ) -> None:
        """Hands a command to the worker, started on first use; ``reject`` hears of a dead one."""
        if self._death is not None or self._closed:
            if reject is not None:
                reject(self._gone())
            return
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="engine", daemon=True)
            self._thread.start()
        self._commands.put(command)
        # It may have died meanwhile, after its last look.
        if self._death is not None and reject is not None:
            reject(self._gone())

    def _gone(self) -> EngineError:
        error = EngineError(
            "the engine is closed" if self._death is None else f"the engine died: {self._death!r}"
        )
        error.__cause__ = self._death
        return error

    def _run(self) -> None:
        if self._threads is not None:
            torch.set_num_threads(self._threads)
        try:
            with torch.inference_mode():
                self._loop()
        except _Stopped:
            pass
        except BaseException as error:
            self._death = error
        self._closed = True
        for request in self._batcher.remove_all():
            request.finish(self._gone() if self._death else request.completion("abort"))
        while not self._commands.empty():  # told between the last look and _closed
            with contextlib.suppress(_Stopped):
                self._commands.get()()
        for request in self._batcher.remove_all():
            request.finish(self._gone())
        for _, _, settle in self._publishes:
            settle(self._gone())

    def _loop(self) -> None:
        while True:
            while self._batcher.idle or not self._commands.empty():
                if self._publishes and not self._batcher.running:
                    break
                self._commands.get()()
            if self._publishes and not self._batcher.running:
                for weights, version, settle in self._publishes:
                    self._load(weights, version, settle)
                self._publishes.clear()
                self._batcher.held = False
                continue
            self._step()

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
            np.array([request.num_sampled for request in sampling]),
        )
        temperatures = [request.sampling.temperature for request in sampling]
        tokens, logprobs, finite = sample(
            logits,
            torch.tensor(temperatures, dtype=torch.float32, device=device),
            torch.from_numpy(noise).to(device),
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
        self, weights: Mapping[str, Any], version: int, settle: Callable[[Any], None]
    ) -> None:
        try:
            self._model.load(weights)
        except Exception as error:
            settle(error if isinstance(error, EngineError) else EngineError(f"publish: {error}"))
            return
        self._batcher.table.invalidate()
        self._version = version
        settle(None)


class _Stopped(BaseException):
    """Ends the worker from inside its queue."""


def _stop() -> None:
    raise _Stopped
