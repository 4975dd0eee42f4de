"""Which schedule, from what a run measured: pure functions.

The rule asks for consistency first, because that is what a user cannot give away: strictly on-policy leaves
tail batching; one version a trajectory leaves DORA, or Laminar where nodes come and go; mixed versions allow
asynchrony with interrupts. The popular tree, which asks for the length of the tail first, is ``rule="seed"``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, Literal

from agentic_gym.metrics import percentiles
from agentic_gym.trainers.schedules.redundancy import BinomialQuantile

Consistency = Literal["strict", "single_version", "mixed"]
"""What a batch may be sampled by: the weights that it trains (``strict``); older ones, but one version a
trajectory; or several in one trajectory."""

LONG = 3.0
"""An episode is long when it takes more than so many times the median."""

HEARTBEAT_S = 0.2
"""Of a weight relay; 0.1 to 0.2 s in practice (Laminar)."""

RUN_DRY = ("streaming", "relay")
"""Schedules under which a replica loads new weights only when it runs nothing."""

CYCLE = 5
"""Updates after which the boldest candidate repeats itself: one more than its window or staleness of 4. So
many are warm-up (docs/simulation.md), and so many must be measured before idleness means anything."""

GAIN = 0.05
"""A throughput that is better by less is no better: neither staleness nor a replica is worth it."""

_KEEPS = {
    "mixed": 0, "bounded_async": 0,
    "single_version": 1, "streaming": 1, "relay": 1,
    "strict": 2, "tail_batching": 2, "sync": 2,
}  # fmt: skip
_BUFFER_BATCHES = 10
_SEED_TAIL, _SEED_NODES = 0.3, 50


@dataclass(frozen=True, slots=True)
class Facts:
    """What a choice is made from.

    Attributes:
        episodes: that were measured.
        tail: share of them that are long.
        seconds: P50, P90 and P99 of an episode.
        nodes: machines that serve the policy.
        elastic: nodes come and go.
        consistency: that the user needs.
    """

    episodes: int
    tail: float
    seconds: Mapping[str, float]
    nodes: int
    elastic: bool
    consistency: Consistency


@dataclass(frozen=True, slots=True)
class Choice:
    """A schedule, and why.

    Attributes:
        schedule: its name.
        why: one sentence.
    """

    schedule: str
    why: str


def measure(
    seconds: Sequence[float], *, nodes: int, elastic: bool, consistency: Consistency
) -> Facts:
    """Facts from the seconds that episodes took."""
    cut = LONG * median(seconds)
    tail = sum(value > cut for value in seconds) / len(seconds)
    return Facts(len(seconds), tail, percentiles(seconds), nodes, elastic, consistency)


def choose(facts: Facts, rule: Literal["consistency", "seed"] = "consistency") -> Choice:
    """The schedule that a rule names."""
    if rule == "seed":
        found = _seed(facts)
        if _KEEPS[found.schedule] < _KEEPS[facts.consistency]:
            return Choice(found.schedule, f"{found.why}; it does not keep {facts.consistency!r}")
        return found
    if facts.consistency == "strict":
        return Choice(
            "tail_batching", "strictly on-policy: only redundancy and the order of rounds are free"
        )
    if facts.consistency == "mixed":
        return Choice("bounded_async", "versions may mix within a trajectory: nothing has to wait")
    if facts.elastic:
        return Choice(
            "relay", "one version a trajectory, and nodes come and go: replicas pull when they can"
        )
    return Choice("streaming", "one version a trajectory: several versions live side by side")


def _seed(facts: Facts) -> Choice:
    """The popular tree."""
    if facts.tail > _SEED_TAIL:
        if facts.nodes > _SEED_NODES:
            return Choice(
                "relay", f"long tail over {_SEED_TAIL:.0%} and more than {_SEED_NODES} nodes"
            )
        return Choice("streaming", f"long tail over {_SEED_TAIL:.0%} on few nodes")
    if facts.consistency == "strict":
        return Choice("tail_batching", f"long tail up to {_SEED_TAIL:.0%}, strict")
    return Choice("bounded_async", f"long tail up to {_SEED_TAIL:.0%}, not strict")


def candidates(batch_size: int, group_size: int, tail: float) -> dict[str, list[dict[str, Any]]]:
    """Options of each schedule that are worth a simulation, from the mildest to the boldest."""
    prompts = batch_size // group_size
    launches = BinomialQuantile().launches(prompts, min(tail, 0.9))
    buffer = _BUFFER_BATCHES * batch_size
    return {
        "sync": [{}],
        "tail_batching": [{"prompt_redundancy": round(launches / prompts, 3)}],
        "bounded_async": [{"max_staleness": eta} for eta in (1, 2, 3, 4)],
        "streaming": [{"window": window} for window in (1, 2, 3, 4)],
        "relay": [{"max_staleness": eta, "buffer_size": buffer} for eta in (1, 2, 3, 4)],
    }


def replica_counts(schedule: str, replicas: int) -> tuple[int, ...]:
    """Replicas that are worth a simulation, the fewest first.

    Where an episode keeps its version, a replica loads new weights once it has run dry, and a single one
    keeps all episodes from the new weights meanwhile. So two on the same machine are tried beside one.

    >>> replica_counts("streaming", 1), replica_counts("streaming", 4), replica_counts("sync", 1)
    ((1, 2), (4,), (1,))
    """
    return (1, 2) if replicas == 1 and schedule in RUN_DRY else (replicas,)


def mildest(throughputs: Sequence[float], *, slack: float = GAIN) -> int:
    """Index of the first that comes within ``slack`` of the best: staleness that buys nothing is not taken.

    >>> mildest([1.0, 1.9, 1.99, 2.0])
    1
    """
    best = max(throughputs)
    return next(i for i, value in enumerate(throughputs) if value >= (1 - slack) * best)
