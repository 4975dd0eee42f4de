"""A run in memory: ledger, episodes of random length, replicas and trainer, and everything that can go wrong.

:func:`~agentic_gym.trainers.schedules.checking.check_schedule` drives a schedule with it.
"""

from __future__ import annotations

import json
import random
from collections import deque
from collections.abc import Callable

from agentic_gym.errors import ScheduleContractError
from agentic_gym.trainers.schedules import base
from agentic_gym.trainers.schedules.base import ANY, Schedule
from agentic_gym.trainers.schedules.model_episode import Episode
from agentic_gym.trainers.schedules.model_refusals import REASON, Refusals
from agentic_gym.trainers.schedules.promises import Promises, Weather
from agentic_gym.trainers.schedules.staging import StageCheck

_PATIENCE_TICKS = 600
"""Ticks in a row after which a schedule that waits for nothing is stuck."""


class ModelRun:
    """A run in memory: ledger, episodes, replicas and trainer."""

    def __init__(
        self,
        make: Callable[[], Schedule],
        promises: Promises,
        weather: Weather,
        rng: random.Random,
        slots: int,
        replicas: int,
        length: Callable[[random.Random], float],
        train_seconds: float,
    ) -> None:
        self.make, self.promises, self.weather = make, promises, weather
        self.rng, self.slots, self.length = rng, slots, length
        self.train_seconds = train_seconds
        self.now = 0.0
        self.version = 0
        self.episodes: dict[str, Episode] = {}
        self.batches: list[tuple[str, ...]] = []
        self.replicas = dict.fromkeys(range(replicas), 0)
        self.dead: dict[int, float] = {}  # when each comes back
        self.newest_served = 0
        self.behind: set[int] = set()  # back with older weights than these, and not loaded yet
        self.training: tuple[float, tuple[str, ...]] | None = None
        self.publishing: dict[int, float] = {}
        self.echoes: deque[base.Event] = deque()
        self.stages = StageCheck(promises.group_size, self._breach)
        self.refusals = Refusals(weather.refusal, promises.group_size, rng, self._breach)
        self.next_group = 0
        self.idle_ticks = 0
        self.last_tick = 0.0
        self.event: base.Event = base.Begun()
        self.schedule = make()
        self.saved = "{}"

    # ---- the loop --------------------------------------------------------------------------------

    def run(self, updates: int) -> None:
        """Goes on until the trainer has made so many updates."""
        self.saved = json.dumps(self.schedule.state_dict())
        self._send(base.Begun(replicas=dict(self.replicas)))
        while self.version < updates:
            self._start_waiting()
            self._send(self._next_event())
            self._misfortune()
        self._check_waits()

    def _next_event(self) -> base.Event:
        """Lets time pass until something happens."""
        if self.echoes and self.rng.random() < 0.5:
            return self._echo()
        running = [e for e in self.episodes.values() if e.state == "running"]
        times: list[tuple[float, int, object]] = [
            (max(0.0, episode.left - max(0.0, episode.breaks_at)), 0, episode)
            for episode in running
        ]
        if self.training is not None:
            times.append((max(0.0, self.training[0] - self.now), 1, None))
        for replica, at in self.publishing.items():
            times.append((max(0.0, at - self.now), 2, replica))
        if times:
            for replica, at in self.dead.items():
                times.append((max(0.0, at - self.now), 3, replica))
        times.append((max(0.0, self.last_tick + 1.0 - self.now), 4, None))
        wait, kind, what = min(times, key=lambda item: (item[0], item[1]))
        self.now += wait
        for episode in running:
            episode.left -= wait
        if kind != 4:
            self.idle_ticks = 0
        if isinstance(what, Episode):
            return self._end(what)
        if kind == 1:
            return self._trained()
        if isinstance(what, int):
            return self._published(what) if kind == 2 else self._revive(what)
        return self._tick()

    def _echo(self) -> base.Event:
        event = self.echoes.popleft()
        if isinstance(event, base.Finished):
            episode = self.episodes[event.trajectory_id]
            if episode.state == "late":
                return self.refusals.told(episode, self.episodes)
        return event

    def _end(self, episode: Episode) -> base.Event:
        if episode.breaks_at >= 0:
            episode.state = "broken"
            event: base.Event = base.Failed(episode.name, "sandbox died")
        else:
            event = self.refusals.told(episode, self.episodes)
        if self.rng.random() < self.weather.echo:
            self.echoes.append(event)
        return event

    def _come_late(self, episode: Episode) -> None:
        """It has finished, and the schedule is told later."""
        episode.state, episode.left = "late", 0.0
        self.echoes.append(base.Finished(episode.name, episode.length))

    def _trained(self) -> base.Event:
        assert self.training is not None
        for name in self.training[1]:
            self.episodes[name].state = "trained"
        self.training, self.version = None, self.version + 1
        self.stages.trained()
        return base.Trained(self.version)

    def _published(self, replica: int) -> base.Event:
        del self.publishing[replica]
        self.behind.discard(replica)
        self.replicas[replica] = self.newest_served = self.version
        for episode in self.episodes.values():
            if episode.state == "running" and episode.replica == replica:
                self._sampled_by(episode, self.version)
        return base.Published(self.version, replica)

    def _tick(self) -> base.Event:
        self.last_tick = self.now
        self.idle_ticks += 1
        if self.idle_ticks > _PATIENCE_TICKS:
            raise self._breach("the schedule is stuck: it waits, and nothing is on its way")
        loads = {
            replica: base.ReplicaLoad(sum(1 for _ in self._running(replica)) * 100, self.slots * 60)
            for replica in self.replicas
        }
        return base.Tick(self.now, self.now / 3600 % 24, loads)

    def _send(self, event: base.Event) -> None:
        self.event = event
        for action in self.schedule.handle(event):
            self._apply(action)
        self._check_conservation()
        self.refusals.check()

    # ---- misfortune ------------------------------------------------------------------------------

    def _misfortune(self) -> None:
        if self.rng.random() < self.weather.death and len(self.replicas) > 1:
            self._kill(self.rng.choice(sorted(self.replicas)))
        if self.rng.random() < self.weather.restart:
            self._restart()

    def _kill(self, replica: int) -> None:
        lost = list(self._running(replica))
        del self.replicas[replica]
        self.publishing.pop(replica, None)
        self.behind.discard(replica)
        self.dead[replica] = self.now + self.rng.expovariate(0.3)
        for episode in lost:
            episode.state = "parked" if episode.placed else "waiting"
        for episode in self.episodes.values():
            if episode.state == "waiting" and episode.replica == replica:
                episode.replica = ANY
                episode.state = "parked" if episode.placed else "waiting"
        self._send(base.ReplicaDown(replica))
        for episode in lost:
            # It may have been resumed meanwhile; what was retried has no versions yet.
            is_there = (
                episode.state in {"parked", "waiting"} and episode.placed and episode.versions
            )
            if is_there and episode.breaks_at < 0 and self.rng.random() < self.weather.echo:
                self._send(self.refusals.told(episode, self.episodes))  # its result was on the way

    def _revive(self, replica: int) -> base.Event:
        """It is back with the newest weights, or with those of some earlier time."""
        del self.dead[replica]
        version = self.rng.choice([self.version, self.rng.randint(0, self.version)])
        if version < self.newest_served:
            self.behind.add(replica)
        self.replicas[replica], self.newest_served = version, max(version, self.newest_served)
        return base.ReplicaUp(replica, version)

    def _restart(self) -> None:
        """The process dies; what the ledger has is taken up again."""
        if self.training is not None:  # recorded before it was handed over: trained before rolling
            self._trained()
        self.publishing.clear()
        self.echoes.clear()
        for replica in [*self.replicas, *self.dead]:
            self.replicas[replica] = self.version
        self.newest_served = self.version
        self.dead.clear()
        self.behind.clear()
        parked, finished = [], []
        for episode in self.episodes.values():
            known = base.Known(episode.name, episode.version)
            if episode.state in {"waiting", "running", "broken", "parked"}:
                episode.state = "parked"
                parked.append(known)
            elif episode.state == "late" and self.refusals.may_follow():
                parked.append(known)
                self._come_late(episode)
            elif episode.state in {"late", "finished"}:
                episode.state = "finished"
                finished.append(known)
        self.rng.shuffle(finished)
        self.stages.forget()
        self.schedule = self.make()
        self.schedule.load_state_dict(json.loads(self.saved))
        self._send(base.Begun(parked, finished, self.next_group, self.version, dict(self.replicas)))

    # ---- actions ---------------------------------------------------------------------------------

    def _apply(self, action: base.Action) -> None:
        match action:
            case base.Launch():
                self._launch(action)
            case base.Retry(name, replica):
                states = "waiting", "running", "broken", "parked", "late"
                episode = self._expect(action, name, *states)
                if episode.state != "late":
                    episode.versions.clear()
                    self._attempt(episode)
                self._wait(episode, replica)
            case base.Resume(name, replica):
                self._wait(self._expect(action, name, "parked", "late"), replica)
            case base.Park(name):
                episode = self._expect(action, name, "waiting", "running", "late")
                if episode.state == "late":
                    return
                ran, episode.state = episode.state == "running", "parked"
                if ran and self.rng.random() < self.weather.echo:  # its result was on the way
                    if episode.breaks_at >= 0:
                        self.echoes.append(base.Failed(name, "sandbox died"))
                        return
                    self._sampled_by(episode, self.replicas.get(episode.replica, self.version))
                    self._come_late(episode)
            case base.Migrate(name, replica):
                self._wait(self._expect(action, name, "waiting", "running", "late"), replica)
            case base.Drop(name, reason):
                self._drop(action, name, reason)
            case base.Stage(names):
                self.stages.staged([self._expect(action, n, "finished").name for n in names])
            case base.Emit(names):
                self._emit(names)
            case base.Publish(replicas, _):
                self._publish(replicas)
            case base.Halt(reason):
                raise self._breach(f"the schedule halts: {reason}")
            case base.Assign():
                pass

    def _launch(self, action: base.Launch) -> None:
        if action.group != self.next_group:
            raise self._breach(f"group {action.group} is launched where {self.next_group} is next")
        if action.task_of is not None and not 0 <= action.task_of < action.group:
            raise self._breach(f"the task of group {action.task_of} is asked for, which is none")
        self.next_group += 1
        for member in range(action.size):
            name = base.trajectory_id(action.group, member)
            episode = Episode(name, self.length(self.rng), self.version, 0.0)
            self.episodes[name] = episode
            self._attempt(episode)
            self._wait(episode, action.replica)
        self.saved = json.dumps(self.schedule.state_dict())

    def _attempt(self, episode: Episode) -> None:
        episode.left = episode.length
        breaks = self.rng.random() < self.weather.failure
        episode.breaks_at = self.rng.random() * episode.length if breaks else -1.0

    def _wait(self, episode: Episode, replica: int) -> None:
        if replica != ANY and replica not in self.replicas:
            raise self._breach(f"{episode.name} is sent to replica {replica}, which is gone")
        if episode.state != "late":  # what has finished meanwhile is left as it is
            episode.state, episode.replica, episode.placed = "waiting", replica, replica != ANY

    def _start_waiting(self) -> None:
        free = self.slots - sum(1 for e in self.episodes.values() if e.state == "running")
        taken = self.replicas.keys() - self.behind  # of these the driver takes one
        waiting = [e for e in self.episodes.values() if e.state == "waiting"]
        ready = [e for e in waiting if taken or e.placed]
        for episode in ready[: max(0, free)]:
            if episode.replica == ANY:
                episode.replica = min(taken, key=lambda r: (len(self._running(r)), r))
            episode.state = "running"
            self._sampled_by(episode, self.replicas[episode.replica])

    def _sampled_by(self, episode: Episode, version: int) -> None:
        if version not in episode.versions:
            episode.versions.append(version)
        if self.promises.single_version and len(episode.versions) > 1:
            raise self._breach(
                f"{episode.name} is sampled by versions {episode.versions}: one was promised"
            )

    def _drop(self, action: base.Action, name: str, reason: str) -> None:
        states = "waiting", "running", "broken", "parked", "late", "finished", "refused"
        episode = self._expect(action, name, *states)
        self.refusals.dropped(episode, reason)
        if not reason:
            raise self._breach(f"{name} is dropped without a reason")
        excused = ("broke", "not whole", REASON)
        if self.promises.keeps_all and not any(word in reason for word in excused):
            raise self._breach(f"{name} is dropped ({reason}), although nothing broke")
        if self.rng.random() < self.weather.echo:
            self.echoes.append(base.Finished(name, episode.length))
        episode.state, episode.reason = "dropped", reason

    def _emit(self, names: tuple[str, ...]) -> None:
        if self.training is not None:
            raise self._breach("a batch is emitted while the trainer has one")
        if len(names) != self.promises.batch_size or len(set(names)) != len(names):
            raise self._breach(f"a batch of {len(names)}: {names}")
        groups: dict[int, int] = {}
        for name in names:
            episode = self._expect(base.Emit(names), name, "finished")
            episode.state, episode.staleness = "batch", self.version - episode.version
            limit = self.promises.max_staleness
            if limit is not None and episode.staleness > limit:
                raise self._breach(f"{name} is trained {episode.staleness} updates late ({limit})")
            group = base.parse_id(name)[0]
            groups[group] = groups.get(group, 0) + 1
        if set(groups.values()) != {self.promises.group_size}:
            raise self._breach(f"a batch of groups of {sorted(set(groups.values()))}")
        self.stages.emitted(names)
        self.batches.append(names)
        self.training = (self.now + self.train_seconds * (0.5 + self.rng.random()), names)

    def _publish(self, replicas: tuple[int, ...] | None) -> None:
        for replica in self.replicas if replicas is None else replicas:
            if replica not in self.replicas:
                raise self._breach(f"weights are published to replica {replica}, which is gone")
            if self.promises.single_version and any(self._running(replica)):
                raise self._breach(f"weights are published under what replica {replica} runs")
            self.publishing[replica] = self.now + self.rng.random() * 0.2

    # ---- checks ----------------------------------------------------------------------------------

    def _running(self, replica: int) -> list[Episode]:
        return [e for e in self.episodes.values() if e.state == "running" and e.replica == replica]

    def _expect(self, action: base.Action, name: str, *states: str) -> Episode:
        episode = self.episodes.get(name)
        if episode is None:
            raise self._breach(f"{action} of a trajectory that was never launched")
        if episode.state not in states:
            raise self._breach(f"{action} of a trajectory that is {episode.state}")
        return episode

    def _check_conservation(self) -> None:
        in_hand = [e for e in self.episodes.values() if e.state == "broken"]
        if in_hand:
            raise self._breach(f"{in_hand[0].name} broke, and is neither retried nor dropped")

    def _check_waits(self) -> None:
        limit = self.promises.max_wait
        if limit is None:
            return
        for episode in self.episodes.values():
            over = episode.state not in {"trained", "dropped", "batch"}
            if over and self.version - episode.launched_at > limit:
                raise self._breach(
                    f"{episode.name} was launched {self.version - episode.launched_at} updates ago and "
                    f"is still {episode.state} (promised: {limit})"
                )
        for number, batch in enumerate(self.batches):
            for name in batch:
                if number - self.episodes[name].launched_at > limit:
                    raise self._breach(
                        f"{name} was launched at version {self.episodes[name].launched_at} and trained "
                        f"by update {number + 1} (promised: {limit})"
                    )

    def _breach(self, what: str) -> ScheduleContractError:
        return ScheduleContractError(f"{what}; after {self.event} at version {self.version}")
