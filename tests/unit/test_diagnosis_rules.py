"""Each rule on a run with one fault planted: it speaks, and no other does."""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agentic_gym.store import LaunchRecord, RunStore
from agentic_gym.trainers.diagnosis.facts import RunFacts, gather
from agentic_gym.trainers.diagnosis.findings import Finding, Setting, spell
from agentic_gym.trainers.diagnosis.rules import RULES, diagnose
from agentic_gym.trainers.diagnosis.settings import Settings
from agentic_gym.trainers.diagnosis.synthetic import SyntheticRun, call
from agentic_gym.types import Outcome, Trajectory, Turn

Change = Callable[[int, Trajectory], Trajectory]


def found(run: SyntheticRun, folder: Path) -> dict[str, Finding]:
    return {finding.name: finding for finding in diagnose(gather(run.write(folder)))}


def chance(t: Trajectory) -> float:
    """A number in [0, 1) that an episode keeps."""
    return zlib.crc32(t.trajectory_id.encode()) % 1000 / 1000


def always(value: float, *, since: int = 1) -> Callable[[int, float], float]:
    return lambda update, healthy: value if update >= since else healthy


# ---- faults of metrics -----------------------------------------------------------------------------

METRICS: list[tuple[str, dict[str, Callable[[int, float], float]], int]] = [
    ("entropy_collapse", {"entropy": always(0.004, since=4)}, 4),
    ("entropy_blow_up", {"entropy": always(1.5, since=5)}, 5),
    ("kl_blow_up", {"approx_kl": always(0.4, since=3), "stopped_early": always(0)}, 3),
    ("target_kl_stops", {"stopped_early": always(1, since=4)}, 4),
    ("clipped", {"clip_fraction": always(0.45, since=2)}, 2),
    ("value_useless", {"explained_variance": always(-0.1)}, 5),
    ("gradient_not_finite", {"grad_norm": always(math.nan, since=6)}, 6),
    ("gradient_spike", {"grad_norm": lambda u, norm: 60 * norm if u == 6 else norm}, 6),
    ("low_ess", {"ess": always(0.1, since=3)}, 3),
    ("capped_tokens", {"capped_fraction": always(0.2, since=3)}, 3),
    ("engine_mismatch", {"probability_mismatch": always(0.03)}, 1),
    ("engine_kl", {"version_kl_0": always(0.3)}, 1),
    ("publish_gap", {"publish_gap": always(8e-4, since=5)}, 5),
    ("trainer_idle", {"trainer_idle_share": always(0.95)}, 1),
    ("engine_idle", {"engine_idle_share": always(0.8)}, 1),
    ("queue_wait", {"queue_wait_s_p50": always(90.0)}, 1),
    ("kv_pressure", {"kv_used_share": always(0.97, since=4)}, 4),
    ("parked", {"parked_share": always(0.3)}, 1),
    ("starving_classes", {"selection_starving_classes": always(2.0, since=4)}, 4),
    ("infra_errors", {"infra_errors": always(6.0, since=4)}, 4),
]  # fmt: skip


@pytest.mark.parametrize(("name", "faults", "since"), METRICS, ids=[name for name, *_ in METRICS])
def test_a_fault_of_a_metric_is_found_alone(
    name: str, faults: dict[str, Any], since: int, tmp_path: Path
) -> None:
    findings = found(SyntheticRun(metrics=faults, rise=None, groups=8, group_size=1), tmp_path)
    assert set(findings) == {name}
    finding = findings[name]
    assert finding.since == since
    assert (finding.until is None) == (name != "gradient_spike")
    assert finding.settings


def test_what_is_over_is_said_to_be_over(tmp_path: Path) -> None:
    faults = {"ess": lambda update, share: 0.1 if 3 <= update <= 5 else share}
    run = SyntheticRun(metrics=faults, updates=9, rise=None, groups=8, group_size=1)
    finding = found(run, tmp_path)["low_ess"]
    assert (finding.since, finding.until, finding.figure) == (3, 5, 0.1)


def test_two_bad_updates_are_bad_luck(tmp_path: Path) -> None:
    faults = {"ess": lambda update, share: 0.1 if update in (3, 4) else share}
    assert found(SyntheticRun(metrics=faults, rise=None, groups=8, group_size=1), tmp_path) == {}


# ---- faults of episodes ----------------------------------------------------------------------------


def edits(t: Trajectory, make: Callable[[int, str], Turn]) -> Trajectory:
    """Every turn but the last as ``make`` says, with the seconds that it had."""
    path = t.prompt.split()[0]
    new = [
        replace(make(k, path), generate_s=turn.generate_s, step_s=turn.step_s)
        for k, turn in enumerate(t.turns[:-1])
    ]
    return replace(t, turns=(*new, t.turns[-1]))


def edit(path: str, text: str) -> Turn:
    facts = {"tools": ["edit_lines"], "tests_passed": 7, "tests_total": 10}
    return Turn(
        call("edit_lines", path=path, start=1, text=text), f"7 passed {text}", 0.01, info=facts
    )


def last(t: Trajectory, **facts: Any) -> Trajectory:
    return replace(
        t, turns=(*t.turns[:-1], replace(t.turns[-1], info={**t.turns[-1].info, **facts}))
    )


def ended(share: float, reason: str) -> Change:
    def change(update: int, t: Trajectory) -> Trajectory:
        told = {k: v for k, v in t.turns[-1].info.items() if k != "truncation_reason"}
        t = replace(t, turns=(*t.turns[:-1], replace(t.turns[-1], info=told)))
        return last(t, truncation_reason=reason) if chance(t) < share else t

    return change


def paid(t: Trajectory, rewards: list[float]) -> Trajectory:
    turns = [replace(turn, reward=reward) for turn, reward in zip(t.turns, rewards, strict=True)]
    return replace(t, turns=tuple(turns))


def timed(t: Trajectory, generate: float = 1.0, step: float = 1.0, rest: float = 1.0) -> Trajectory:
    """The same with other seconds."""
    own = sum(turn.generate_s + turn.step_s for turn in t.turns)
    left = (t.metrics["duration_s"] - own) * rest
    turns = tuple(
        replace(turn, generate_s=generate * turn.generate_s, step_s=step * turn.step_s)
        for turn in t.turns
    )
    spent = sum(turn.generate_s + turn.step_s for turn in turns)
    return replace(t, turns=turns, metrics={**t.metrics, "duration_s": spent + left})


def cut(update: int, t: Trajectory) -> Trajectory:
    turns = [replace(u, finish_reason="length") if k % 2 else u for k, u in enumerate(t.turns)]
    return replace(t, turns=tuple(turns))


def pleased(update: int, t: Trajectory) -> Trajectory:
    """Visible tests pass more and more often, hidden ones less and less."""
    passes = chance(t) < 0.09 * update
    outcome = Outcome.FAILED if passes else Outcome.SOLVED
    t = edits(t, lambda k, path: edit(path, f"attempt {k}"))
    return replace(last(t, tests_passed=10 if passes else 7, tests_total=10), outcome=outcome)


def wanders(update: int, t: Trajectory) -> Trajectory:
    half = len(t.turns) // 2
    t = edits(t, lambda k, path: edit(path if k < half else "zzz/qqq", f"{k}"))
    if t.terminated:  # by a submission, which names nothing anyway
        return t
    return replace(t, turns=(*t.turns[:-1], replace(t.turns[-1], action="On to something else.")))


def slow_grader(update: int, t: Trajectory) -> Trajectory:
    turn = replace(t.turns[-1], step_s=8.0) if t.terminated else t.turns[-1]
    more = turn.step_s - t.turns[-1].step_s
    duration = t.metrics["duration_s"] + more
    return replace(t, turns=(*t.turns[:-1], turn), metrics={"duration_s": duration})


def prefills(update: int, t: Trajectory) -> Trajectory:
    """Each turn costs what it reads: its number stands for the length of the context."""
    turns = tuple(
        replace(u, generate_s=u.generate_s + 0.6 * k + 0.6) for k, u in enumerate(t.turns)
    )
    more = sum(u.generate_s for u in turns) - sum(u.generate_s for u in t.turns)
    return replace(t, turns=turns, metrics={"duration_s": t.metrics["duration_s"] + more})


def long_and_unpaid(update: int, t: Trajectory) -> Trajectory:
    path, each = t.prompt.split()[0], t.metrics["duration_s"] / 12
    turns = [replace(edit(path, f"try {k}"), reward=0.0, generate_s=0.8 * each) for k in range(12)]
    turns[-1] = replace(turns[-1], reward=float(t.outcome is Outcome.SOLVED))
    return replace(t, turns=tuple(turns))


def long_and_flat(update: int, t: Trajectory) -> Trajectory:
    """Twelve turns, paid at the end; every other episode is solved, from the first update to the last."""
    solved = int(t.task_id[5:]) % 2 == 0
    return long_and_unpaid(update, replace(t, outcome=Outcome.SOLVED if solved else Outcome.FAILED))


WAITS = {"trainer_idle_share": always(0.7)}
EPISODES: list[tuple[str, Change, dict[str, Any]]] = [
    ("repeated_actions", lambda u, t: edits(t, lambda k, path: edit(path, "same")), {}),
    ("mishaps", lambda u, t: edits(t, lambda k, path: Turn(f"hm {k}", "no call", -0.01)), {}),
    ("forgets_the_request", wanders, {}),
    ("out_of_turns", ended(0.95, "turn limit of 6"), {}),
    ("out_of_tokens", ended(0.4, "tokens"), {}),
    ("out_of_time", ended(0.4, "time"), {}),
    ("cut_completions", cut, {}),
    (
        "suspected_hacks",
        lambda u, t: replace(t, outcome=Outcome.SUSPECTED_HACK) if chance(t) < 0.2 else t,
        {},
    ),
    ("tampered_tests", lambda u, t: last(t, tests_changed=True) if chance(t) < 0.5 else t, {}),
    ("hidden_tests_fall", pleased, {"updates": 9, "groups": 16, "group_size": 1}),
    ("groups_all_failed", lambda u, t: replace(t, outcome=Outcome.FAILED), {"group_size": 2}),
    ("groups_all_solved", lambda u, t: replace(t, outcome=Outcome.SOLVED), {"group_size": 2}),
    (
        "equal_groups",
        lambda u, t: paid(t, [0.1 * (int(t.task_id[5:]) % 2), *[0.0] * (len(t.turns) - 1)]),
        {"config": {"credit": "group"}, "group_size": 2},
    ),
    ("no_spread", lambda u, t: paid(t, [0.0] * len(t.turns)), {}),
    ("credit_too_late", long_and_unpaid, {"config": {"ppo": {"gamma": 0.9}}}),
    ("late_credit", long_and_flat, {"seed": 1, "updates": 12}),
    ("slow_tools", lambda u, t: timed(t, step=20.0), {"metrics": WAITS}),
    ("slow_grading", slow_grader, {"metrics": WAITS}),
    ("slow_resets", lambda u, t: timed(t, rest=30.0), {"metrics": WAITS}),
    ("slow_prefill", prefills, {"metrics": WAITS}),
    (
        "stragglers",
        lambda u, t: timed(t, generate=20.0) if t.trajectory_id.endswith(".g00.0") else t,
        {"metrics": WAITS},
    ),
]  # fmt: skip


@pytest.mark.parametrize(("name", "change", "also"), EPISODES, ids=[name for name, *_ in EPISODES])
def test_a_fault_of_episodes_is_found_alone(
    name: str, change: Change, also: dict[str, Any], tmp_path: Path
) -> None:
    run = SyntheticRun(episode=change, **{"rise": None, "updates": 5, "group_size": 1, **also})
    findings = found(run, tmp_path)
    assert set(findings) == {name}
    assert findings[name].until is None


# ---- faults of settings, evaluations and the ledger --------------------------------------------------

OTHERS: list[tuple[str, dict[str, Any]]] = [
    ("never_at_full_rate", {"config": {"ppo": {"ramp_updates": 20}}}),
    (
        "staleness_at_bound",
        {"config": {"schedule": "bounded_async"}, "metrics": {"staleness": always(3.6, since=3)}},
    ),
    ("few_tasks", {"groups": 4, "group_size": 4}),
    ("no_evidence_of_learning", {"rise": 0.0}),
    ("evaluated_worse", {"rise": -0.3, "metrics": {"reward": lambda u, _: 0.5 + 0.01 * (u % 2)}}),
    ("reward_without_success", {"rise": -0.3, "metrics": {"reward": lambda u, _: 0.1 * u}}),
]


@pytest.mark.parametrize(("name", "settings"), OTHERS, ids=[name for name, _ in OTHERS])
def test_other_faults_are_found_alone(name: str, settings: dict[str, Any], tmp_path: Path) -> None:
    run = SyntheticRun(**{"rise": None, "groups": 8, "group_size": 1, **settings})
    assert set(found(run, tmp_path)) == {name}


def test_dropped_episodes_are_counted(tmp_path: Path) -> None:
    SyntheticRun(rise=None, groups=8, group_size=1, updates=4).write(tmp_path)
    with RunStore(tmp_path) as store:
        for number in range(8):
            store.launch([LaunchRecord(f"lost-{number}", "task", "group", 0, 0)])
            store.drop(f"lost-{number}", "not needed")
    (finding,) = diagnose(gather(tmp_path))
    assert finding.name == "dropped"
    assert finding.figure == pytest.approx(8 / 40)
    assert "not needed" in finding.sentence


def test_every_rule_was_planted() -> None:
    planted = {name for name, *_ in (*METRICS, *EPISODES, *OTHERS)} | {"dropped"}
    assert planted == {rule.name for rule in RULES}


# ---- what a finding says -----------------------------------------------------------------------------


def test_the_part_of_the_model_where_it_began_is_named() -> None:
    calm = [(step, 0.1) for step in range(1, 9)]
    layers = {f"grad_norm_layer/layer.{n}": calm for n in range(3)}
    spiked = [(step, 9.0 if step == 6 else 0.1) for step, _ in calm]
    series = {**layers, "grad_norm": spiked, "grad_norm_layer/router.1": spiked}
    (spike,) = diagnose(RunFacts("run", series))
    assert "router.1, 90 times its usual norm" in spike.sentence
    assert "float32" in spike.sentence
    broken = [(step, math.inf if step > 6 else 0.1) for step, _ in calm]
    (stop,) = diagnose(
        RunFacts("run", {**layers, "grad_norm": broken, "grad_norm_layer/head": broken})
    )
    assert "It began in the gradient of head." in stop.sentence
    assert "output layer" in stop.sentence


def test_an_asked_for_collapse_says_who_asked() -> None:
    entropy = {"entropy": [(step, 0.1 if step < 4 else 0.001) for step in range(1, 9)]}
    facts = RunFacts("run", entropy, settings=Settings({"ppo": {"entropy_coef": -0.1}}))
    (finding,) = diagnose(facts)
    assert "ppo.entropy_coef is -0.1" in finding.sentence
    assert Setting("ppo.entropy_coef", finding.settings[0].advice, -0.1) == finding.settings[0]


def test_settings_that_the_run_does_not_read_are_left_out() -> None:
    ess = {"ess": [(step, 0.1) for step in range(1, 6)]}

    def keys(**values: Any) -> set[str]:
        (finding,) = diagnose(RunFacts("run", ess, settings=Settings(values)))
        return {s.key for s in finding.settings if s.key.startswith("schedule_options.")}

    assert keys(schedule="streaming") == {"schedule_options.window"}
    assert keys(schedule="sync") == set()
    assert keys(schedule="of.my.own:Schedule") == keys()
    assert keys() == {"schedule_options.window", "schedule_options.max_staleness"}
    mishaps = {"batch.mishaps": [(step, 0.9) for step in range(1, 6)]}
    (finding,) = diagnose(
        RunFacts("run", mishaps, settings=Settings({"env": {"id": "me/thing-v0"}}))
    )
    assert not [s for s in finding.settings if s.key.startswith("env.options.")]


def test_advice_is_for_the_run_that_was_looked_at() -> None:
    idle = {"engine_idle_share": [(step, 0.9) for step in range(1, 6)]}

    def advised(**values: Any) -> dict[str, Any]:
        (finding,) = diagnose(RunFacts("run", idle, settings=Settings(values)))
        return {s.key: s.now for s in finding.settings}

    assert {"schedule", "rollout.replicas"} <= advised(
        schedule="sync", rollout={"replicas": 2}
    ).keys()
    assert (
        not {"schedule", "rollout.replicas"}
        & advised(schedule="relay", rollout={"replicas": 1}).keys()
    )
    mishaps = {"batch.mishaps": [(step, 0.9) for step in range(1, 6)]}
    reward = {"train_options": {"reward": {"mishap": -0.3}}}
    (finding,) = diagnose(RunFacts("run", mishaps, settings=Settings({"env": reward})))
    assert {s.key: s.now for s in finding.settings}["env.train_options.reward.mishap"] == -0.3


def test_the_gravest_comes_first_and_what_is_over_last() -> None:
    points = range(1, 12)
    series = {
        "engine_idle_share": [(step, 0.9) for step in points],
        "clip_fraction": [(step, 0.9 if step < 5 else 0.0) for step in points],
        "capped_fraction": [(step, 0.9) for step in points],
        "ess": [(step, 0.1) for step in points],
    }
    names = [finding.name for finding in diagnose(RunFacts("run", series))]
    assert names == ["low_ess", "capped_tokens", "clipped", "engine_idle"]


def test_a_run_by_groups_has_no_value_head_to_blame() -> None:
    points = range(1, 12)
    series = {
        "explained_variance": [(step, 0.0) for step in points],
        "value": [(step, 0.0) for step in points],
        "batch.groups_equal": [(step, 0.9) for step in points],
    }
    assert [f.name for f in diagnose(RunFacts("run", series))] == ["equal_groups"]
    values = {**series, "value": [(step, 0.2) for step in points]}
    assert [f.name for f in diagnose(RunFacts("run", values))] == ["value_useless"]


@pytest.mark.parametrize("credit", ["turn_gae", "token_gae", "outcome+turn_gae"])
def test_late_credit_is_told_where_nothing_spreads_it(credit: str) -> None:
    points = range(1, 5)
    series = {
        "batch.last_reward": [(step, 1.0) for step in points],
        "batch.turns": [(step, 10.0) for step in points],
    }

    def left(credit: str, gamma: float) -> list[float]:
        settings = Settings({"credit": credit, "ppo": {"gamma": gamma}})
        return [f.figure for f in diagnose(RunFacts("run", series, settings=settings))]

    assert left(credit, 0.99) == []
    assert left(credit, 0.9) == [pytest.approx(0.9**10)]
    assert left(f"attention+{credit}", 0.9) == []


def test_a_spell_needs_three_of_four() -> None:
    def over(*values: float) -> tuple[int, int | None] | None:
        one = spell(list(enumerate(values, start=1)), lambda value: value > 0.5)
        return None if one is None else (one.since, one.until)

    assert over(1, 1) is None
    assert over(1, 1, 1) == (1, None)
    assert over(1, 0, 1, 0, 1, 0, 1) is None
    assert over(1, 1, 0, 1, 0) == (1, None)
    assert over(1, 1, 1, 0, 0) == (1, 3)
    assert over(1, 1, 1, 0, 0, 0, 0, 1, 1, 1) == (8, None)
