"""The machines of a simulated cluster: what a decode step, a prefill, a publish and an update cost.

One *replica* is one copy of the policy in an engine, on however many accelerators it takes. The cost of a
decode step is that of a transformer whose weights are read once a step: flat until the arithmetic of the
batch takes longer than reading the weights (the roofline batch), linear beyond; and reading the KV cache
of everything in the batch comes on top.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from agentic_gym.config import ReadWhen, StrictConfig

Positive = Annotated[int, Field(gt=0)]
Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Rate = Annotated[float, Field(gt=0, allow_inf_nan=False)]

DEFAULT_STEP = 0.02
"""Seconds of a decode step where nobody says otherwise."""

HEADROOM = 0.02
"""Share of the KV cache that is left free when a request is admitted: without it, a request that was just
preempted would be admitted again at once, as long as the cache is full."""


class Cluster(StrictConfig):
    """A cluster. The defaults are roughly one 7B model on one recent data-centre GPU a replica.

    Attributes:
        replicas: of the engine.
        max_concurrent: trajectories that a replica carries at once, those in a tool call too; more wait.
        step_seconds: of a decode step up to the roofline batch; 0: as the trace says, or 0.02 without one.
        roofline_batch: requests up to which a decode step takes as long as one request's; beyond, the step
            grows in proportion to the batch.
        kv_seconds_per_token: that reading one cached token adds to every step.
        kv_capacity: tokens that a replica's KV cache holds. A request that does not fit waits; when the
            cache fills up, prefixes kept for trajectories in tool calls go first (the oldest first), then
            the request admitted last is preempted and prefilled again later, as vLLM does.
        prefill_tokens_per_s: of a replica; its decoding stands still meanwhile.
        migrate_tokens_per_s: at which the KV cache of a moved trajectory reaches a replica that serves the
            same version; 0: it is prefilled there.
        transfer: how new weights travel. broadcast: a collective of the trainer and all replicas that were
            named together; it starts when the last of them is ready, and the trainer takes part. relay: the
            trainer pushes once, and each replica pulls when it is ready (Laminar, section 4).
        transfer_seconds: that loading takes; the replica does nothing else meanwhile.
        push_seconds: from the end of an update until the relays have its weights.
        train_seconds: of an update, whatever its size.
        train_seconds_per_token: of an update, prompts and observations included, with all trainers.
        trainers: machines that train, in replicas' worth; a replica that is assigned to train adds one.
        failure: probability that an attempt at a trajectory breaks.
        death_hours: mean hours between two deaths of a replica; 0: none dies.
        repair_seconds: until a dead replica is back, with the newest weights.
        tick_seconds: between two ticks; 0: a second, or a hundredth of the number of replicas if that is
            more, so that ticks cost the same whatever the size.
    """

    replicas: Positive = 8
    max_concurrent: Positive = 256
    step_seconds: Seconds = 0.0
    roofline_batch: Positive = 64
    kv_seconds_per_token: Seconds = 2e-8
    kv_capacity: Positive = 1_000_000
    prefill_tokens_per_s: Rate = 25_000.0
    migrate_tokens_per_s: Seconds = 0.0
    transfer: Literal["broadcast", "relay"] = "broadcast"
    transfer_seconds: Seconds = 3.0
    push_seconds: Annotated[Seconds, ReadWhen("transfer", ("relay",))] = 1.0
    train_seconds: Seconds = 5.0
    train_seconds_per_token: Seconds = 1e-5
    trainers: Positive = 8
    failure: Annotated[float, Field(ge=0, lt=1)] = 0.0
    death_hours: Seconds = 0.0
    repair_seconds: Seconds = 300.0
    tick_seconds: Seconds = 0.0


def with_step(cluster: Cluster, measured: float) -> Cluster:
    """The cluster with the seconds of a decode step: as given, or as measured, or the default.

    Args:
        cluster: whose ``step_seconds`` may be 0.
        measured: seconds, or 0 where nothing was measured.
    """
    if cluster.step_seconds:
        return cluster
    return Cluster(**{**cluster.model_dump(), "step_seconds": measured or DEFAULT_STEP})


def step_seconds(cluster: Cluster, batch: int, kv_tokens: float = 0.0) -> float:
    """Seconds of a decode step.

    >>> cluster = Cluster(step_seconds=0.02, roofline_batch=64, kv_seconds_per_token=1e-8)
    >>> [step_seconds(cluster, batch) for batch in (1, 64, 128)], step_seconds(cluster, 1, 1_000_000)
    ([0.02, 0.02, 0.04], 0.03)

    Args:
        cluster: with its ``step_seconds`` known.
        batch: requests in it.
        kv_tokens: that they have cached, all together.
    """
    flat = cluster.step_seconds * max(1.0, batch / cluster.roofline_batch)
    return flat + cluster.kv_seconds_per_token * kv_tokens


def update_seconds(cluster: Cluster, tokens: float) -> float:
    """Seconds of an update on a batch of so many tokens, with no replica that helps."""
    return cluster.train_seconds + tokens * cluster.train_seconds_per_token


def tick_seconds(cluster: Cluster) -> float:
    """Seconds between two ticks."""
    return cluster.tick_seconds or max(1.0, cluster.replicas / 100)


def admissible_tokens(cluster: Cluster) -> float:
    """Tokens that a replica's running requests may have cached after one is admitted."""
    return cluster.kv_capacity * (1 - HEADROOM)
