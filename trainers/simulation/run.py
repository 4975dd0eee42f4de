"""A simulated run from its settings."""

from __future__ import annotations

from agentic_gym.trainers.schedules.base import Schedule
from agentic_gym.trainers.schedules.registry import make_schedule, schedule_options
from agentic_gym.trainers.simulation.driver import Simulation
from agentic_gym.trainers.simulation.settings import SimulateConfig
from agentic_gym.trainers.simulation.trace import read_trace
from agentic_gym.trainers.simulation.workload import LognormalPlans, Plans


def simulate(config: SimulateConfig, plans: Plans | None = None) -> Simulation:
    """Simulates what the settings say; returns the run, which is over.

    Args:
        config: the settings.
        plans: what trajectories do, where a trace is read once for many runs; None: as the settings say.

    Raises:
        ConfigError: the schedule or an option of it is unknown or out of range, there is no such trace, or a
            trajectory may be longer than a replica's KV cache.
        StoreError: the trace is no store of a run.
        ScheduleContractError: the schedule gave up, or broke its contract.
    """
    if plans is None:
        plans = (
            LognormalPlans(config.workload, config.seed)
            if config.trace is None
            else read_trace(config.trace, config.seed)
        )
    simulation = Simulation(
        schedule_of(config),
        config.cluster,
        plans,
        seed=config.seed,
        updates=config.updates,
        warmup=config.warmup,
        picture=config.gantt is not None,
    )
    simulation.run()
    return simulation


def schedule_of(config: SimulateConfig) -> Schedule:
    """The schedule of these settings.

    Raises:
        ConfigError: it or one of its options is unknown, or a value is out of range.
    """
    cluster = config.cluster
    options = dict(config.schedule_options)
    if "roofline_batch" in schedule_options(config.schedule):
        options.setdefault("roofline_batch", cluster.roofline_batch)
    return make_schedule(
        config.schedule,
        config.batch_size,
        config.group_size,
        config.concurrency or cluster.replicas * cluster.max_concurrent,
        cluster.replicas,
        **options,
    )
