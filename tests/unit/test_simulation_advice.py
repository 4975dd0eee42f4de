"""Which schedule suits a run: the rules, and the command on a recorded one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from agentic_gym.errors import ConfigError
from agentic_gym.store import LaunchRecord, RunStore
from agentic_gym.trainers.simulation.advice import Facts, candidates, choose, measure
from agentic_gym.trainers.simulation.commands import run_advise
from agentic_gym.types import Outcome, TokenStream, Trajectory, Turn

pytest.importorskip("simpy", reason="simulating needs agentic-gym[simulate]")


def facts(**changes: Any) -> Facts:
    given: dict[str, Any] = {
        "episodes": 10, "tail": 0.1, "seconds": {}, "nodes": 1, "elastic": False,
        "consistency": "mixed",
    }  # fmt: skip
    return Facts(**{**given, **changes})


@pytest.mark.parametrize(
    ("changes", "schedule"),
    [
        ({"consistency": "strict", "tail": 0.5, "nodes": 99}, "tail_batching"),
        ({"consistency": "mixed", "tail": 0.5, "nodes": 99}, "bounded_async"),
        ({"consistency": "single_version", "nodes": 99}, "streaming"),
        ({"consistency": "single_version", "elastic": True}, "relay"),
    ],
)
def test_consistency_comes_first(changes: dict[str, Any], schedule: str) -> None:
    assert choose(facts(**changes)).schedule == schedule


@pytest.mark.parametrize(
    ("changes", "schedule", "keeps"),
    [
        ({"tail": 0.4, "nodes": 51}, "relay", True),
        ({"tail": 0.4, "nodes": 50}, "streaming", True),
        ({"tail": 0.4, "consistency": "strict"}, "streaming", False),
        ({"tail": 0.3, "consistency": "strict"}, "tail_batching", True),
        ({"tail": 0.3, "consistency": "single_version"}, "bounded_async", False),
    ],
)
def test_the_popular_tree_asks_for_the_tail_and_says_what_it_breaks(
    changes: dict[str, Any], schedule: str, keeps: bool
) -> None:
    choice = choose(facts(**changes), "seed")
    assert choice.schedule == schedule
    assert ("does not keep" not in choice.why) is keeps


def test_an_episode_is_long_beyond_three_times_the_median() -> None:
    found = measure([1.0] * 7 + [3.0, 3.1, 50.0], nodes=1, elastic=False, consistency="mixed")
    assert found.tail == 0.2


def test_redundancy_follows_the_measured_tail() -> None:
    assert candidates(64, 4, 0.0)["tail_batching"] == [{"prompt_redundancy": 1.0}]
    [options] = candidates(64, 4, 0.2)["tail_batching"]
    assert 1.25 < options["prompt_redundancy"] < 2


@pytest.fixture
def trained(tmp_path: Path) -> Path:
    """The folder of a run of four batches, every eighth episode of which is long."""
    with RunStore(tmp_path) as store:
        for update in range(1, 5):
            names = []
            for member in range(8):
                name = f"g{update:06d}.{member:02d}"
                store.launch([LaunchRecord(name, f"t{update % 2}", f"g{update:06d}", 0, 0)])
                store.finish(episode(name, f"t{update % 2}", 40.0 if member == 7 else 2.0))
                names.append(name)
            store.record_batch(update, names)
            store.mark_trained(update)
            store.log_metrics(update, {"time_score_s": 1.0, "time_optimise_s": 3.0})
    (tmp_path / "config.yaml").write_text("seed: 7\nrollout: {concurrency: 8}\n")
    return tmp_path


def episode(name: str, task: str, seconds: float) -> Trajectory:
    tokens = TokenStream(
        ids=np.arange(8, dtype=np.int32),
        sampled=np.arange(8) >= 4,
        logprobs=np.zeros(8, np.float32),
        versions=np.where(np.arange(8) >= 4, 0, -1).astype(np.int32),
        turns=np.where(np.arange(8) >= 4, 0, -1).astype(np.int32),
    )
    turn = Turn("act", "see", 0.0, generate_s=0.1, step_s=seconds - 0.1)
    return Trajectory(
        name, task, name[:7], 0, "fix it", (turn,), tokens, Outcome.SOLVED, True, False,
        metrics={"duration_s": seconds},
    )  # fmt: skip


def test_a_run_is_measured_simulated_and_written(
    trained: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = trained / "next.yaml"
    arguments = ["--run", str(trained), "--nodes", "2", "--updates", "6", "--format", "json"]
    assert run_advise([*arguments, "--write", str(target)]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["episodes"], found["long_tail_share"]) == (32, 0.125)
    assert found["schedule"] == "bounded_async"
    assert set(found["simulated"]) == {
        "sync", "tail_batching", "bounded_async", "streaming", "relay",
    }  # fmt: skip
    rates = {name: s["trajectories_per_s"] for name, s in found["simulated"].items()}
    assert rates["bounded_async"] > 1.5 * rates["sync"]
    written = yaml.safe_load(target.read_text())
    assert written["schedule"] == "bounded_async"
    assert written["schedule_options"] == found["schedule_options"]
    assert written["seed"] == 7
    assert written["rollout"] == {"concurrency": 8, "replicas": 2}


def test_advice_to_relay_comes_with_relays(trained: Path) -> None:
    target = trained / "relay.yaml"
    arguments = ["--run", str(trained), "--nodes", "3", "--consistency", "single_version"]
    assert run_advise([*arguments, "--elastic", "--updates", "4", "--write", str(target)]) == 0
    written = yaml.safe_load(target.read_text())
    assert written["schedule"] == "relay"
    rollout = written["rollout"]
    assert (rollout["replicas"], rollout["relays"], rollout["relay_heartbeat_s"]) == (3, 3, 0.2)


def test_the_table_names_the_choice(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--trace", str(trained / "run.sqlite"), "--consistency", "strict"]
    assert run_advise([*arguments, "--updates", "4"]) == 0
    said = capsys.readouterr().out
    assert "advice: tail_batching" in said
    assert "simulated" in said


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "give either run"),
        (["--run", "a", "--trace", "b"], "give either run"),
        (["--run", "/nowhere"], "there is no trace"),
        (["--run", "/nowhere", "--rul", "seed"], "Did you mean '--rule'"),
    ],
)
def test_bad_arguments_are_refused(arguments: list[str], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        run_advise(arguments)


def test_a_run_that_has_not_trained_is_refused(tmp_path: Path) -> None:
    RunStore(tmp_path).close()
    with pytest.raises(ConfigError, match="give a run that trained"):
        run_advise(["--run", str(tmp_path)])
