"""The trainer's source of trajectories on one machine: a schedule, played beside the trainer.

The trainer works in its own thread; episodes, the engine's clients and the schedule live on an event loop in
another (:mod:`~agentic_gym.trainers.conductor`), so that they overlap as far as the schedule lets them. What
a restart does follows from the order of writes: recorded batches newer than the checkpoint are trained
again from the stored trajectories, finished trajectories stay buffered, unfinished ones are carried on from
the prefix that was kept, or start again with the same task and seed.

Parts of a batch that a trainer worked on before it was whole are recorded too, since sums of floats depend on
their order: a batch that is trained again comes in the same parts.
"""

from __future__ import annotations

import queue
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Self

from agentic_gym.errors import TrainingError
from agentic_gym.trainers.conductor import Conductor
from agentic_gym.trainers.curation import Curation
from agentic_gym.trainers.loop_thread import LoopThread
from agentic_gym.trainers.publisher import Weights
from agentic_gym.trainers.run_parts import STATE, Run
from agentic_gym.trainers.source import Batch, OnPiece, Policy, Start, Update
from agentic_gym.trainers.taking_up import complete_launch
from agentic_gym.types import Trajectory

SELECTION_SUMMARY = "selection_summary"
"""Key, in the store, of what there is to train on and what was trained, for the report."""

PIECES = "pieces"
"""Key, in the store, of the parts in which batches newer than the last checkpoint came."""


class Runtime:
    """See the module. Use it as a context manager, or call :meth:`close`.

    Args:
        run: what to work with.
        updates: after so many nothing is launched any more; None: unknown.
        on_trajectory: told of each trajectory that arrives, from another thread (for progress bars).
        on_lent: told, before each update, how many replicas' machines help the trainer.
    """

    def __init__(
        self,
        run: Run,
        *,
        updates: int | None = None,
        on_trajectory: Callable[[Trajectory], None] = lambda trajectory: None,
        on_lent: Callable[[int], None] = lambda replicas: None,
    ) -> None:
        self._run = run
        self._curation = Curation(
            run.tasks,
            rubric=run.rubric,
            refill=run.refill,
            group_size=run.group_size,
            filter=run.filter,
        )
        self._updates = updates
        self._on_trajectory = on_trajectory
        self._on_lent = on_lent
        self._inbox: queue.SimpleQueue[Batch | tuple[str, ...] | BaseException] = (
            queue.SimpleQueue()
        )
        self._replay: deque[tuple[int, list[str]]] = deque()
        self._loop: LoopThread | None = None
        self._conductor: Conductor | None = None
        self._rolling = False
        self._last: Batch | None = None
        self._pieces: dict[str, list[list[str]]] = {}  # of each update

    # ---- what the trainer calls ------------------------------------------------------------------

    def begin(self, start: Start) -> None:
        """Takes up the run where the checkpoint and the ledger left it."""
        store, run = self._run.store, self._run
        saved = store.get_state(STATE) or start.state
        if saved is not None:
            run.schedule.load_state_dict(saved["schedule"])
            self._curation.load_state_dict(saved["curation"])
            if run.order is not None and "order" in saved:
                run.order.load_state_dict(saved["order"])
            complete_launch(store, saved)
        for update, names in store.batches_after(self._curation.observed):
            self._curation.observe(update, store.trajectories(names))
        for update, _ in store.batches_after(0):
            # A kill may come between the checkpoint's last write and these marks.
            if update < start.version:
                store.mark_trained(update)
            elif update == start.version:
                store.mark_trained(update, start.checkpoint)
        self._replay = deque(store.batches_after(start.version))
        self._pieces = store.get_state(PIECES, {})
        self._loop = LoopThread()
        self._conductor = Conductor(
            run,
            self._curation,
            self._weights(start.policy, start.version),
            on_batch=self._inbox.put,
            on_stage=self._inbox.put,
            on_error=self._inbox.put,
            on_trajectory=self._on_trajectory,
        )

    def next_batch(self, on_piece: OnPiece | None = None) -> Batch:
        """The batch of the next update: recorded before a restart, or played.

        Args:
            on_piece: see :class:`~agentic_gym.trainers.source.TrajectorySource`. The schedule has to stage.

        Raises:
            InfraError: group after group broke, an engine died, or nothing happens any more.
        """
        store = self._run.store
        if self._replay:
            update, names = self._replay[0]
            if on_piece is not None:
                for piece in self._pieces.get(str(update), []):
                    on_piece(store.trajectories(piece))
            self._last = Batch(update, store.trajectories(names))
            return self._last
        loop, conductor = self._parts()
        if not self._rolling:
            self._rolling = True
            loop.call(conductor.begin())
        batch, waited = self._receive(loop, on_piece)
        metrics, lent = loop.call(conductor.take_metrics(batch.trajectories, waited))
        self._on_lent(lent)
        if self._run.order is not None:
            metrics |= self._run.order.metrics()
        self._last = Batch(batch.update, batch.trajectories, metrics)
        return self._last

    def update_finished(self, update: Update) -> None:
        """Marks the batch as trained; the schedule hears of it, and publishes when it wants to."""
        store = self._run.store
        # Before anything is published, which may fail: what was measured is worth most then.
        with store.transaction():
            store.mark_trained(update.version, update.checkpoint)
            store.log_metrics(update.version, update.metrics)
            store.record_credit(update.credit)
            store.put_state(SELECTION_SUMMARY, self._curation.tasks.summary())
        if update.checkpoint is not None:
            self._pieces = {}  # of batches that are never trained again
        loop, conductor = self._parts()
        weights = self._weights(update.policy, update.version)
        if self._replay:
            self._replay.popleft()
            loop.call(conductor.replayed(weights))
        elif self._updates is None or update.version < self._updates:
            loop.call(conductor.trained(weights))
        else:
            self._rolling = False
            loop.call(conductor.finish(weights))

    def state_dict(self) -> dict[str, Any]:
        """State of schedule and task selector."""
        loop, conductor = self._parts()
        return loop.call(conductor.state_dict())

    # ---- the end -----------------------------------------------------------------------------------

    def close(self) -> None:
        """Ends what runs; idempotent. What is unfinished can be taken up again."""
        loop, self._loop = self._loop, None
        if loop is None or self._conductor is None:
            return
        try:
            if loop.alive:
                loop.call(self._conductor.close())
        finally:
            loop.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ---- small things ------------------------------------------------------------------------------

    def _parts(self) -> tuple[LoopThread, Conductor]:
        if self._loop is None or self._conductor is None:
            raise TrainingError("the runtime has not begun, or is closed: call begin first")
        return self._loop, self._conductor

    def _receive(self, loop: LoopThread, on_piece: OnPiece | None) -> tuple[Batch, float]:
        """The next batch, and the seconds that nothing was there to work on."""
        waited = 0.0
        pieces: list[list[str]] = []
        staged: list[str] = []
        while True:
            began = time.perf_counter()
            received = self._take(loop, wait=not staged)
            waited += time.perf_counter() - began
            if isinstance(received, BaseException):
                raise received
            if isinstance(received, Batch):
                break
            if received is not None:
                staged += () if on_piece is None else received
            elif on_piece is not None:
                # All that has come since the last time: longer pieces waste less than many short ones.
                pieces.append(staged)
                on_piece(self._run.store.trajectories(staged))
                staged = []
        if pieces:
            self._pieces[str(received.update)] = pieces
            self._run.store.put_state(PIECES, self._pieces)
        return received, waited

    def _take(
        self, loop: LoopThread, *, wait: bool
    ) -> Batch | tuple[str, ...] | BaseException | None:
        """What comes next from the conductor; None: nothing yet, and it is not waited for."""
        while True:
            try:
                return self._inbox.get(timeout=5.0) if wait else self._inbox.get_nowait()
            except queue.Empty:
                if not loop.alive:
                    raise TrainingError("the thread that plays episodes has died") from None
                if not wait:
                    return None

    def _weights(self, policy: Policy, version: int) -> Weights:
        """A copy of the newest weights, with what is needed to prove that an engine serves them."""
        publisher = self._run.publisher
        if publisher is None:
            return Weights(version, {})
        # The trainer goes on changing its own while a replica loads these.
        tensors = {name: tensor.detach().clone() for name, tensor in policy.weights().items()}
        return Weights(version, tensors, publisher.references(policy, version, self._samples()))

    def _samples(self) -> list[tuple[list[int], list[int]]]:
        """What the engine read before its first tokens of each trajectory, and what it sampled then."""
        samples = []
        for trajectory in () if self._last is None else self._last.trajectories:
            stream = trajectory.tokens
            if stream is None or not stream.sampled.any():
                continue
            first = int(stream.sampled.argmax())
            others = ~stream.sampled[first:]
            end = first + (int(others.argmax()) if others.any() else len(others))
            samples.append((stream.ids[:first].tolist(), stream.ids[first:end].tolist()))
        return samples
