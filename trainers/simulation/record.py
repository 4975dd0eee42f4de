"""What is measured while a simulated run goes on."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field


@dataclass(slots=True)
class Use:
    """Seconds of all replicas together, up to some time.

    Attributes:
        busy, publish, lent, dead: as in :class:`~agentic_gym.trainers.simulation.replica.Replica`.
        kv_tokens: integral of the cached tokens, in token seconds.
        sampled: tokens.
        preemptions: of running requests.
    """

    busy: float = 0.0
    publish: float = 0.0
    lent: float = 0.0
    dead: float = 0.0
    kv_tokens: float = 0.0
    sampled: float = 0.0
    preemptions: int = 0


@dataclass(slots=True)
class Record:
    """Measurements, of the updates after the warm-up where nothing else is said.

    Attributes:
        warmup: updates at the start that are left out.
        began: when the last of them was trained.
        ended: when the last update was trained.
        updates: seconds of each update, from the end of the one before.
        trajectories, tokens, context_tokens: trained; tokens are the sampled ones, the others include
            prompts and observations.
        staleness: trained trajectories by updates that they were behind the trainer.
        mixed: trained trajectories that more than one version sampled.
        waits: seconds between the launch of a trained trajectory and its first request's admission.
        lives: seconds from launch to batch, summed over trained trajectories.
        parked: seconds of those in which they were parked.
        trainer_busy: seconds of training.
        bars: (start, end) of each update's training, the warm-up's too.
        use: of the replicas, when the warm-up ended.
    """

    warmup: int = 0
    began: float = 0.0
    ended: float = 0.0
    updates: list[float] = field(default_factory=list)
    trajectories: int = 0
    tokens: int = 0
    context_tokens: float = 0.0
    staleness: Counter[int] = field(default_factory=Counter)
    mixed: int = 0
    waits: list[float] = field(default_factory=list)
    lives: float = 0.0
    parked: float = 0.0
    trainer_busy: float = 0.0
    bars: list[tuple[float, float]] = field(default_factory=list)
    use: Use = field(default_factory=Use)
