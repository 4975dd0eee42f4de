"""Repacking: gathers the last trajectories of draining replicas on few of them, and so empties the others.

Source: Laminar (arXiv 2510.12633), the best-fit consolidation that its relay workers allow. A replica that
has given out its batch and waits for its long tail holds little KV cache and decodes far below the
roofline: whatever it runs costs the same time beside the tail of another. Moving a replica only in part
was rejected: it frees nothing, because only an empty replica can take new weights.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from agentic_gym.errors import ConfigError


@dataclass(frozen=True, slots=True)
class ReplicaUse:
    """What a replica holds.

    Attributes:
        replica: its number.
        version: of the weights that it serves.
        requests: trajectories that it runs.
        kv_used: tokens in its KV cache.
        kv_previous: the same before, to tell whether its use goes down.
        kv_capacity: tokens that fit.
    """

    replica: int
    version: int
    requests: int
    kv_used: int
    kv_previous: int
    kv_capacity: int


@dataclass(frozen=True, slots=True)
class Move:
    """All that ``source`` runs goes to ``destination``, which serves the same version."""

    source: int
    destination: int


def is_idle(use: ReplicaUse, roofline_batch: int) -> bool:
    """Its KV use goes down, and it runs too little to be worth its place."""
    falling = use.kv_used < min(use.kv_capacity, use.kv_previous)
    return 0 < use.requests < roofline_batch and falling


def plan_repack(replicas: Iterable[ReplicaUse], roofline_batch: int) -> list[Move]:
    """Which replicas to empty, and where to.

    For each version: idle replicas, the one with the least in its KV cache first, are moved whole to the
    replica on which the largest load results, of those where it fits in the KV cache and in the roofline
    batch. A replica that has received something is not emptied any more, and one that was emptied, or was
    empty, receives nothing: otherwise a trajectory would move twice, or no replica be freed. Ties go to
    the lower number.

    Args:
        replicas: all of them, in any order.
        roofline_batch: trajectories up to which decoding is bound by memory, so that more cost no time.

    Returns:
        Moves, in the order in which they are to be made; the same for the same input in another order.

    Raises:
        ConfigError: a replica is given twice, or the batch is not positive.
    """
    if roofline_batch < 1:
        raise ConfigError(f"roofline_batch={roofline_batch} must be positive")
    ordered = sorted(replicas, key=lambda use: (use.version, use.kv_used, use.replica))
    numbers = [use.replica for use in ordered]
    if len(set(numbers)) < len(numbers):
        raise ConfigError(f"replicas {sorted(numbers)}: give each of them once")
    moves: list[Move] = []
    for _, same_version in groupby(ordered, key=lambda use: use.version):
        moves += _plan_version(list(same_version), roofline_batch)
    return moves


def _plan_version(uses: Sequence[ReplicaUse], roofline_batch: int) -> list[Move]:
    """Moves among replicas of one version, which come with the least used first."""
    kv = {use.replica: use.kv_used for use in uses}
    requests = {use.replica: use.requests for use in uses}
    open_to = {use.replica: use for use in uses if use.requests}  # neither empty nor emptied
    received: set[int] = set()
    moves: list[Move] = []
    for use in uses:
        source = use.replica
        if source in received or not is_idle(use, roofline_batch):
            continue
        feasible = [
            number
            for number, other in open_to.items()
            if number != source
            and kv[number] + use.kv_used <= other.kv_capacity
            and requests[number] + use.requests <= roofline_batch
        ]
        if not feasible:
            continue
        fullest = min(feasible, key=lambda number: (-kv[number], number))
        kv[fullest] += use.kv_used
        requests[fullest] += use.requests
        received.add(fullest)
        del open_to[source]
        moves.append(Move(source, fullest))
    return moves
