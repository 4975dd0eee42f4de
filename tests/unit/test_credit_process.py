"""Potential differences of the repository's state, on problems small enough to enumerate."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pytest

from agentic_gym.envs.swe.process import error_place, sources_compile, stage
from agentic_gym.envs.swe.task import SWETask
from agentic_gym.errors import ConfigError, EnvContractError
from agentic_gym.rewards.credit.base import Invariance, batch_of
from agentic_gym.rewards.credit.outcome import earned
from agentic_gym.rewards.credit.plan import make_credit
from agentic_gym.rewards.credit.process import (
    PotentialWeights,
    ProcessCredit,
    RepositoryState,
    shaped,
    states_of,
)
from agentic_gym.sandbox.base import TestReport
from agentic_gym.types import Outcome, TokenStream, Trajectory, Turn

Facts = dict[str, float]


def facts(
    parses: float = 1, imports: float = 1, gone: float = 0, f2p: float = 0, p2p: float = 1
) -> Facts:
    names = ("parses", "imports", "error_gone", "fail_to_pass", "pass_to_pass")
    return dict(zip(names, (parses, imports, gone, f2p, p2p), strict=True))


BASE, HALF, RIGHT, BROKEN = (
    facts(),
    facts(gone=1, f2p=0.5),
    facts(gone=1, f2p=1),
    facts(0, 0, 0, 0, 0),
)


def episode(
    rewards: list[float],
    states: list[Facts | None] | None,
    *,
    base: Facts | None = None,
    tokens: list[int] | None = None,
    truncated: bool = False,
) -> Trajectory:
    """An episode with one observation token after each turn, and by default two sampled ones in it."""
    tokens = [2] * len(rewards) if tokens is None else tokens
    turns = []
    for k, reward in enumerate(rewards):
        info: dict[str, Any] = {}
        if states is not None and states[k] is not None:
            info["state"] = states[k]
        if states is not None and k == 0:
            info["base_state"] = base or BASE
        turns.append(Turn("a", "o", reward, info=info))
    sampled = [False, *(flag for count in tokens for flag in [True] * count + [False])]
    of_turn = [-1, *(k for k, count in enumerate(tokens) for _ in range(count + 1))]
    stream = TokenStream(
        ids=np.zeros(len(sampled), np.int32),
        sampled=np.asarray(sampled),
        logprobs=np.zeros(len(sampled), np.float32),
        versions=np.zeros(len(sampled), np.int32),
        turns=np.asarray(of_turn, np.int32),
    )
    return Trajectory(
        "t", "k", "g", 0, "p", tuple(turns), stream, Outcome.FAILED, not truncated, truncated
    )


def by_turn(trajectory: Trajectory, credit: ProcessCredit, gamma: float = 1.0) -> list[float]:
    """Reward of each turn with sampled tokens."""
    batch = batch_of([trajectory], gamma=gamma)
    rewards = credit.assign(batch, earned(batch))
    return [float(rewards[batch.turns == turn].sum()) for turn in dict.fromkeys(batch.turns)]


def test_a_turn_earns_what_it_raises_the_potential_by() -> None:
    weights = PotentialWeights()
    rise = weights.of(RepositoryState.read(HALF)) - weights.of(RepositoryState.read(BASE))
    assert rise == pytest.approx(0.3)
    trajectory = episode([0.0, 0.0, 1.0], [HALF, BROKEN, BROKEN])
    fall = weights.of(RepositoryState.read(BROKEN)) - weights.of(RepositoryState.read(BASE))
    assert by_turn(trajectory, ProcessCredit()) == pytest.approx([rise, fall - rise, 1 - fall])
    assert by_turn(trajectory, ProcessCredit(), 0.5) == pytest.approx(
        [0.5 * rise, 0.5 * fall - rise, 1 - fall]
    )


def test_rewards_fall_on_the_last_token_of_their_turn_and_the_given_ones_are_left() -> None:
    batch = batch_of([episode([0.0, 0.0], [HALF, HALF])])
    given = earned(batch)
    before = given.copy()
    rewards = ProcessCredit().assign(batch, given)
    assert rewards.tolist() == pytest.approx([0, 0.3, 0, -0.3])
    assert (given == before).all()


def test_a_turn_that_changes_nothing_carries_the_state_forward() -> None:
    trajectory = episode([0.0] * 4, [None, HALF, None, None])
    assert states_of(trajectory) == [
        RepositoryState.read(state) for state in (BASE, BASE, HALF, HALF, HALF)
    ]
    assert by_turn(trajectory, ProcessCredit()) == pytest.approx([0, 0.3, 0, -0.3])


def test_turns_without_sampled_tokens_are_one_step_with_the_one_before() -> None:
    trajectory = episode([0.0] * 4, [HALF, RIGHT, BROKEN, HALF], tokens=[2, 0, 1, 0])
    shaped_turns = by_turn(trajectory, ProcessCredit(), 0.5)
    assert shaped_turns == pytest.approx([0.5 * 0.5, -0.5])


def test_truncation_takes_the_potential_back_unless_the_estimator_goes_on() -> None:
    cut = episode([0.0, 0.0], [HALF, RIGHT], truncated=True)
    assert by_turn(cut, ProcessCredit(), 0.9) == pytest.approx([0.9 * 0.3, -0.3])
    goes_on = ProcessCredit(bootstrap_truncated=True)
    assert by_turn(cut, goes_on, 0.9) == pytest.approx([0.9 * 0.3, 0.9 * 0.5 - 0.3])
    ended = episode([0.0, 0.0], [HALF, RIGHT])
    assert by_turn(ended, goes_on, 0.9) == pytest.approx([0.9 * 0.3, -0.3])


def test_what_was_sampled_in_a_turn_that_never_came_to_be_has_no_state_of_its_own() -> None:
    whole = episode([0.0, 0.0], [HALF, HALF], truncated=True)
    batch = batch_of([Trajectory(
        "t", "k", "g", 0, "p", whole.turns[:1], whole.tokens, Outcome.TRUNCATED, False, True
    )])  # fmt: skip
    rewards = ProcessCredit().assign(batch, np.zeros(4))
    assert rewards.tolist() == pytest.approx([0, 0.3, 0, -0.3])


def test_trajectories_without_states_keep_their_rewards_and_are_counted() -> None:
    batch = batch_of([episode([0.5, 1.0], None), episode([0.0], [RIGHT])])
    given = earned(batch)
    rewards = ProcessCredit().assign(batch, given)
    assert rewards[batch.parts[0]].tolist() == given[batch.parts[0]].tolist()
    assert batch.facts == {"process_missing": 1.0}


@pytest.mark.parametrize(
    "state",
    [
        {},
        None,
        BASE | {"fail_to_pass": 1.5},
        BASE | {"parses": math.nan},
        BASE | {"parses": "1"},
        BASE | {"more": 1.0},
        {name: value for name, value in BASE.items() if name != "imports"},
    ],
)
def test_states_that_break_the_contract_are_refused(state: Any) -> None:
    with pytest.raises(EnvContractError, match=r"info\['state'\]"):
        states_of(episode([0.0], [None], base=BASE | {"parses": 2.0}))
    with pytest.raises(EnvContractError, match=r"info\['state'\]"):
        RepositoryState.read(state)


@pytest.mark.parametrize(
    ("weights", "words"),
    [
        ({"parses": -0.1}, "parses=-0.1 must be finite and not negative"),
        ({"fail_to_pass": math.inf}, "fail_to_pass=inf"),
        ({"imports": True}, "imports=True"),
        ({"fail_to_pass": 0.6}, "add up to 1, and solving pays solve=1"),
        ({"solve": 0.5}, "add up to 0.8, and solving pays solve=0.5"),
        ({"fail_to_pas": 0.1}, "no weight 'fail_to_pas'.*fail_to_pass"),
    ],
)
def test_weights_are_checked(weights: Mapping[str, float], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        make_credit("process", options={"process": {"weights": weights}})


def test_no_two_states_differ_by_more_than_the_span() -> None:
    weights = PotentialWeights(0.1, 0.2, 0.05, 0.3, 0.25)
    corners = [RepositoryState(*map(float, bits)) for bits in itertools.product((0, 1), repeat=5)]
    values = [weights.of(state) for state in corners]
    assert max(values) - min(values) == pytest.approx(weights.span) == pytest.approx(0.9)


def test_the_plan_says_what_it_leaves() -> None:
    plan = make_credit("process", options={"process": {"weights": {"fail_to_pass": 0.2}}})
    assert plan.assigners == (ProcessCredit(PotentialWeights(fail_to_pass=0.2)),)
    assert plan.invariance is Invariance.OPTIMAL_POLICY
    assert not plan.needs_attention


# A decision problem: in each state break, repair (which fails half the time) or submit.

STATES = {"broken": BROKEN, "half": HALF, "right": RIGHT}
ACTIONS = ("break", "repair", "submit")
HORIZON, TURN, SOLVE = 3, -0.02, 1.0
AFTER_REPAIR = {"broken": "half", "half": "right", "right": "right"}
Policy = Mapping[str, str]
Play = tuple[float, list[float], list[str], bool]


def plays(policy: Policy, state: str) -> Iterator[Play]:
    """Every way an episode can go: its probability, rewards, states, and whether the budget ended it."""

    def go_on(state: str, chance: float, rewards: list[float], seen: list[str]) -> Iterator[Play]:
        action = policy[state]
        if action == "submit":
            yield chance, [*rewards, TURN + SOLVE * (state == "right")], [*seen, state], False
            return
        repaired = AFTER_REPAIR[state]
        ends = [("broken", 1.0)] if action == "break" else [(repaired, 0.5), (state, 0.5)]
        for following, share in ends:
            last = len(seen) == HORIZON  # graded at the budget, like a submission
            reward = TURN + SOLVE * (last and following == "right")
            going = (chance * share, [*rewards, reward], [*seen, following])
            if last:
                yield (*going, True)
            else:
                yield from go_on(following, *going)

    yield from go_on(state, 1.0, [], [state])


def best(values: Mapping[tuple[str, ...], float]) -> set[tuple[str, ...]]:
    top = max(values.values())
    return {policy for policy, value in values.items() if value > top - 1e-9}


@pytest.mark.parametrize(("gamma", "plain_differs"), [(0.3, False), (0.9, True), (1.0, True)])
def test_the_same_policies_are_optimal_and_plain_rewards_have_others(
    gamma: float, plain_differs: bool
) -> None:
    credit = ProcessCredit()
    phi = {name: PotentialWeights().of(RepositoryState.read(s)) for name, s in STATES.items()}
    changed = 0
    for start in STATES:
        given: dict[tuple[str, ...], float] = {}
        with_phi, plain = dict(given), dict(given)
        for choice in itertools.product(ACTIONS, repeat=len(STATES)):
            played = list(plays(dict(zip(STATES, choice, strict=True)), start))
            episodes = [
                episode(r, [STATES[s] for s in seen[1:]], base=STATES[start], tokens=[1] * len(r),
                        truncated=cut)
                for _, r, seen, cut in played
            ]  # fmt: skip
            batch = batch_of(episodes, gamma=gamma)
            rewards = earned(batch)
            after = credit.assign(batch, rewards)
            values = [0.0, 0.0, 0.0]
            for part, (chance, own, seen, _) in zip(batch.parts, played, strict=True):
                discounts = gamma ** np.arange(len(own))
                ahead = [phi[s] for s in seen[1:-1]] + [0.0]
                for number, paid in enumerate((rewards[part], after[part], np.add(own, ahead))):
                    values[number] += chance * float(discounts @ paid)
            given[choice], with_phi[choice], plain[choice] = values
            assert values[1] == pytest.approx(values[0], rel=0, abs=1e-12)
        assert best(with_phi) == best(given)
        assert len(best(given)) < len(given)
        changed += best(plain) != best(given)
    assert bool(changed) is plain_differs  # who hardly looks ahead solves at once, whatever is paid


def test_only_the_assigned_rewards_differ_where_the_potential_does() -> None:
    batch = batch_of([episode([0.0, 0.0], [HALF, HALF])])
    flat = shaped(batch, earned(batch), [np.full(3, 7.0)])
    assert flat.tolist() == [0.0] * 4


# What the environment makes of reports and trees.

FAILURES = """\
=================================== FAILURES ===================================
____________________________________ test_a ____________________________________
test_m.py:4: in test_a
    f(1)
E   TypeError: no
____________________________________ test_b ____________________________________
test_m.py:9: in test_b
    assert f(2) == 3
E   assert 2 == 3
"""
REPORT = TestReport(
    {"test_m.py::test_c": "passed", "test_m.py::test_a": "failed", "test_m.py::test_b": "failed",
     "test_m.py::test_d": "skipped"},
    1,
    FAILURES,
)  # fmt: skip
UNCOLLECTED = TestReport({}, 2, "", collection_errors={"test_m.py": "E   SyntaxError: no"})
HUNG = TestReport({"test_m.py::test_c": "passed"}, None, "", timed_out=True)


def test_the_first_error_of_a_report_has_a_place() -> None:
    places = [error_place(report) for report in (REPORT, UNCOLLECTED, HUNG)]
    assert places == ["test_m.py::test_a", "test_m.py", ""]
    assert error_place(TestReport({"t.py::a": "passed"}, 0, "")) is None


def test_stages_rise_from_nothing_to_passing() -> None:
    at = {place: stage(REPORT, f"test_m.py::test_{place}") for place in "abcde"}
    assert at == {"a": 1, "b": 2, "c": 3, "d": 1, "e": 0}
    assert [stage(report, "test_m.py") for report in (REPORT, UNCOLLECTED)] == [1, 0]
    assert [stage(report, "") for report in (REPORT, UNCOLLECTED, HUNG)] == [3, 0, 0]
    assert stage(UNCOLLECTED, "test_m.py::test_a") == 0
    assert stage(HUNG, "test_m.py::test_c") == 3


def test_sources_compile_or_not_whatever_they_hold() -> None:
    task = SWETask(
        task_id="t",
        repo="m",
        files={
            "m.py": "x = 1\n",
            "n.py": "y = '\\d' is 1\n",
            "test_m.py": "def (",
            "a.txt": "def (",
        },
        problem_statement="?",
        visible_tests=["test_m.py"],
        fail_to_pass=["test_m.py::t"],
        gold_patch="",
    )
    base = task.base_files
    assert sources_compile(task, base)
    assert sources_compile(task, {})
    for content in (
        b"def f(:",
        b"a\0b",
        b"x = '\xff'",
        b"# coding: nothing\n",
        b"(" * 3_000,
        b"-" * 20_000 + b"1",
        b"#" * 500_001,
    ):
        assert not sources_compile(task, base | {"m.py": content})
        assert not sources_compile(task, base | {"new/o.py": content})
