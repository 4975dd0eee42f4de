"""What a schedule is held to, and in what weather."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Promises:
    """What a schedule promises besides the contract.

    Attributes:
        batch_size: trajectories of every batch.
        group_size: of every group in a batch.
        max_staleness: updates that a trained trajectory's oldest weights may be behind the trainer's.
        max_wait: updates between the launch of a trajectory and its end in a batch or a drop.
        single_version: all of a trajectory is sampled by one version.
        keeps_all: nothing is dropped but what broke or was refused, or what a restart found incomplete.
    """

    batch_size: int
    group_size: int = 1
    max_staleness: int | None = None
    max_wait: int | None = None
    single_version: bool = False
    keeps_all: bool = True


@dataclass(frozen=True, slots=True)
class Weather:
    """What goes wrong, or is wanted otherwise, as probabilities.

    Attributes:
        failure: that an episode breaks, for each attempt.
        death: that a replica dies, for each event; one always lives. It comes back, perhaps with old weights.
        restart: that the run is killed and resumed, for each event.
        echo: that a result, or a failure, comes again later, or for a trajectory that was parked or dropped
            meanwhile.
        refusal: that a group is refused when its last member finishes; less than 1.
    """

    failure: float = 0.0
    death: float = 0.0
    restart: float = 0.0
    echo: float = 0.0
    refusal: float = 0.0
