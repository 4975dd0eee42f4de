"""One trajectory of a modelled run (:mod:`agentic_gym.trainers.schedules.model_run`)."""

from __future__ import annotations

from dataclasses import dataclass, field

from agentic_gym.trainers.schedules.base import ANY


@dataclass(slots=True)
class Episode:
    """One trajectory in the model.

    Attributes:
        name: of it.
        length: seconds that it takes.
        launched_at: version of the trainer then.
        left: seconds that it still takes.
        breaks_at: of ``left``; negative: never.
        state: "waiting", "running", "parked", "broken", "late" (finished, and the schedule does not know
            yet), "finished", "refused" (with its group, as its last), "batch", "trained" or "dropped".
        versions: of the weights that it was sampled from, in the order in which they were.
        replica: that serves it.
        placed: by the schedule, not by the driver.
        staleness: when it was trained.
        reason: why it was dropped.
    """

    name: str
    length: float
    launched_at: int
    left: float
    breaks_at: float = -1.0
    state: str = "waiting"
    versions: list[int] = field(default_factory=list)
    replica: int = ANY
    placed: bool = False
    staleness: int = 0
    reason: str = ""

    @property
    def version(self) -> int:
        """Its oldest."""
        return min(self.versions, default=self.launched_at)
