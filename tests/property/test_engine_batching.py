"""The batcher against a pretended memory: what a row holds must be what its request has read."""

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from agentic_gym.engines.batching import Batcher, Request
from agentic_gym.types import Completion, SamplingParams

ROWS, BATCH, CONTEXT, BUDGET = 4, 3, 40, 9


class Memory:
    """Token ids where a model would hold keys and values, and after how many publishes each was written."""

    def __init__(self) -> None:
        self.rows: list[dict[int, tuple[int, int]]] = [{} for _ in range(ROWS)]
        self.epoch = 0
        self.forgotten = 0  # epoch of the last publish that left nothing valid
        self.outdated = [0]  # epochs of publishes that left everything with its owner

    def publish(self, *, keep_kv: bool) -> None:
        self.epoch += 1
        if keep_kv:
            self.outdated.append(self.epoch)
        else:
            self.forgotten = self.epoch

    def oldest_allowed(self, born: int) -> int:
        """For a request of an episode that began in this epoch."""
        return max(self.forgotten, *(epoch for epoch in self.outdated if epoch <= born))

    def swap(self, a: int, b: int, length: int) -> None:
        kept = {i: self.rows[a][i] for i in self.rows[a] if i < length}
        taken = {i: self.rows[b][i] for i in self.rows[b] if i < length}
        self.rows[a] = {**self.rows[a], **taken}
        self.rows[b] = {**self.rows[b], **kept}

    def copy(self, source: int, target: int, length: int) -> None:
        self.rows[target].update({i: self.rows[source][i] for i in range(length)})


def next_token(sequence: list[int]) -> int:
    return (sum(sequence) * 31 + len(sequence)) % 11


def step(batcher: Batcher, memory: Memory, ended: list[Request], born: dict[str, int]) -> None:
    plan = batcher.plan()
    for copy in plan.copies:
        memory.copy(*copy)
    for swap in plan.swaps:
        memory.swap(*swap)
    assert [request.row for request in plan.decode] == list(range(len(plan.decode)))
    assert sum(part.count for _, part in plan.segments) <= BUDGET
    ids = iter(plan.input_ids)
    for request in plan.decode:
        memory.rows[request.row][len(request.sequence) - 1] = next(ids), memory.epoch
    for _, part in plan.segments:
        for position in range(part.start, part.start + part.count):
            memory.rows[part.row][position] = next(ids), memory.epoch
    assert next(ids, None) is None
    sampling = batcher.advance(plan)
    for request in sampling:
        read = [memory.rows[request.row][i] for i in range(len(request.sequence))]
        assert [token for token, _ in read] == request.sequence
        oldest = min(epoch for _, epoch in read)
        assert oldest >= memory.oldest_allowed(born[request.request_id])
    tokens = [next_token(request.sequence) for request in sampling]
    ended += [r for r, _ in batcher.commit(sampling, tokens, [-1.0] * len(tokens), version=0)]
    assert len(batcher.running) <= BATCH
    held = [len(batcher.table.rows[request.row].tokens) for request in batcher.running]
    assert batcher.kv_tokens == sum(held)


@settings(deadline=None, derandomize=True, max_examples=60)
@given(st.integers(0, 2**32 - 1))
def test_any_interleaving_gives_what_each_request_would_get_alone(seed: int) -> None:
    rng = random.Random(seed)
    batcher = Batcher(num_rows=ROWS, max_batch=BATCH, max_context=CONTEXT, prefill_tokens=BUDGET)
    memory, ended, results, aborted = Memory(), list[Request](), dict[str, list[int]](), set[str]()
    prompts = {f"s{i}": [rng.randrange(5) for _ in range(rng.randrange(1, 12))] for i in range(5)}
    submitted: dict[str, Request] = {}
    born: dict[str, int] = {}  # of each request's episode
    began: dict[str, int] = {}  # of the episodes that are not released
    for number in range(14):
        session = rng.choice([None, *prompts])
        prompt = list(prompts[session]) if session else [rng.randrange(5) for _ in range(4)]
        if session and (old := results.get(session)):
            prompt = (old + [rng.randrange(5) for _ in range(3)])[: CONTEXT - 6]
        request = Request(
            request_id=str(number),
            session_id=session,
            sequence=prompt,
            prompt_length=len(prompt),
            sampling=SamplingParams(max_tokens=rng.randrange(1, 7)),
            noise_key=0,
            finish=lambda _: None,
        )
        submitted[request.request_id] = request
        born[request.request_id] = began.setdefault(session or str(number), memory.epoch)
        batcher.submit(request)
        for _ in range(rng.randrange(4)):
            step(batcher, memory, ended, born)
        if rng.random() < 0.2:
            victim = str(rng.randrange(number + 1))
            if batcher.abort(victim):
                aborted.add(victim)
        if rng.random() < 0.3:
            keep_kv = rng.random() < 0.7
            batcher.reload(keep_kv=keep_kv)
            memory.publish(keep_kv=keep_kv)
        if rng.random() < 0.3 and session:
            batcher.table.release(session)
            own = [r for r in submitted.values() if r.session_id == session]
            if all(r.row >= 0 or r.request_id in aborted for r in own):
                del began[session]  # or one that waits takes it up again
        for request in ended:
            if request.session_id:
                results[request.session_id] = list(request.sequence)
    for _ in range(200):
        if batcher.idle:
            break
        step(batcher, memory, ended, born)
    assert batcher.idle, "nothing may wait for ever"
    assert {request.request_id for request in ended} == set(submitted) - aborted
    for request in ended:
        alone = request.sequence[: request.prompt_length]
        while len(alone) < len(request.sequence):
            alone.append(next_token(alone))
        assert alone == request.sequence
        completion = request.completion("length")
        assert isinstance(completion, Completion)
        assert len(completion.token_ids) == request.sampling.max_tokens
