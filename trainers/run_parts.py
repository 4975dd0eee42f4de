"""What a run on one machine is put together from, and what a restart does with the ledger."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from agentic_gym.engines.replicas import ReplicaSet
from agentic_gym.errors import ConfigError
from agentic_gym.rewards.rubric import Rubric
from agentic_gym.rollout import Rollout
from agentic_gym.store import RunStore
from agentic_gym.trainers.live_weights import LiveWeights
from agentic_gym.trainers.ordering import LongestFirst
from agentic_gym.trainers.publisher import WeightPublisher
from agentic_gym.trainers.relays.network import RelayNetwork
from agentic_gym.trainers.schedules import base
from agentic_gym.trainers.selection import TaskSelector
from agentic_gym.trainers.selection.filters import TrajectoryFilter
from agentic_gym.trainers.selection.refill import Refill

STATE = "runtime"
"""Key of the conductor's state in the store."""

SERVED = "served"
"""Key of the versions that the replicas serve."""


@dataclass(frozen=True, slots=True)
class Run:
    """What a conductor works with.

    Attributes:
        rollout: plays episodes.
        schedule: decides.
        tasks: gives each group its task.
        rubric: custom rewards, added to those of the environment; None for none.
        refill: refuses finished groups that carry no signal; None: none is.
        group_size: trajectories with which a group is judged; read with ``refill``.
        filter: drops trajectories of a batch; None: none is.
        store: of the run.
        replicas: of the engine; None where agents have no engine.
        publisher: loads weights and proves them; None where nothing is published.
        slots: episodes at once.
        seed: of the run.
        options: makes the options of ``env.reset`` from a task id.
        order: of queued episodes; None: as they were launched.
        live: keeps weights that replicas go on serving after the trainer has moved on; None: nothing is kept,
            and after a restart all replicas start from the newest.
        relays: carry new weights to the replicas; None: a replica takes them from the trainer's memory.
        stall_s: seconds without any progress after which the run ends with a report of who waits for whom.
        tick_s: seconds between ticks: of the schedule, and of what is saved of running episodes.

    Raises:
        ConfigError: there are relays, and nothing for them to carry or nobody to carry it to.
    """

    rollout: Rollout
    schedule: base.Schedule
    tasks: TaskSelector
    store: RunStore
    replicas: ReplicaSet | None = None
    publisher: WeightPublisher | None = None
    slots: int = 16
    seed: int = 0
    options: Callable[[str], Mapping[str, Any]] = lambda task_id: {"task_id": task_id}
    order: LongestFirst | None = None
    rubric: Rubric | None = None
    refill: Refill | None = None
    group_size: int = 1
    filter: TrajectoryFilter | None = None
    live: LiveWeights | None = None
    relays: RelayNetwork | None = None
    stall_s: float = 900.0
    tick_s: float = 1.0

    def __post_init__(self) -> None:
        if self.relays is not None and (self.replicas is None or self.publisher is None):
            raise ConfigError(
                "relays carry weights to replicas of the engine: give replicas and a publisher too"
            )
