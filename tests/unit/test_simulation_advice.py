"""Which schedule suits a run: the rules, and the command on a recorded one."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from rich.console import Console

from agentic_gym.config import read_yaml
from agentic_gym.errors import ConfigError
from agentic_gym.store import LaunchRecord, RunStore
from agentic_gym.trainers.run_config import TrainConfig, schedule_of
from agentic_gym.trainers.simulation.advice import Facts, candidates, choose, measure
from agentic_gym.trainers.simulation.advice_config import new_folder
from agentic_gym.trainers.simulation.advice_report import Advice
from agentic_gym.trainers.simulation.advise import AdviseConfig, advise
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
                store.finish(episode(name, f"t{update % 2}", 10.0 if member == 7 else 0.5))
                names.append(name)
            store.record_batch(update, names)
            store.mark_trained(update)
            store.log_metrics(update, {"time_score_s": 0.25, "time_optimise_s": 0.75})
    (tmp_path / "config.yaml").write_text(
        f"seed: 7\noutput_dir: {tmp_path}\nrollout: {{concurrency: 8, relay_heartbeat_s: 0.2}}\n"
        "ppo: {stream: true, ppo_epochs: 1, minibatch_size: 64}\n"
    )
    return tmp_path


def advised(capsys: pytest.CaptureFixture[str], run: Path, *arguments: str) -> dict[str, Any]:
    """What the command finds on a run, as JSON."""
    assert run_advise(["--run", str(run), "--format", "json", *arguments]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


@pytest.fixture
def even(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run whose episodes all take the same time."""
    folder = tmp_path_factory.mktemp("even")
    with RunStore(folder) as store:
        for update in range(1, 3):
            names = [f"g{update:06d}.{member:02d}" for member in range(8)]
            for name in names:
                store.launch([LaunchRecord(name, "t", name[:7], 0, 0)])
                store.finish(episode(name, "t", 0.5))
            store.record_batch(update, names)
            store.mark_trained(update)
            store.log_metrics(update, {"time_score_s": 0.25, "time_optimise_s": 0.75})
    return folder


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
    assert written["rollout"] == {"concurrency": 16, "replicas": 2, "relays": 0}
    assert (found["concurrency"], found["replicas"], found["relays"]) == (16, 2, 0)
    for row in found["simulated"].values():
        assert 0 <= row["idle_share"] <= 1
        assert row["updates"] == 6


def test_advice_to_relay_comes_with_relays(trained: Path) -> None:
    target = trained / "relay.yaml"
    arguments = ["--run", str(trained), "--nodes", "3", "--consistency", "single_version"]
    assert run_advise([*arguments, "--elastic", "--updates", "4", "--write", str(target)]) == 0
    written = yaml.safe_load(target.read_text())
    assert written["schedule"] == "relay"
    rollout = written["rollout"]
    assert (rollout["replicas"], rollout["relays"], rollout["relay_heartbeat_s"]) == (3, 3, 0.2)
    assert rollout["concurrency"] == 24


def test_the_table_names_the_choice(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--trace", str(trained / "run.sqlite"), "--consistency", "strict"]
    assert run_advise([*arguments, "--updates", "4"]) == 0
    said = capsys.readouterr().out
    assert "advice: tail_batching" in said
    assert "simulated" in said


@pytest.mark.parametrize(
    ("arguments", "schedule", "stream"),
    [
        (["--consistency", "mixed", "--nodes", "3"], "bounded_async", False),
        (
            ["--consistency", "strict", "--batch-size", "16", "--group-size", "4"],
            "tail_batching",
            True,
        ),
        (["--consistency", "single_version", "--nodes", "2"], "streaming", False),
    ],
)
def test_what_is_written_is_what_was_simulated_and_can_be_trained(
    trained: Path,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    schedule: str,
    stream: bool,
) -> None:
    target = trained / "next.yaml"
    found = advised(capsys, trained, *arguments, "--updates", "3", "--write", str(target))
    config = read_yaml(TrainConfig, target)
    schedule_of(config)  # its schedule takes these options, and stages where it is asked to
    row = found["simulated"][schedule]
    assert (config.schedule, config.schedule_options) == (schedule, row["options"])
    assert config.rollout.replicas == row["replicas"] == found["nodes"]
    assert config.rollout.relays == row["relays"]
    assert config.rollout.concurrency == found["concurrency"] == 8 * found["nodes"]
    assert config.ppo.episodes_per_update == found["batch_size"]
    assert config.ppo.group_size == found["group_size"]
    assert config.ppo.stream is stream
    assert str(config.output_dir) == f"{trained}-{schedule}"


def test_the_next_command_is_printed(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = trained / "my next.yaml"
    arguments = ["--trace", str(trained / "run.sqlite"), "--updates", "3", "--write", str(target)]
    assert run_advise(arguments) == 0
    said = capsys.readouterr()
    assert f"wrote {target}: agentic-gym train --config '{target}'\n" in said.out
    assert "ppo.stream is off" in said.out
    (trained / "config.yaml").unlink()
    assert run_advise([*arguments, "--format", "json"]) == 0
    said = capsys.readouterr()
    json.loads(said.out)
    assert f"wrote {target}: " in said.err
    assert "only what was advised" in said.err


def test_the_new_folder_does_not_exist(tmp_path: Path) -> None:
    old = tmp_path / "run"
    taken = [tmp_path / "run-relay", tmp_path / "run-relay-2"]
    for folder in taken:
        assert new_folder(f"{old}/", "relay") == str(folder)
        folder.mkdir()
    assert new_folder(str(old), "relay") == new_folder(str(taken[0]), "relay") == f"{old}-relay-3"


def test_a_node_has_as_many_replicas_and_relays_as_the_run(
    trained: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (trained / "config.yaml").write_text("rollout: {concurrency: 8, replicas: 2, relays: 1}\n")
    found = advised(capsys, trained, "--nodes", "2", "--updates", "3")
    assert (found["replicas"], found["relays"], found["concurrency"]) == (4, 2, 16)
    found = advised(capsys, trained, "--consistency", "single_version", "--updates", "3")
    assert (found["replicas"], found["relays"], found["concurrency"]) == (2, 1, 8)


def test_a_group_fits_on_a_replica_whatever_its_share(
    trained: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--nodes", "4", "--concurrency", "8", "--updates", "3"]
    assert advised(capsys, trained, *arguments)["simulated"]["relay"]["relays"] == 4


def test_one_node_has_a_second_replica_where_that_is_faster(
    even: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = advised(capsys, even, "--consistency", "single_version", "--updates", "6")
    assert found["replicas"] == found["simulated"]["streaming"]["replicas"] == 2
    assert found["simulated"]["sync"]["replicas"] == 1
    assert "2 replicas on the one node" in found["notes"][0]


def test_one_replica_comes_with_a_word_where_a_second_brings_nothing(
    trained: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = advised(capsys, trained, "--consistency", "single_version", "--updates", "6")
    assert found["replicas"] == 1
    assert "only when all its episodes are finished" in found["notes"][0]


def test_a_schedule_that_brings_nothing_is_said_to(
    even: Path, trained: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rule = ["--rule", "seed", "--consistency", "strict", "--updates", "3"]
    found = advised(capsys, even, *rule)
    assert found["schedule"] == "tail_batching"
    assert found["simulated"]["tail_batching"]["of_sync"] == pytest.approx(1.0)
    assert found["notes"] == ["on this trace it brings nothing over sync (1.00x)"]
    assert advised(capsys, trained, *rule)["notes"] == []


@pytest.fixture
def advice(even: Path) -> Advice:
    return advise(AdviseConfig(run=even, consistency="single_version", updates=5))


def printed(advice: Advice, width: int = 80) -> str:
    console = Console(width=width)
    with console.capture() as captured:
        console.print(*advice.render(), sep="\n")
    return captured.get()


def test_idleness_of_few_updates_is_left_out(advice: Advice) -> None:
    rows = {n: replace(r, report=replace(r.report, updates=4)) for n, r in advice.rows.items()}
    few = replace(advice, rows=rows)
    assert "only" not in printed(advice).partition("measured")[2].replace("only when", "")
    assert "only 4 updates were measured" in printed(few)
    for name in rows:
        assert few.to_dict()["simulated"][name]["idle_share"] is None
        idle = advice.rows[name].report.replicas["idle"]
        assert advice.to_dict()["simulated"][name]["idle_share"] == idle
    lines = [line for line in printed(few).splitlines() if line.startswith("│ sync")]
    assert [line.rstrip("│ ")[-1] for line in lines] == ["-"]


def test_the_table_cuts_no_word_and_explains_its_own(advice: Advice) -> None:
    said = printed(advice)
    assert "…" not in said
    assert "│ prompt_redundancy │" in printed(advice, 72)
    for words in ("prompt_redundancy", "replicas 2", "idle: share of the replicas' time", "idle ┃"):
        assert words in said
    assert "P0 (prompts of an update) 1, 8 episode(s) of each; 8 episodes at once" in said


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
