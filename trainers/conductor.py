"""Drives a schedule with real episodes, on one event loop: events in, actions carried out.

Everything that must survive a kill goes through the store before it has an effect: launches before episodes
start, trajectories when they finish, prefixes while they are played, a batch before the trainer sees it.
"""

from __future__ import annotations

import asyncio
import datetime
import itertools
import time
from collections.abc import Callable, Sequence
from typing import Any

from agentic_gym.episode import Launch
from agentic_gym.errors import EngineError, InfraError
from agentic_gym.store import LaunchRecord
from agentic_gym.trainers.curation import REFUSED, Curation
from agentic_gym.trainers.episodes import Episodes, EpisodeTimes
from agentic_gym.trainers.publisher import Weights
from agentic_gym.trainers.publishing import Publishing
from agentic_gym.trainers.rollout_metrics import RolloutMetrics
from agentic_gym.trainers.run_parts import STATE, Run
from agentic_gym.trainers.schedules import base
from agentic_gym.trainers.source import Batch
from agentic_gym.trainers.taking_up import launch_records, taken_up
from agentic_gym.trainers.waiting import stalled
from agentic_gym.types import Outcome, Trajectory


class Conductor:
    """See the module. Every method runs on the loop; the callbacks are called there.

    Args:
        run: what to work with.
        curation: decides which episodes train.
        weights: that the first episodes are sampled from.
        on_batch: given each batch.
        on_stage: given names of finished trajectories that will be in the next batch.
        on_error: given what ends the run.
        on_trajectory: told of each trajectory that arrives.
    """

    def __init__(
        self,
        run: Run,
        curation: Curation,
        weights: Weights,
        *,
        on_batch: Callable[[Batch], None],
        on_stage: Callable[[tuple[str, ...]], None] = lambda names: None,
        on_error: Callable[[BaseException], None],
        on_trajectory: Callable[[Trajectory], None] = lambda trajectory: None,
    ) -> None:
        self._run = run
        self._curation = curation
        self._on_batch = on_batch
        self._on_stage = on_stage
        self._on_error = on_error
        self._on_trajectory = on_trajectory
        self._episodes = Episodes(
            run.rollout,
            run.slots,
            run.replicas,
            self._ended,
            self._played,
            self._on_error,
            score=None if run.rubric is None else run.rubric.apply,
        )
        self._records: dict[str, LaunchRecord] = {}
        self._prefixes: dict[str, Trajectory] = {}  # from before a restart
        self._unsaved: dict[str, Trajectory] = {}
        self._next_group = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._training = False
        self._began = self._progress = time.perf_counter()
        self._metrics = RolloutMetrics()
        self._publishing = Publishing(
            run,
            weights,
            spawn=self._spawn,
            metrics=lambda: self._metrics,
            on_published=lambda version, replica: self._handle(base.Published(version, replica)),
            on_error=on_error,
        )

    # ---- what the runtime calls ------------------------------------------------------------------

    async def begin(self) -> None:
        """Loads the weights everywhere and lets the schedule start from what the ledger knows."""
        run = self._run
        if run.replicas is not None:
            run.replicas.on_down = self._replica_down
        await self._publishing.begin()
        version = self._publishing.newest.version
        left = taken_up(run.store, version, self._curation.refused())
        self._records, self._prefixes = left.records, left.prefixes
        self._curation.finished = left.groups
        self._next_group = int(run.store.get_state(STATE, {}).get("next_group", 0))
        served = self._publishing.served
        self._handle(base.Begun(left.parked, left.finished, self._next_group, version, served))
        self._spawn(self._tick())

    async def trained(self, weights: Weights) -> None:
        """The batch has been trained on."""
        self._training = False
        await self._publishing.move_on(
            weights, tell=lambda: self._handle(base.Trained(weights.version))
        )

    async def replayed(self, weights: Weights) -> None:
        """A batch that was recorded before a restart has been trained on; nothing is played yet."""
        self._publishing.newest = weights

    async def finish(self, weights: Weights) -> None:
        """Ends what runs; every replica then serves these weights."""
        self._publishing.newest = weights
        await self._stop()
        await self._publishing.load_all()

    async def close(self) -> None:
        """Ends what runs, and keeps the prefixes of it."""
        await self._stop()
        await self._publishing.close()

    async def _stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._episodes.close()
        self._save()

    async def take_metrics(
        self, batch: Sequence[Trajectory], waited_s: float
    ) -> tuple[dict[str, float], int]:
        """What was measured since the last time, and how many replicas' machines help the trainer.

        Args:
            batch: that the trainer gets now.
            waited_s: seconds that it waited for it.
        """
        measured = self._metrics
        self._metrics = RolloutMetrics(lent=measured.lent)
        measured.trainer_waited(waited_s)
        found = base.metrics_of(self._run.schedule) | measured.summary(batch)
        return found | self._curation.metrics(), len(measured.lent)

    async def state_dict(self) -> dict[str, Any]:
        """State of schedule and task selector."""
        return self._state()

    # ---- events ----------------------------------------------------------------------------------

    def _handle(self, event: base.Event) -> None:
        if not isinstance(event, base.Tick):
            self._progress = time.perf_counter()
        try:
            self._execute(self._run.schedule.handle(event))
        except BaseException as error:
            self._on_error(error)

    def _ended(self, trajectory: Trajectory, times: EpisodeTimes) -> None:
        name = trajectory.trajectory_id
        self._unsaved.pop(name, None)
        self._on_trajectory(trajectory)
        if trajectory.outcome is Outcome.INFRA_ERROR:
            self._metrics.broke()
            self._handle(base.Failed(name, trajectory.error or "unknown"))
            return
        self._records.pop(name, None)
        seconds = float(trajectory.metrics.get("duration_s", 0.0))
        if self._run.order is not None:
            self._run.order.observe(trajectory)
        self._metrics.ended(seconds, times.queued, times.paused)
        try:
            self._run.store.finish(trajectory)
            self._curation.finish(trajectory)
            refused = self._is_refused(trajectory.group_id)
        except BaseException as error:
            self._on_error(error)
            return
        if refused:
            self._handle(base.Failed(name, REFUSED, final=True, seconds=seconds))
        else:
            self._handle(base.Finished(name, seconds))

    def _is_refused(self, group: str) -> bool:
        """Whether this trajectory completed a group that is not to be trained."""
        refused = self._curation.refuses(group, self._run.store)
        if refused:
            self._run.store.put_state(STATE, self._state())  # before anything of it is dropped
        return refused

    def _played(self, so_far: Trajectory) -> None:
        self._progress = time.perf_counter()
        self._unsaved[so_far.trajectory_id] = so_far

    def _replica_down(self, replica: int) -> None:
        self._handle(base.ReplicaDown(replica))
        if self._run.replicas is not None and not self._run.replicas.versions:
            self._on_error(EngineError("the last replica of the engine is gone"))

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(self._run.tick_s)
            self._save()
            replicas = self._run.replicas
            loads = {
                replica: base.ReplicaLoad(load.kv_tokens, load.kv_capacity)
                for replica, load in ({} if replicas is None else replicas.loads()).items()
            }
            now = datetime.datetime.now()
            self._handle(
                base.Tick(
                    time.perf_counter() - self._began,
                    now.hour + now.minute / 60,
                    loads,
                )
            )
            self._metrics.sample(
                busy=self._episodes.num_generating > 0,
                active=self._episodes.num_active,
                kv_used=max((load.kv_share for load in loads.values()), default=0.0),
            )
            idle = time.perf_counter() - self._progress
            if idle > self._run.stall_s and not self._training:
                entries, loading = self._episodes.entries(), self._publishing.loading
                self._on_error(stalled(entries, replicas, loading, idle))
                return

    def _save(self) -> None:
        """Keeps the turns that were played since the last time."""
        unsaved, self._unsaved = self._unsaved, {}
        wanted = [prefix for name, prefix in unsaved.items() if name in self._records]
        try:
            self._run.store.carry_all(wanted)
        except BaseException as error:
            self._on_error(error)

    # ---- actions ---------------------------------------------------------------------------------

    def _execute(self, actions: Sequence[base.Action]) -> None:
        # In their order; launches that follow each other are one write.
        for _, run in itertools.groupby(actions, lambda action: isinstance(action, base.Launch)):
            same = list(run)
            launches = [action for action in same if isinstance(action, base.Launch)]
            if launches:
                self._launch(launches)
            else:
                for action in same:
                    self._carry_out(action)

    def _carry_out(self, action: base.Action) -> None:
        match action:
            case base.Retry(name, replica):
                self._retry(name, replica)
            case base.Resume(name, replica):
                self._resume(name, replica)
            case base.Park(name):
                self._episodes.park(name)
            case base.Migrate(name, replica):
                self._episodes.migrate(name, replica)
                self._metrics.count("migrations")
            case base.Drop(name, reason):
                self._drop(name, reason)
            case base.Stage(names):
                self._on_stage(names)
            case base.Emit(names):
                self._emit(names)
            case base.Publish(replicas, mode):
                self._publishing.publish(replicas, mode)
            case base.Assign(replica, role):
                self._metrics.assigned(replica, role)
            case base.Halt(reason):
                raise InfraError(
                    f"{reason}. Nothing is lost: mend it and resume the run (agentic-gym doctor "
                    "shows what works here)"
                )
            case base.Launch():
                self._launch([action])

    def _launch(self, groups: Sequence[base.Launch]) -> None:
        records = [
            record
            for launch in groups
            for record in launch_records(
                launch,
                self._task(launch),
                self._run.seed,
                self._publishing.version_of(launch.replica),
            )
        ]
        # The cursor is written with the launches that it stands behind, and before them: whichever of
        # the two writes a kill comes after, :func:`complete_launch` finds both or can make the second.
        store = self._run.store
        self._next_group = groups[-1].group + 1
        store.put_state(
            STATE,
            {
                **self._state(),
                "before": store.counts().launches,
                "launches": [
                    [r.trajectory_id, r.task_id, r.group_id, r.seed, r.version] for r in records
                ],
            },
        )
        store.launch(records)
        replicas = {base.group_id(launch.group): launch.replica for launch in groups}
        for record in records:
            self._records[record.trajectory_id] = record
            self._start(record, replicas[record.group_id])

    def _task(self, launch: base.Launch) -> str:
        if launch.task_of is None:
            return self._curation.tasks.next_task()
        return self._run.store.task_of(base.group_id(launch.task_of))

    def _start(self, record: LaunchRecord, replica: int, prefix: Trajectory | None = None) -> None:
        launch = Launch(
            record.trajectory_id,
            record.task_id,
            record.group_id,
            record.seed,
            self._run.options(record.task_id),
        )
        order = self._run.order
        rank = 0.0 if order is None else order.rank(record.task_id)
        self._episodes.start(launch, replica=replica, prefix=prefix, rank=rank)

    def _retry(self, name: str, replica: int) -> None:
        """From nothing: whatever is kept of it is forgotten, also in the ledger."""
        old = self._records[name]
        record = LaunchRecord(
            name, old.task_id, old.group_id, old.seed, self._publishing.version_of(replica)
        )
        self._records[name] = record
        self._prefixes.pop(name, None)
        self._unsaved.pop(name, None)
        self._run.store.launch([record])
        self._start(record, replica)
        self._metrics.count("retries")

    def _resume(self, name: str, replica: int) -> None:
        record = self._records.get(name)
        if record is None or self._episodes.resume(name, replica=replica):
            return  # it finished while it was parked, or it is here
        self._start(record, replica, self._prefixes.pop(name, None))

    def _drop(self, name: str, reason: str) -> None:
        self._records.pop(name, None)
        self._prefixes.pop(name, None)
        self._unsaved.pop(name, None)
        self._episodes.drop(name)
        self._curation.forget([name])
        self._run.store.drop(name, reason)
        self._metrics.count("dropped")

    def _emit(self, names: tuple[str, ...]) -> None:
        update, store = self._publishing.newest.version + 1, self._run.store
        reasons = self._curation.sift(update, store.trajectories(names))
        kept = [name for name in names if name not in reasons]
        store.record_batch(update, kept)
        self._curation.forget(names)
        for name, reason in reasons.items():
            store.drop(name, reason)
        batch = store.trajectories(kept)
        self._curation.observe(update, batch)
        store.put_state(STATE, self._state())
        self._training = True
        self._on_batch(Batch(update, batch))

    # ---- small things ----------------------------------------------------------------------------

    def _state(self) -> dict[str, Any]:
        run = self._run
        order = {} if run.order is None else {"order": run.order.state_dict()}
        return {
            "schedule": run.schedule.state_dict(),
            "curation": self._curation.state_dict(),
            "next_group": self._next_group,
            **order,
        }

    def _spawn(self, coroutine: Any) -> asyncio.Task[None]:
        task: asyncio.Task[None] = asyncio.get_running_loop().create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._on_error(error)
