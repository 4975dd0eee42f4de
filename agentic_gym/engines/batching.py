"""Which tokens the next forward pass computes, and what becomes of its samples: no tensors, no threads.

A :class:`Batcher` holds the requests of one engine. ``plan()`` admits waiting requests to rows, moves
the rows that decode to the front (the caller carries the swaps out on its memory) and returns a
:class:`StepPlan`; ``commit(plan, samples)`` takes the sampled tokens and returns the requests that
ended. The engine around it only runs the model.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from agentic_gym.engines.kv_cache import RowTable, common_prefix
from agentic_gym.engines.ragged import Segment
from agentic_gym.types import Completion, FinishReason, SamplingParams


@dataclass(eq=False, slots=True)
class Request:
    """One running or waiting ``generate``.

    Attributes:
        request_id: unique among running ones.
        session_id: episode whose row it continues, or None.
        sequence: prompt, then what was sampled.
        prompt_length: tokens of the prompt.
        sampling: limits and temperature.
        noise_key: of :func:`~agentic_gym.engines.sampling.noise_key`.
        finish: called once, with the completion or an error.
        row: of the store while it runs.
    """

    request_id: str
    session_id: str | None
    sequence: list[int]
    prompt_length: int
    sampling: SamplingParams
    noise_key: int
    finish: Callable[[Completion | BaseException], None]
    stop: frozenset[int] = frozenset()
    row: int = -1
    logprobs: list[float] = field(default_factory=list)
    versions: list[int] = field(default_factory=list)

    @property
    def num_sampled(self) -> int:
        """Tokens sampled so far."""
        return len(self.logprobs)

    @property
    def noise_index(self) -> int:
        """Index of its next token in the noise."""
        return self.sampling.noise_offset + len(self.logprobs)

    @property
    def next_forced(self) -> int:
        """Its next token if that is given, else -1."""
        given, index = self.sampling.forced, len(self.logprobs)
        return given[index] if index < len(given) else -1

    def completion(self, reason: FinishReason) -> Completion:
        """What it has sampled, as a completion."""
        return Completion(
            tuple(self.sequence[self.prompt_length :]),
            tuple(self.logprobs),
            tuple(self.versions),
            reason,
        )


@dataclass(slots=True)
class StepPlan:
    """One forward pass.

    Attributes:
        swaps: pairs of rows to exchange first, with the number of positions.
        copies: (source row, target row, positions) to copy first: a prefix that another row holds.
        decode: requests with one unread token, in rows 0, 1, ….
        segments: prompt parts, with their requests.
        sampling: requests that sample: all of ``decode``, then those whose prompt ends in this step.
    """

    swaps: list[tuple[int, int, int]] = field(default_factory=list)
    copies: list[tuple[int, int, int]] = field(default_factory=list)
    decode: list[Request] = field(default_factory=list)
    segments: list[tuple[Request, Segment]] = field(default_factory=list)

    @property
    def requests(self) -> list[Request]:
        """Every request that takes part."""
        return self.decode + [request for request, _ in self.segments]

    @property
    def input_ids(self) -> list[int]:
        """The tokens to feed, in order."""
        ids = [request.sequence[-1] for request in self.decode]
        for request, part in self.segments:
            ids.extend(request.sequence[part.start : part.start + part.count])
        return ids


@dataclass(slots=True)
class EngineStats:
    """Counts since the engine was made.

    Attributes:
        steps: forward passes.
        sampled_tokens: tokens returned or running.
        prefill_tokens: prompt tokens computed (again after a publish with ``keep``).
        cached_tokens: prompt tokens whose keys and values were held already.
    """

    steps: int = 0
    sampled_tokens: int = 0
    prefill_tokens: int = 0
    cached_tokens: int = 0


class Batcher:
    """The state of continuous batching.

    Args:
        num_rows: sequences whose keys and values are held; at least ``max_batch``.
        max_batch: requests that run at once.
        max_context: positions of a row.
        prefill_tokens: most prompt tokens of one step.

    Attributes:
        table: which row holds what.
        stats: counts.
        held: no waiting request is admitted.
        kv_tokens: tokens that the rows of running requests hold. Any thread may read it.
    """

    def __init__(
        self, *, num_rows: int, max_batch: int, max_context: int, prefill_tokens: int
    ) -> None:
        self.table = RowTable(num_rows)
        self.stats = EngineStats()
        self.held = False
        self.kv_tokens = 0
        self._max_batch = max_batch
        self._max_context = max_context
        self._prefill_tokens = prefill_tokens
        self._waiting: OrderedDict[str, Request] = OrderedDict()
        self._running: dict[str, Request] = {}

    @property
    def running(self) -> tuple[Request, ...]:
        """Requests that have a row."""
        return tuple(self._running.values())

    @property
    def idle(self) -> bool:
        """Nothing can run: no request has a row and none may get one."""
        return not self._running and (self.held or not self._waiting)

    def __contains__(self, request_id: str) -> bool:
        return request_id in self._running or request_id in self._waiting

    def submit(self, request: Request) -> None:
        """Adds a request to the end of the queue."""
        self._waiting[request.request_id] = request

    def abort(self, request_id: str) -> Request | None:
        """Takes a request out; None if there is none of that name."""
        request = self._waiting.pop(request_id, None)
        if request is None:
            request = self._running.get(request_id)
            if request is not None:
                self._leave(request)
        return request

    def remove_all(self) -> list[Request]:
        """Takes every request out."""
        requests = [*self._running.values(), *self._waiting.values()]
        for request in list(self._running.values()):
            self._leave(request, forget=True)
        self._waiting.clear()
        return requests

    def fail(self, request: Request) -> None:
        """Takes a running request out, whose row may hold garbage."""
        self._leave(request, forget=True)

    def reload(self, *, keep_kv: bool = False) -> None:
        """The weights have changed: what is held is forgotten, or (``keep_kv``) stays with its owners."""
        if keep_kv:
            self.table.outdate()
        else:
            self.table.invalidate()
            self.kv_tokens = 0

    def plan(self) -> StepPlan:
        """The next forward pass; empty if there is nothing to do."""
        plan = StepPlan()
        self._admit(plan)
        rows = self.table.rows
        ready: list[Request] = []
        budget = self._prefill_tokens
        for request in self._running.values():
            cached = len(rows[request.row].tokens)
            unread = len(request.sequence) - cached
            if unread == 1 and request.num_sampled:
                ready.append(request)
            elif budget > 0:
                count = min(unread, budget)
                budget -= count
                plan.segments.append((request, Segment(request.row, cached, count)))
        self._compact(ready, plan)
        plan.segments = [
            (request, Segment(request.row, part.start, part.count))
            for request, part in plan.segments
        ]
        self.stats.prefill_tokens += sum(part.count for _, part in plan.segments)
        self.stats.steps += 1
        return plan

    def advance(self, plan: StepPlan) -> list[Request]:
        """The forward pass is done: its tokens are held. Returns the requests that sample, in order."""
        rows = self.table.rows
        sampling = list(plan.decode)
        for request in plan.decode:
            rows[request.row].tokens.append(request.sequence[-1])
        for request, part in plan.segments:
            end = part.start + part.count
            rows[request.row].tokens.extend(request.sequence[part.start : end])
            if end == len(request.sequence):
                sampling.append(request)
        self.kv_tokens += len(plan.decode) + sum(part.count for _, part in plan.segments)
        return sampling

    def commit(
        self,
        sampling: Sequence[Request],
        tokens: Sequence[int],
        logprobs: Sequence[float],
        version: int,
    ) -> list[tuple[Request, FinishReason]]:
        """Appends one sampled token to each request; returns those that ended, taken out."""
        ended: list[tuple[Request, FinishReason]] = []
        for request, token, logprob in zip(sampling, tokens, logprobs, strict=True):
            request.sequence.append(token)
            request.logprobs.append(logprob)
            request.versions.append(version)
            if token in request.stop:
                ended.append((request, "stop"))
            elif (
                len(request.logprobs) >= request.sampling.max_tokens
                or len(request.sequence) >= self._max_context
            ):
                ended.append((request, "length"))
        for request, _ in ended:
            self._leave(request)
        self.stats.sampled_tokens += len(tokens)
        return ended

    def _admit(self, plan: StepPlan) -> None:
        if self.held:
            return
        for request in list(self._waiting.values()):
            if len(self._running) >= self._max_batch:
                return
            index = self.table.acquire(request.session_id)
            if index is None:
                continue  # its session still runs another request
            del self._waiting[request.request_id]
            self._running[request.request_id] = request
            request.row = index
            row = self.table.rows[index]
            # The last prompt token is always computed: its logits are needed.
            limit = len(request.sequence) - 1
            keep = min(common_prefix(row.tokens, request.sequence), limit)
            if keep < len(row.tokens) or not row.tokens:  # not this episode's next turn
                donor, common = self.table.donor(request.sequence, index)
                if min(common, limit) > keep:
                    keep = min(common, limit)
                    row.tokens, row.stale = self.table.rows[donor].tokens[:keep], False
                    plan.copies.append((donor, index, keep))
            row.cut(keep)
            self.stats.cached_tokens += keep
            self.kv_tokens += keep

    def _compact(self, ready: Sequence[Request], plan: StepPlan) -> None:
        """Brings the rows that decode to the front, with as few exchanges as possible."""
        count = len(ready)
        occupied = {request.row for request in ready}
        holes = [row for row in range(count) if row not in occupied]
        owners = {request.row: request for request in self._running.values()}
        for request in ready:
            if request.row < count:
                continue
            hole, row = holes.pop(), request.row
            length = max(len(self.table.rows[i].tokens) for i in (hole, row))
            plan.swaps.append((hole, row, length))
            self.table.swap(hole, row)
            displaced = owners.get(hole)
            if displaced is not None:
                displaced.row = row
                owners[row] = displaced
            request.row = hole
            owners[hole] = request
        plan.decode = sorted(ready, key=lambda request: request.row)

    def _leave(self, request: Request, *, forget: bool = False) -> None:
        del self._running[request.request_id]
        self.kv_tokens -= len(self.table.rows[request.row].tokens)
        self.table.free(request.row, forget=forget)
