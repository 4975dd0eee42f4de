"""Drives a schedule, the very object that a real run uses, through a simulated run.

Time is SimPy's; its events call back, and there is no process and no generator in the inner loop, because
a run has millions of them: a turn costs an event for its tokens and one for its tool call.

What is promised of a driver (:mod:`agentic_gym.trainers.schedules.base`) holds, with two freedoms taken:
ticks come less often on a large cluster (:func:`~agentic_gym.trainers.simulation.cluster.tick_seconds`),
and results are never late, doubled or refused;
:func:`~agentic_gym.trainers.schedules.checking.check_schedule` is for that, and for restarts.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import simpy

from agentic_gym.errors import ScheduleContractError
from agentic_gym.trainers.schedules import base
from agentic_gym.trainers.simulation.cluster import (
    Cluster,
    admissible_tokens,
    tick_seconds,
    update_seconds,
    with_step,
)
from agentic_gym.trainers.simulation.fleet import Fleet
from agentic_gym.trainers.simulation.jobs import (
    BROKEN,
    CARRIED,
    FINISHED,
    IN_BATCH,
    LIVE,
    PARKED,
    QUEUED,
    TRAINED,
    Job,
    Ledger,
)
from agentic_gym.trainers.simulation.record import Record, Use
from agentic_gym.trainers.simulation.workload import Plans, check_fits

_PATIENCE_TICKS = 600
"""Ticks in a row with nothing going on, after which the schedule is stuck."""

_DRAWN = 24
"""Replicas that a picture shows at most."""


class Simulation:
    """One simulated run.

    Args:
        schedule: new, or with a loaded state.
        cluster: machines and costs.
        plans: what trajectories do.
        seed: of failures and deaths; what trajectories do has the seed of ``plans``.
        updates: after so many the run ends.
        warmup: updates at the start that no measurement counts.
        picture: keeps what replicas did when, for a Gantt picture.

    Attributes:
        cluster: with the seconds of a decode step that were used.
        fleet: the replicas.
        ledger: where every trajectory is.
        record: measurements.
        now: simulated seconds.
        num_events: that the schedule was sent.

    Raises:
        ConfigError: a trajectory may be longer than a replica's KV cache.
    """

    def __init__(
        self,
        schedule: base.Schedule,
        cluster: Cluster,
        plans: Plans,
        *,
        seed: int = 0,
        updates: int = 20,
        warmup: int = 0,
        picture: bool = False,
    ) -> None:
        self.cluster = with_step(cluster, plans.seconds_per_token)
        check_fits(plans, admissible_tokens(self.cluster))
        self.ledger = Ledger()
        self.record = Record(warmup=warmup)
        self.num_events = 0
        self._env = simpy.Environment()
        self.fleet = Fleet(self._env, self.cluster, self.ledger, self._tell, self._train)
        self._schedule = schedule
        self._plans = plans
        self._rng = random.Random(seed)
        self._updates = updates
        self._tasks: list[int] = []  # task of each group
        self._num_tasks = 0
        self._batch: list[Job] = []
        self._helpers = 0
        self._work = 0.0  # seconds of training that are left, with no helper, since:
        self._since = 0.0
        self._training: Any = None  # what wakes the trainer
        self._quiet_ticks = 0
        self._over = self._env.event()
        self._actions: dict[type, Callable[[Any], None]] = {
            base.Launch: self._launch,
            base.Retry: self._retry,
            base.Park: self._park,
            base.Resume: self._resume,
            base.Migrate: self._migrate,
            base.Drop: self._drop,
            base.Stage: lambda _: None,
            base.Emit: self._emit,
            base.Publish: self._publish,
            base.Assign: self._assign,
            base.Halt: self._halt,
        }
        if picture:
            numbers = sorted(self.fleet.replicas)
            for number in numbers[:: -(-len(numbers) // _DRAWN)]:
                self.fleet.replicas[number].bars = [(0.0, "idle")]

    @property
    def now(self) -> float:
        """Simulated seconds."""
        return float(self._env.now)

    def run(self) -> Record:
        """Runs to the end and proves that no trajectory is lost.

        Raises:
            ScheduleContractError: the schedule broke the contract, got stuck, or gave up.
        """
        if self.cluster.death_hours:
            for replica in self.fleet.replicas.values():
                self._fate(replica.number)
        if not self.record.warmup:
            self._begin_measuring()
        self._tell(base.Begun(replicas=dict.fromkeys(self.fleet.replicas, 0)))
        self._after(tick_seconds(self.cluster), self._tick)
        self._env.run(self._over)
        self.ledger.check()
        for replica in self.fleet.replicas.values():
            replica.advance(self.now)
        return self.record

    def use(self) -> Use:
        """Of the replicas, up to now."""
        use = Use()
        for replica in self.fleet.replicas.values():
            replica.advance(self.now)
            use.busy += replica.busy_s
            use.publish += replica.publish_s
            use.lent += replica.lent_s
            use.dead += replica.dead_s
            use.kv_tokens += replica.kv_token_s
            use.sampled += replica.sampled
            use.preemptions += replica.preemptions
        return use

    # ---- events ----------------------------------------------------------------------------------

    def _tell(self, event: base.Event) -> None:
        self.num_events += 1
        if type(event) is not base.Tick:
            self._quiet_ticks = 0
        for action in self._schedule.handle(event):
            self._actions[type(action)](action)
        if type(event) is base.Failed:
            job = self.ledger.jobs.get(event.trajectory_id)
            if job is not None and job.state == BROKEN:
                raise ScheduleContractError(f"{job.name} broke, and is neither retried nor dropped")

    def _after(self, seconds: float, call: Callable[[Any], None], value: Any = None) -> Any:
        event = self._env.timeout(seconds, value)
        event.callbacks.append(call)
        return event

    def _tick(self, _: Any) -> None:
        counts = self.ledger.counts
        going_on = counts[CARRIED] or self._batch or self.fleet.loading
        self._quiet_ticks = 0 if going_on else self._quiet_ticks + 1
        if self._quiet_ticks > _PATIENCE_TICKS:
            raise ScheduleContractError(
                f"the schedule is stuck at version {self.fleet.version}: nothing runs, trains or loads, "
                f"and {+counts} are known"
            )
        self._tell(base.Tick(self.now, self.now / 3600 % 24, self.fleet.loads()))
        self._after(tick_seconds(self.cluster), self._tick)

    # ---- what the schedule does with trajectories --------------------------------------------------

    def _launch(self, action: base.Launch) -> None:
        if action.group != len(self._tasks):
            raise ScheduleContractError(
                f"group {action.group} is launched where {len(self._tasks)} is next"
            )
        if action.task_of is None:
            task, self._num_tasks = self._num_tasks, self._num_tasks + 1
        elif 0 <= action.task_of < action.group:
            task = self._tasks[action.task_of]
        else:
            raise ScheduleContractError(
                f"the task of group {action.task_of} is asked for, which is none"
            )
        self._tasks.append(task)
        for member in range(action.size):
            plan = self._plans.plan(task, action.group, member)
            name = base.trajectory_id(action.group, member)
            job = Job(name, plan, self.fleet.version, self.now)
            self.ledger.launch(job)
            self._start(job, action.replica)

    def _retry(self, action: base.Retry) -> None:
        job = self.ledger.expect(action, action.trajectory_id, *LIVE)
        self._unpark(job)
        self.fleet.remove(job)
        job.restart()
        self._start(job, action.replica)

    def _start(self, job: Job, replica: int) -> None:
        job.breaks_at = -1
        if self.cluster.failure and self._rng.random() < self.cluster.failure:
            job.breaks_at = self._rng.randrange(len(job.plan.tokens))
        self.fleet.place(job, replica)

    def _park(self, action: base.Park) -> None:
        job = self.ledger.expect(action, action.trajectory_id, QUEUED, CARRIED)
        self.ledger.move(job, PARKED)
        job.parked_at = self.now
        self.fleet.remove(job)

    def _resume(self, action: base.Resume) -> None:
        job = self.ledger.expect(action, action.trajectory_id, PARKED)
        self._unpark(job)
        self.fleet.place(job, action.replica)

    def _unpark(self, job: Job) -> None:
        if job.state == PARKED:
            job.parked_s += self.now - job.parked_at

    def _migrate(self, action: base.Migrate) -> None:
        job = self.ledger.expect(action, action.trajectory_id, QUEUED, CARRIED)
        source, target = job.replica, self.fleet.alive(action.replica)
        self.fleet.remove(job)
        job.moving = source is not None and source.version == target.version
        self.fleet.place(job, action.replica)

    def _drop(self, action: base.Drop) -> None:
        job = self.ledger.expect(action, action.trajectory_id, *LIVE, FINISHED)
        if not action.reason:
            raise ScheduleContractError(f"{job.name} is dropped without a reason")
        self.ledger.drop(job, action.reason)
        self.fleet.remove(job)

    # ---- training --------------------------------------------------------------------------------

    def _emit(self, action: base.Emit) -> None:
        if self._batch:
            raise ScheduleContractError("a batch is emitted while the trainer has one")
        batch = [self.ledger.expect(action, name, FINISHED) for name in action.trajectory_ids]
        if not batch:
            raise ScheduleContractError("an empty batch is emitted")
        for job in batch:
            self.ledger.move(job, IN_BATCH)
        if self.ledger.counts[IN_BATCH] != len(batch):
            raise ScheduleContractError("a trajectory is twice in a batch")
        self._batch = batch
        self._train()

    def _train(self) -> None:
        """Starts on the batch, once no collective keeps the trainer."""
        if not self._batch or self._training is not None or self.fleet.collectives:
            return
        self.fleet.trainer_busy = True
        self.record.bars.append((self.now, self.now))
        self._work = update_seconds(self.cluster, sum(job.context for job in self._batch))
        self._schedule_end()

    def _schedule_end(self) -> None:
        self._since = self.now
        self._training = self._after(
            self._work * self.cluster.trainers / (self.cluster.trainers + self._helpers),
            self._trained,
        )

    def _trained(self, event: Any) -> None:
        if event is not self._training:
            return  # the number of helpers has changed since
        self._training = None
        batch, self._batch = self._batch, []
        self._measure(batch)
        for job in batch:
            self.ledger.move(job, TRAINED)
        fleet = self.fleet
        fleet.version += 1
        fleet.available_at = self.now + self.cluster.push_seconds
        fleet.trainer_busy = False
        if fleet.version == self._updates:
            self._over.succeed()
            return
        fleet.start_collectives()
        self._tell(base.Trained(fleet.version))

    def _publish(self, action: base.Publish) -> None:
        if action.replicas is None:
            numbers = tuple(replica.number for replica in self.fleet.living())
        else:
            numbers = action.replicas
        self.fleet.publish(numbers, action.mode)

    def _assign(self, action: base.Assign) -> None:
        replica = self.fleet.alive(action.replica)
        train = action.role == "train"
        if replica.training == train:
            return
        self.fleet.assign(replica, train=train)
        self._rescale(1 if train else -1)

    def _rescale(self, helpers: int) -> None:
        """More or fewer machines train: what is left of the update goes on at another pace."""
        if self._training is not None:
            share = self.cluster.trainers / (self.cluster.trainers + self._helpers)
            self._work -= (self.now - self._since) / share
        self._helpers += helpers
        if self._training is not None:
            self._schedule_end()

    def _halt(self, action: base.Halt) -> None:
        raise ScheduleContractError(f"the schedule gives up: {action.reason}")

    # ---- measuring -------------------------------------------------------------------------------

    def _measure(self, batch: list[Job]) -> None:
        record, now = self.record, self.now
        start = record.bars[-1][0]
        record.bars[-1] = (start, now)
        version = self.fleet.version
        if version + 1 <= record.warmup:
            if version + 1 == record.warmup:
                self._begin_measuring()
            return
        record.updates.append(now - record.ended)
        record.ended = now
        record.trainer_busy += now - start
        for job in batch:
            record.staleness[version - job.version] += 1
            record.mixed += job.first_version != job.last_version
            record.tokens += job.sampled
            record.context_tokens += job.context
            record.waits.append(job.started_at - job.launched_at)
            record.lives += start - job.launched_at
            record.parked += job.parked_s
        record.trajectories += len(batch)

    def _begin_measuring(self) -> None:
        self.record.began = self.record.ended = self.now
        self.record.use = self.use()

    # ---- life and death --------------------------------------------------------------------------

    def _fate(self, number: int) -> None:
        self._after(self._rng.expovariate(1 / (3600 * self.cluster.death_hours)), self._die, number)

    def _die(self, event: Any) -> None:
        replica = self.fleet.replicas[event.value]
        if len(self.fleet.living()) == 1:
            self._fate(event.value)  # the last one is spared: with it the run would end
            return
        if replica.training:
            self._rescale(-1)
        self.fleet.kill(replica)
        self._after(self.cluster.repair_seconds, self._repaired, event.value)

    def _repaired(self, event: Any) -> None:
        self._fate(event.value)
        self.fleet.revive(self.fleet.replicas[event.value])
