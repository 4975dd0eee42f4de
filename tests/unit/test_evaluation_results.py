"""What an evaluation says: denominators, intervals, breakdowns, agents side by side."""

from __future__ import annotations

import json
import math
import traceback
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import agentic_gym
from agentic_gym.actions import format_action
from agentic_gym.errors import ConfigError
from agentic_gym.evaluation import (
    evaluate,
    make_launches,
    percent,
    results_table,
    success_by_task,
    success_difference,
    summarise,
)
from agentic_gym.metrics import Interval, cluster_mean, pass_at_k
from agentic_gym.store import RunStore
from agentic_gym.testing import EchoEnv, GuessEnv
from agentic_gym.types import Outcome, TokenStream, Trajectory, Turn


def episode(task: str, outcome: Outcome, *, num_turns: int = 2, **changes: Any) -> Trajectory:
    base = Trajectory(
        trajectory_id=f"{task}/x",
        task_id=task,
        group_id=task,
        seed=0,
        prompt="",
        turns=tuple(Turn("a", "o", 0.5) for _ in range(num_turns)),
        tokens=None,
        outcome=outcome,
        terminated=True,
        truncated=False,
        tags={"error_class": "logic"},
        metrics={"duration_s": float(num_turns)},
    )
    return replace(base, **changes)


SOLVED, FAILED, INFRA = Outcome.SOLVED, Outcome.FAILED, Outcome.INFRA_ERROR


def mixed() -> list[Trajectory]:
    return [
        *(episode("a", outcome) for outcome in (SOLVED, SOLVED, FAILED, FAILED)),
        *(episode("b", outcome, num_turns=4) for outcome in (FAILED, Outcome.TRUNCATED, INFRA)),
        episode("c", Outcome.SUSPECTED_HACK, tags={"error_class": "syntax", "split": "held_out"}),
        episode("d", INFRA, error="SandboxDead: gone\nmore"),
        episode("d", INFRA, error="Traceback (most recent call last):\n  File …\nKeyError: 'x'"),
    ]


def test_infra_errors_stand_beside_the_denominator() -> None:
    result = summarise(mixed())
    assert (result.num_tasks, result.num_episodes, result.counted) == (4, 10, 7)
    assert result.success == cluster_mean({"a": [1, 1, 0, 0], "b": [0, 0], "c": [0]})
    assert result.success.value == pytest.approx(2 / 7)
    assert result.outcomes == {
        "solved": 2,
        "failed": 3,
        "truncated": 1,
        "infra_error": 3,
        "suspected_hack": 1,
    }
    assert result.errors == {"unknown": 1, "SandboxDead: gone": 1, "KeyError: 'x'": 1}


def test_pass_at_k_uses_counted_samples() -> None:
    result = summarise(mixed())
    assert result.pass_at[1] == pytest.approx((0.5 + 0 + 0) / 3)
    assert result.pass_at[2] == pytest.approx((pass_at_k(4, 2, 2) + 0) / 2)
    assert result.pass_at[4] == 1.0
    assert list(result.pass_at) == [1, 2, 4]


def test_parts_have_their_own_intervals() -> None:
    result = summarise(mixed())
    logic = result.by["error_class"]["logic"]
    assert (logic.solved, logic.counted) == (2, 6)
    assert logic.success == cluster_mean({"a": [1, 1, 0, 0], "b": [0, 0]})
    assert result.by["split"]["(none)"].counted == 6
    assert "repo" not in result.by
    assert list(summarise(mixed(), axes=("split",)).by) == ["split"]


def test_times_turns_and_tokens() -> None:
    sampled = np.array([True, False, True])
    zeros = np.zeros(3, np.int32)
    tokens = TokenStream(zeros, sampled, np.zeros(3, np.float32), zeros, zeros)
    result = summarise([episode("a", SOLVED, num_turns=n, tokens=tokens) for n in (1, 2, 3)])
    assert result.episode_s["p50"] == 2.0
    assert result.turns["mean"] == 2.0
    assert result.tokens == 2.0
    assert result.reward == 1.0
    assert summarise(mixed()).tokens is None


def test_nothing_is_nan_and_never_a_crash() -> None:
    for episodes in ([], [episode("a", INFRA)]):
        result = summarise(episodes)
        assert math.isnan(result.success.value)
        assert result.to_dict()["success"] == {"value": None, "low": None, "high": None}
        text = result.render()
        assert "nan" not in text
        assert "- │" in text


def test_causes_of_infra_errors_are_shown_with_their_counts() -> None:
    text = summarise(mixed()).render("me")
    for cause in ("unknown", "SandboxDead: gone", "KeyError: 'x'"):
        assert [f"│ me    │        1 │ {cause}" in line for line in text.splitlines()].count(
            True
        ) == 1
    assert "Infra errors" not in summarise([episode("a", SOLVED)]).render()


def test_causes_are_bounded_in_number_and_length_and_safe_to_print() -> None:
    broken = [episode(f"{n}", INFRA, error=f"E{n:02}: \x1b[2J\ud800{'y' * 999}") for n in range(30)]
    text = summarise([*broken, *broken[-1:]]).render("[bold]me")
    assert "E29" in text  # the most frequent first
    assert sum(f"E{n:02}" in text for n in range(30)) == 10
    assert "20 │ (20 other causes)" in text
    assert text.count("y") < 10 * 200 + 50
    assert text.encode().decode().count("\x1b") == 0


def test_the_cause_of_a_traceback_is_the_line_that_names_the_error() -> None:
    try:
        try:
            raise KeyError("inner")
        except KeyError as error:
            raise ValueError("first line\n  second line\nthird line") from error
    except ValueError as error:
        text = "".join(traceback.format_exception(error))
    assert list(summarise([episode("a", INFRA, error=text)]).errors) == ["ValueError: first line"]


def test_a_bug_of_the_agent_ends_its_episodes_alone_and_is_named() -> None:
    def bad(observation: str, info: Mapping[str, Any]) -> str:
        raise KeyError("oops")

    result = evaluate(EchoEnv, bad, episodes=2, progress=False)
    assert result.outcomes["infra_error"] == 2
    assert "2 │ KeyError: 'oops'" in result.render()


def test_every_row_has_a_pass_at_k() -> None:
    one = summarise([episode("a", SOLVED), episode("b", FAILED)])
    assert "pass@1" in one.render()
    assert "50.0" in one.render().split("pass@1")[1].splitlines()[2].split("│")[5]
    assert "pass@1" not in summarise(mixed()).render()
    heads = [column.header for column in results_table({"1": one, "4": summarise(mixed())}).columns]
    assert [head for head in heads if str(head).startswith("pass")] == [
        "pass@1",
        "pass@2",
        "pass@4",
    ]


def test_a_long_name_leaves_the_numbers_whole() -> None:
    result = summarise(mixed())
    text = result.render("runs/" + "long/" * 40)
    assert percent(result.success) in text
    assert "…" not in text


def test_json_is_valid_and_complete() -> None:
    result = summarise(mixed())
    data = json.loads(result.to_json())
    assert data["pass_at"]["2"] == result.pass_at[2]
    assert data["by"]["error_class"]["syntax"]["counted"] == 1
    assert set(data) == set(type(result).__dataclass_fields__)


def test_difference_is_paired_by_task() -> None:
    before = [episode(t, FAILED) for t in "abcd"]
    after = [*(episode(t, SOLVED) for t in "ab"), *(episode(t, FAILED) for t in "cd")]
    assert success_difference(before, after).value == 0.5
    assert success_by_task(mixed())["a"] == [1.0, 1.0, 0.0, 0.0]
    assert "d" not in success_by_task(mixed())


def test_tables_show_agents_side_by_side_and_take_any_name() -> None:
    result = summarise(mixed())
    table = results_table({"[bold]odd": result, "random": result})
    assert table.row_count == 2
    text = result.render("[bold]odd")
    assert "[bold]odd" in text
    assert percent(result.success) in text
    assert "syntax" in text


def test_percent() -> None:
    assert percent(Interval(0.4571, 0.4, 0.51)) == "45.7 [40.0, 51.0]"
    assert percent(Interval(math.nan, math.nan, math.nan)) == "-"
    assert percent(Interval(0.1, -0.02, 0.2), signed=True) == "+10.0 [-2.0, +20.0]"


def test_a_sample_keeps_its_seed_whatever_else_is_played() -> None:
    few = make_launches(["b"], samples_per_task=2, seed=3)
    many = make_launches(["a", "b", "c"], samples_per_task=4, seed=3)
    seeds = {launch.trajectory_id: launch.seed for launch in many}
    assert all(seeds[launch.trajectory_id] == launch.seed for launch in few)
    assert len(set(seeds.values())) == 12
    assert all(0 <= seed < 2**31 for seed in seeds.values())
    assert few[0].options == {"task_id": "b"}
    assert make_launches(["b"], seed=4)[0].seed != few[0].seed


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "either task_ids or episodes"),
        ({"task_ids": ["a"], "episodes": 1}, "either task_ids or episodes"),
        ({"task_ids": []}, "nothing to evaluate"),
        ({"episodes": 0}, "nothing to evaluate"),
        ({"task_ids": ["a", "a"]}, "'a' is among the tasks twice"),
        ({"task_ids": ["a"], "samples_per_task": 0}, "samples_per_task=0"),
        ({"episodes": 2, "samples_per_task": 2}, "needs task_ids"),
    ],
)
def test_launches_refuse_what_makes_no_sense(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make_launches(**arguments)


class Bisect:
    """Finds the number; keeps its bounds from turn to turn, so it cannot be shared."""

    def __init__(self) -> None:
        self.low, self.high, self.guess = 1, 100, 0

    def act(self, observation: str, info: Mapping[str, Any]) -> str:
        if observation == "higher":
            self.low = self.guess + 1
        elif observation == "lower":
            self.high = self.guess - 1
        self.guess = (self.low + self.high) // 2
        return format_action([("guess", {"number": self.guess})])


@pytest.mark.parametrize("agent", [Bisect, Bisect()])
def test_policies_with_state_are_not_shared_between_episodes(agent: Any) -> None:
    result = evaluate(GuessEnv, agent, episodes=12, concurrency=4, progress=False)
    assert result.outcomes["solved"] == 12
    assert result.num_tasks == 12
    assert 1 <= result.turns["mean"] <= 7


def echo_then_stop(observation: str) -> str:
    return format_action([("echo", {"text": "x"}), ("stop", {})])


def test_a_function_of_the_observation_is_an_agent(tmp_path: Path) -> None:
    with RunStore(tmp_path) as store:
        result = evaluate(
            EchoEnv,
            echo_then_stop,
            task_ids=["one", "two"],
            samples_per_task=2,
            store=store,
            name="echo",
            progress=False,
        )
        kept = store.eval_trajectories("echo")
    assert result.outcomes["solved"] == len(kept) == 4
    assert [t.trajectory_id for t in kept] == [
        "echo/one/0",
        "echo/one/1",
        "echo/two/0",
        "echo/two/1",
    ]
    assert summarise(kept) == result


def test_a_bound_method_brings_its_object_anew_to_each_episode() -> None:
    class Once:
        """Stops at its second turn, so that a shared one would stop others at their first."""

        def __init__(self) -> None:
            self.turns = 0

        def move(self, observation: str, info: Mapping[str, Any]) -> str:
            self.turns += 1
            call = ("stop", {}) if self.turns == 2 else ("echo", {"text": "x"})
            return format_action([call])

    once = Once()
    result = evaluate(EchoEnv, once.move, episodes=4, progress=False)
    assert result.outcomes["solved"] == 4
    assert result.turns["mean"] == 2
    assert once.turns == 0


def test_a_registered_id_is_an_environment() -> None:
    agentic_gym.register("tests/evaluation-v0", GuessEnv, max_turns=2)
    guess_one = format_action([("guess", {"number": 1})])
    result = evaluate(
        "tests/evaluation-v0", lambda observation, info: guess_one, episodes=3, progress=False
    )
    assert result.outcomes["truncated"] == 3
    assert result.success.value == 0.0


def test_exactly_one_agent_is_needed() -> None:
    with pytest.raises(ConfigError, match="either an agent or an agent_factory"):
        evaluate(EchoEnv, episodes=1)
