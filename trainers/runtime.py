"""Drives a schedule with real episodes on one machine, and feeds the trainer.

Everything that must survive a kill goes through the store before it has an effect: launches before
episodes start, trajectories when they finish, a batch before the trainer sees it. What a restart does
follows from that (:meth:`Runtime.begin`): recorded batches newer than the checkpoint are trained again
from the stored trajectories, finished trajectories stay buffered, unfinished ones start again with the
same task and seed.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from agentic_gym.errors import InfraError, TrainingError
from agentic_gym.rollout import Launch, Rollout
from agentic_gym.store import LaunchRecord, RunStore
from agentic_gym.trainers.publisher import WeightPublisher
from agentic_gym.trainers.schedules import base
from agentic_gym.trainers.selection import TaskSelector
from agentic_gym.trainers.source import Batch, Policy, Start, Update
from agentic_gym.types import Outcome, Trajectory

_STATE = "runtime"


def episode_seed(run_seed: int, group: int, member: int) -> int:
    """Seed of an episode: fixed by its place in the run, not by when it is launched."""
    return int(np.random.SeedSequence([run_seed, group, member]).generate_state(1)[0] >> 1)


class Runtime:
    """The trainer's source of trajectories.

    Args:
        rollout: plays episodes.
        schedule: decides what is launched and trained.
        tasks: gives each group its task.
        store: of the run.
        publisher: hands weights to the engine; None where the policy is not served by one.
        seed: of the run.
        options: makes the options of ``env.reset`` from a task id.
        on_trajectory: told of each trajectory that arrives (for progress bars).
    """

    def __init__(
        self,
        *,
        rollout: Rollout,
        schedule: base.Schedule,
        tasks: TaskSelector,
        store: RunStore,
        publisher: WeightPublisher | None = None,
        seed: int = 0,
        options: Callable[[str], Mapping[str, Any]] = lambda task_id: {"task_id": task_id},
        on_trajectory: Callable[[Trajectory], None] | None = None,
    ) -> None:
        self._rollout = rollout
        self._schedule = schedule
        self._tasks = tasks
        self._store = store
        self._publisher = publisher
        self._seed = seed
        self._options = options
        self._on_trajectory = on_trajectory
        self._version = 0
        self._queue = _Queue()
        self._records: dict[str, LaunchRecord] = {}
        self._replay: deque[tuple[int, list[str]]] = deque()
        self._prompts: list[list[int]] = []
        self._event: base.Event | None = None
        self._batch: Batch | None = None
        self._broken = 0  # episodes since the last update that ended as infra_error

    # ---- what the trainer calls ----------------------------------------------------------------

    def begin(self, start: Start) -> None:
        """Takes up the run where the checkpoint and the ledger left it."""
        self._version = start.version
        saved = self._store.get_state(_STATE) or start.state
        if saved is not None:
            self._schedule.load_state_dict(saved["schedule"])
            self._tasks.load_state_dict(saved["tasks"])
            self._complete_launch(saved)
        for update, _ in self._store.batches_after(0):
            # A kill may come between the checkpoint's last write and these marks.
            if update < start.version:
                self._store.mark_trained(update)
            elif update == start.version:
                self._store.mark_trained(update, start.checkpoint)
        self._replay = deque(self._store.batches_after(start.version))
        if not self._replay:
            self._start_rolling(start.policy)

    def next_batch(self) -> Batch:
        """The batch of the next update: recorded before a restart, or played now.

        Raises:
            InfraError: group after group broke.
        """
        if self._replay:
            update, names = self._replay[0]
            return self._remember(Batch(update, self._store.trajectories(names)))
        if self._event is not None:
            event, self._event = self._event, None
            self._handle(event)
        if self._batch is None:
            self._rollout.call(self._play())
        batch, self._batch = self._batch, None
        if batch is None:
            raise TrainingError("the schedule neither launches episodes nor emits a batch")
        return self._remember(batch)

    def update_finished(self, update: Update) -> None:
        """Marks the batch as trained and publishes; new episodes start with the next batch."""
        self._store.mark_trained(update.version, update.checkpoint)
        self._version = update.version
        # Before publishing, which may fail: what was measured is worth most then.
        self._store.log_metrics(update.version, {**update.metrics, "infra_errors": self._broken})
        self._broken = 0
        gap: float | None = None
        if self._replay:
            self._replay.popleft()
            if not self._replay:
                gap = self._start_rolling(update.policy)
        else:
            actions = self._schedule.handle(base.Trained(update.version))
            self._execute(actions)
            if base.Publish() in actions:
                gap = self._publish(update.policy)
                self._event = base.Published(update.version)
        if gap is not None:
            self._store.log_metrics(update.version, {"publish_gap": gap})

    def state_dict(self) -> dict[str, Any]:
        """State of schedule and task selector."""
        return {"schedule": self._schedule.state_dict(), "tasks": self._tasks.state_dict()}

    # ---- restart -------------------------------------------------------------------------------

    def _complete_launch(self, saved: Mapping[str, Any]) -> None:
        """Launches what was about to be launched when the state was saved, if a kill came between."""
        launches = [LaunchRecord(*fields) for fields in saved.get("launches", ())]
        if launches and self._store.counts().launches == saved["before"]:
            self._store.launch(launches)

    def _start_rolling(self, policy: Policy) -> float:
        """Publishes and lets the schedule start from what the ledger knows."""
        gap = self._publish(policy)
        running = self._store.in_flight()
        finished = [base.Known(t.trajectory_id, self._version) for t in self._store.buffered()]
        again = [
            LaunchRecord(r.trajectory_id, r.task_id, r.group_id, r.seed, self._version)
            for r in running
        ]
        self._store.launch(again)
        self._records.update({record.trajectory_id: record for record in again})
        self._event = base.Begun(
            parked=[base.Known(r.trajectory_id, r.version) for r in again],
            finished=finished,
            next_group=self._next_group(),
            version=self._version,
            replicas={0: self._version},
        )
        return gap

    def _next_group(self) -> int:
        last = self._store.get_state(_STATE, {}).get("next_group", 0)
        return int(last)

    # ---- episodes ------------------------------------------------------------------------------

    async def _play(self) -> None:
        """Plays until the schedule emits a batch."""
        async with contextlib.aclosing(self._rollout.run(self._queue)) as trajectories:
            async for trajectory in trajectories:
                self._arrive(trajectory)
                if self._batch is not None:
                    return

    def _arrive(self, trajectory: Trajectory) -> None:
        if self._on_trajectory is not None:
            self._on_trajectory(trajectory)
        name = trajectory.trajectory_id
        if name not in self._records:
            return  # dropped while it ran
        if trajectory.outcome is Outcome.INFRA_ERROR:
            self._broken += 1
            self._handle(base.Failed(name, trajectory.error or "unknown"))
        else:
            del self._records[name]
            self._store.finish(trajectory)
            self._handle(base.Finished(name))

    def _handle(self, event: base.Event) -> None:
        self._execute(self._schedule.handle(event))

    def _execute(self, actions: Sequence[base.Action]) -> None:
        self._launch([action for action in actions if isinstance(action, base.Launch)])
        for action in actions:
            match action:
                case base.Retry(name) | base.Resume(name):
                    self._enqueue(self._records[name])
                case base.Drop(name, reason):
                    self._records.pop(name, None)
                    self._queue.remove(name)
                    self._store.drop(name, reason)
                case base.Emit(names):
                    update = self._version + 1
                    self._store.record_batch(update, names)
                    self._batch = Batch(update, self._store.trajectories(names))
                case base.Halt(reason):
                    raise InfraError(
                        f"{reason}. Nothing is lost: mend it and resume the run (agentic-gym doctor "
                        "shows what works here)"
                    )
                case base.Publish() | base.Launch():
                    pass  # launches are done; publishing needs the policy: see update_finished

    def _launch(self, groups: Sequence[base.Launch]) -> None:
        records = []
        for launch in groups:
            task = self._tasks.next_task()
            records += [
                LaunchRecord(
                    base.trajectory_id(launch.group, member),
                    task,
                    base.group_id(launch.group),
                    episode_seed(self._seed, launch.group, member),
                    self._version,
                )
                for member in range(launch.size)
            ]
        if not records:
            return
        # The cursor is written with the launches that it stands behind, and before them: whichever
        # of the two writes a kill comes after, :meth:`begin` finds both or can make the second.
        self._store.put_state(
            _STATE,
            {
                **self.state_dict(),
                "next_group": groups[-1].group + 1,
                "before": self._store.counts().launches,
                "launches": [
                    [r.trajectory_id, r.task_id, r.group_id, r.seed, r.version] for r in records
                ],
            },
        )
        self._store.launch(records)
        for record in records:
            self._enqueue(record)

    def _enqueue(self, record: LaunchRecord) -> None:
        self._records[record.trajectory_id] = record
        self._queue.add(
            Launch(
                record.trajectory_id,
                record.task_id,
                record.group_id,
                record.seed,
                self._options(record.task_id),
            )
        )

    # ---- publishing ----------------------------------------------------------------------------

    def _publish(self, policy: Policy) -> float:
        if self._publisher is None:
            return 0.0
        # Before the first batch nothing better is known to ask than the first token of any vocabulary.
        prompts = self._prompts or [[0]]
        return self._rollout.call(self._publisher.publish(policy, self._version, prompts))

    def _remember(self, batch: Batch) -> Batch:
        """Keeps what the engine read before its first sampled tokens, to compare it after publishing."""
        self._prompts = []
        for trajectory in batch.trajectories:
            stream = trajectory.tokens
            if stream is not None and stream.sampled.any():
                self._prompts.append(stream.ids[: int(stream.sampled.argmax())].tolist())
        return batch


class _Queue:
    """Launches that wait; the rollout takes them as slots become free."""

    def __init__(self) -> None:
        self._waiting: dict[str, Launch] = {}

    def __iter__(self) -> Iterator[Launch]:
        return self

    def __next__(self) -> Launch:
        if not self._waiting:
            raise StopIteration
        return self._waiting.pop(next(iter(self._waiting)))

    def add(self, launch: Launch) -> None:
        self._waiting[launch.trajectory_id] = launch

    def remove(self, name: str) -> None:
        self._waiting.pop(name, None)
