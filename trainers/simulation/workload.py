"""What trajectories are made of: tokens, turns and tool calls, drawn from distributions.

What a trajectory does is a function of the seed, its task, its group and its place in the group, never of
when it is launched. So two schedules that are compared under one seed play the same trajectories, and a
trajectory that is tried again does the same again.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import Annotated, Protocol, Self

from pydantic import Field, model_validator

from agentic_gym.config import StrictConfig
from agentic_gym.errors import ConfigError

Positive = Annotated[int, Field(gt=0)]
Length = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]

_MASK = (1 << 64) - 1
_P90 = NormalDist().inv_cdf(0.9)
_inverse = NormalDist().inv_cdf

# Streams of random numbers, so that one draw says nothing of another.
TASK, MEMBER, TOOL, PICK = range(4)


@dataclass(frozen=True, slots=True)
class Plan:
    """What one trajectory will do.

    Attributes:
        prompt: tokens before the first turn.
        tokens: that each turn samples, at least one.  # [K]
        observations: tokens that the environment answers after each turn.  # [K]
        latencies: seconds that it takes to answer; after the last turn, to grade.  # [K]
    """

    prompt: int
    tokens: tuple[int, ...]
    observations: tuple[int, ...]
    latencies: tuple[float, ...]


class Plans(Protocol):
    """A source of plans."""

    @property
    def longest(self) -> float:
        """No trajectory has more tokens than this, prompt and observations included."""
        ...

    @property
    def seconds_per_token(self) -> float:
        """Measured seconds of a decode step; 0: nothing was measured."""
        ...

    def plan(self, task: int, group: int, member: int) -> Plan:
        """What a trajectory will do; the same arguments give the same plan."""
        ...


class Workload(StrictConfig):
    """Distributions of what trajectories do.

    Attributes:
        prompt_tokens: before the first turn.
        median_tokens: median of the tokens that a trajectory samples (before the cap).
        sigma: standard deviation of their logarithm; at 1, P99 is ten times the median.
        max_tokens: cap; what would be longer is cut there, so the distribution has mass at the cap.
        correlation: of the logarithms of two lengths of the same task.
        tokens_per_turn: that a turn samples; 0: all in one turn. A long trajectory has more turns, not
            longer ones.
        max_turns: further tokens are shared out among so many turns.
        observation_tokens: that the environment answers after each turn but the last.
        tool_p50: median seconds that the environment takes after a turn; 0: none. Lognormal.
        tool_p90: 90th percentile.
        tool_max: what would take longer is cut off there, as by a time-out.
    """

    prompt_tokens: Positive = 512
    median_tokens: Length = 2000.0
    sigma: Annotated[float, Field(ge=0, le=4)] = 1.0
    max_tokens: Positive = 16384
    correlation: Annotated[float, Field(ge=0, le=1)] = 0.5
    tokens_per_turn: Annotated[int, Field(ge=0)] = 0
    max_turns: Positive = 50
    observation_tokens: Annotated[int, Field(ge=0)] = 0
    tool_p50: Seconds = 0.0
    tool_p90: Seconds = 13.5
    tool_max: Seconds = 120.0

    @model_validator(mode="after")
    def _refuse_contradictions(self) -> Self:
        if self.tool_p50 > 0 and not self.tool_p50 <= self.tool_p90 <= self.tool_max:
            raise ValueError(
                f"tool_p50={self.tool_p50}, tool_p90={self.tool_p90} and tool_max={self.tool_max} "
                "must not decrease"
            )
        return self


class LognormalPlans:
    """Plans drawn from a :class:`Workload`.

    Args:
        workload: the distributions.
        seed: of every draw.

    Attributes:
        seconds_per_token: 0: nothing is measured here.
    """

    seconds_per_token = 0.0

    def __init__(self, workload: Workload, seed: int = 0) -> None:
        self._workload = workload
        self._seed = seed
        self._shared = math.sqrt(workload.correlation)
        self._task, self._task_z = -1, 0.0  # of the last plan: a group is planned in one go
        self._own = math.sqrt(1 - workload.correlation)
        self._location = math.log(workload.median_tokens)
        tools = workload.tool_p50 > 0
        self._tool_sigma = math.log(workload.tool_p90 / workload.tool_p50) / _P90 if tools else 0.0

    @property
    def longest(self) -> float:
        """See :class:`Plans`."""
        workload = self._workload
        turns = self._num_turns(workload.max_tokens)
        return workload.prompt_tokens + workload.max_tokens + turns * workload.observation_tokens

    def plan(self, task: int, group: int, member: int) -> Plan:
        """See :class:`Plans`."""
        workload = self._workload
        z = self._own * _inverse(uniform(self._seed, MEMBER, group, member))
        if self._shared:
            if task != self._task:
                self._task, self._task_z = task, _inverse(uniform(self._seed, TASK, task))
            z += self._shared * self._task_z
        length = math.exp(self._location + workload.sigma * z)
        total = max(1, round(min(length, workload.max_tokens)))
        turns = self._num_turns(total)
        if turns == 1:
            return Plan(workload.prompt_tokens, (total,), (0,), (self._latency(group, member, 0),))
        size, rest = divmod(total, turns)
        return Plan(
            workload.prompt_tokens,
            (size + 1,) * rest + (size,) * (turns - rest),
            (workload.observation_tokens,) * (turns - 1) + (0,),
            tuple(self._latency(group, member, turn) for turn in range(turns)),
        )

    def _num_turns(self, total: int) -> int:
        size = self._workload.tokens_per_turn
        return min(self._workload.max_turns, math.ceil(total / size)) if size else 1

    def _latency(self, group: int, member: int, turn: int) -> float:
        workload = self._workload
        if not workload.tool_p50:
            return 0.0
        z = _inverse(uniform(self._seed, TOOL, group, member, turn))
        return min(workload.tool_max, workload.tool_p50 * math.exp(self._tool_sigma * z))


def uniform(seed: int, *keys: int) -> float:
    """A number strictly between 0 and 1 that depends on all keys and on nothing else.

    A hash (the finaliser of SplitMix64, once a key) instead of a generator: making a generator for each
    trajectory takes longer than simulating it.

    >>> 0 < uniform(0, TASK, 7) < 1, uniform(0, TASK, 7) == uniform(0, MEMBER, 7)
    (True, False)
    """
    state = seed & _MASK
    for key in keys:
        state = (state + (key + 1) * 0x9E3779B97F4A7C15) & _MASK
        state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & _MASK
        state ^= state >> 31
    return ((state >> 12) + 0.5) / (1 << 52)


def check_fits(plans: Plans, capacity: float) -> None:
    """Refuses trajectories that no replica could ever hold.

    Raises:
        ConfigError: the longest has more tokens than the KV cache of a replica.
    """
    if plans.longest > capacity:
        raise ConfigError(
            f"a trajectory may have {plans.longest:,.0f} tokens, and the KV cache of a replica holds "
            f"{capacity:,.0f} (kv_capacity less its headroom): raise kv_capacity, or cut trajectories"
        )
