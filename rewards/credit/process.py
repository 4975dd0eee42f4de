"""Rewards on the way to the outcome, from what each turn made of the repository: potential differences.

A potential Φ says how good a state is; a turn earns what it raises it by: ``r' = r + γΦ(s') - Φ(s)``. With
Φ = 0 at the end the discounted return of an episode changes by -Φ(s_0) alone, whatever was done in it, so the
same policies are optimal (Ng, Harada and Russell 1999, "Policy invariance under reward transformations",
theorem 1). Paid as plain rewards, the same numbers would teach to break and repair again.

Φ here is relative to the state that the episode began in: Φ(s) - Φ(s_0), so that Φ(s_0) = 0. The start is a
fact of the episode, so that is a potential too. It matters not for what is optimal but for the baseline:
otherwise tasks would differ in their returns by a -Φ(s_0) that says nothing of the policy, a value head would
have to learn it, and a mean over a batch would take it for noise. So the discounted return of an episode that
ends is exactly what it was.

Rejected: Φ of the last state kept at the end. That pays for stopping in a state that only looks good.
"""

from __future__ import annotations

import dataclasses
import math
import numbers
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from agentic_gym.errors import ConfigError, EnvContractError
from agentic_gym.rewards.credit.base import CreditBatch, Floats, Invariance, turn_starts
from agentic_gym.suggest import did_you_mean
from agentic_gym.types import Trajectory


def _is_finite(value: object) -> bool:
    number = isinstance(value, numbers.Real) and not isinstance(value, bool)
    return number and math.isfinite(value)  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class RepositoryState:
    """What is known of a repository, each in [0, 1]; environments give it as ``info["state"]``.

    Attributes:
        parses: 1 if Python can compile every source file.
        imports: 1 if the tests can be collected.
        error_gone: 1 if the tests get further than the error that the base showed.
        fail_to_pass: share of the tests to be repaired that pass.
        pass_to_pass: share of the tests to be kept that pass.
    """

    parses: float
    imports: float
    error_gone: float
    fail_to_pass: float
    pass_to_pass: float

    @classmethod
    def read(cls, facts: object) -> RepositoryState:
        """The state from an ``info``.

        Raises:
            EnvContractError: a fact is missing, unknown, or not a number in [0, 1].
        """
        names = [field.name for field in dataclasses.fields(cls)]
        if not isinstance(facts, Mapping) or set(facts) != set(names):
            raise EnvContractError(
                f"info['state'] is {facts!r}. It must give {', '.join(names)}, and nothing else"
            )
        for name, value in facts.items():
            if not _is_finite(value) or not 0 <= value <= 1:
                raise EnvContractError(f"info['state'][{name!r}] is {value!r}: give it in [0, 1]")
        return cls(**{name: float(facts[name]) for name in names})


@dataclass(frozen=True, slots=True)
class PotentialWeights:
    """What each fact is worth.

    Φ(s) = parses·[parses] + imports·[imports] + error_gone·[error gone] + fail_to_pass·(share that passes) -
    pass_to_pass·(share that no longer passes).

    No two states differ by more than the sum of the weights, which must stay under ``solve``: no progress is
    worth what solving is.

    Attributes:
        parses: weight of sources that compile.
        imports: weight of tests that can be collected.
        error_gone: weight of the base's error being gone.
        fail_to_pass: weight of the share of FAIL_TO_PASS that passes.
        pass_to_pass: weight of the share of PASS_TO_PASS that is broken.
        solve: what the environment pays for solving; nothing of it is paid here.

    Raises:
        ConfigError: a weight is negative or not finite, or they add up to ``solve`` or more.
    """

    parses: float = 0.05
    imports: float = 0.05
    error_gone: float = 0.1
    fail_to_pass: float = 0.4
    pass_to_pass: float = 0.2
    solve: float = 1.0

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if not _is_finite(value) or value < 0:
                raise ConfigError(f"{field.name}={value!r} must be finite and not negative")
        if self.span >= self.solve:
            raise ConfigError(
                f"the weights of the potential add up to {self.span:g}, and solving pays "
                f"solve={self.solve:g}: progress must be worth less than solving, give smaller weights"
            )

    @property
    def span(self) -> float:
        """How much two states can differ."""
        return math.fsum(
            (self.parses, self.imports, self.error_gone, self.fail_to_pass, self.pass_to_pass)
        )

    def of(self, state: RepositoryState) -> float:
        """Φ of a state.

        >>> round(PotentialWeights().of(RepositoryState(1, 1, 0, 0.5, 1)), 9)
        0.3
        """
        return math.fsum(
            (
                self.parses * state.parses,
                self.imports * state.imports,
                self.error_gone * state.error_gone,
                self.fail_to_pass * state.fail_to_pass,
                -self.pass_to_pass * (1 - state.pass_to_pass),
            )
        )


def states_of(trajectory: Trajectory) -> list[RepositoryState] | None:
    """States before each turn and after the last; None if the episode's first turn has no ``base_state``.

    A turn without ``state`` left it as it was.

    Raises:
        EnvContractError: see :meth:`RepositoryState.read`.
    """
    if not trajectory.turns or "base_state" not in trajectory.turns[0].info:
        return None
    states = [RepositoryState.read(trajectory.turns[0].info["base_state"])]
    for turn in trajectory.turns:
        found = turn.info.get("state")
        states.append(states[-1] if found is None else RepositoryState.read(found))
    return states


def shaped(
    batch: CreditBatch,
    rewards_N: Floats,
    potentials: Sequence[Floats | None],
    *,
    bootstrap_truncated: bool = False,
) -> Floats:
    """Adds to what each step earned the discounted difference of a potential.

    The potential counts relative to the episode's start. A step is what an estimator takes for one: a turn
    with sampled tokens, with those after it that have none. γ is the batch's, the discount of a turn: with
    another discount in the estimator, or one per token, the problem is no longer the same. Trajectories whose
    potential is not known keep their rewards, and are counted (``process_missing``).

    An episode that was cut by a budget and graded there has ended: Φ = 0, as after any other end. With
    ``bootstrap_truncated`` it goes on, in the value that the estimator puts after its last turn. Its last
    state then keeps its Φ, since that value is one of the shaped problem, V - Φ.

    Args:
        batch: whose tokens.
        rewards_N: of each sampled token; not changed.  # [N]
        potentials: Φ before each turn of each trajectory and after its last, known from what came before;
            None where it is not known.  # [K + 1] each
        bootstrap_truncated: as the estimator has it.

    Returns:
        Rewards of the sampled tokens.  # [N]
    """
    rewards = rewards_N.copy()
    for trajectory, part, values in zip(batch.trajectories, batch.parts, potentials, strict=True):
        turns = batch.turns[part]
        if values is None:
            batch.count("process_missing")
            continue
        if not len(turns):
            continue
        relative = values - values[0]  # [K + 1]
        starts = np.flatnonzero(turn_starts(turns))
        # What was sampled in a turn that never came to be (the budget ended it) has no state after it.
        before = relative[np.minimum(turns[starts], len(relative) - 1)]
        before[0] = 0.0
        goes_on = bootstrap_truncated and trajectory.truncated and not trajectory.terminated
        after = np.append(before[1:], relative[-1] if goes_on else 0.0)
        ends = np.append(starts[1:], len(turns)) - 1
        rewards[part][ends] += batch.gamma * after - before
    return rewards


@dataclass(frozen=True, slots=True)
class ProcessCredit:
    """Potential differences of the repository's state; see the module and :func:`shaped`.

    Attributes:
        weights: of the potential, also by name.
        bootstrap_truncated: as the estimator has it.

    Raises:
        ConfigError: a weight is unknown; or see :class:`PotentialWeights`.
    """

    weights: PotentialWeights | Mapping[str, float] = PotentialWeights()
    bootstrap_truncated: bool = False
    invariance: Invariance = Invariance.OPTIMAL_POLICY
    needs_attention: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "weights", _weights(self.weights))

    def potential(self, trajectory: Trajectory) -> Floats | None:
        """Φ before each turn and after the last; None if the states are not known.  # [K + 1]"""
        states, weights = states_of(trajectory), _weights(self.weights)
        return None if states is None else np.asarray([weights.of(state) for state in states])

    def assign(self, batch: CreditBatch, rewards_N: Floats) -> Floats:
        """See :class:`~agentic_gym.rewards.credit.base.CreditAssigner`."""
        potentials = [self.potential(trajectory) for trajectory in batch.trajectories]
        goes_on = self.bootstrap_truncated
        return shaped(batch, rewards_N, potentials, bootstrap_truncated=goes_on)


def _weights(given: PotentialWeights | Mapping[str, float]) -> PotentialWeights:
    if isinstance(given, PotentialWeights):
        return given
    known = [field.name for field in dataclasses.fields(PotentialWeights)]
    if not isinstance(given, Mapping):
        raise ConfigError(f"weights={given!r}: give {', '.join(known)} by name")
    for name in given:
        if name not in known:
            hint = did_you_mean(str(name), known)
            raise ConfigError(f"no weight {name!r}.{hint} Known: {', '.join(known)}")
    return PotentialWeights(**given)
