"""``agentic-gym simulate`` and the schedules by name."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agentic_gym.config import dump_config
from agentic_gym.errors import ConfigError, MissingDependency
from agentic_gym.trainers.schedules.registry import (
    make_schedule,
    schedule_names,
    schedule_options,
)
from agentic_gym.trainers.schedules.relay import Relay
from agentic_gym.trainers.simulation.commands import SIMULATE
from agentic_gym.trainers.simulation.run import simulate
from agentic_gym.trainers.simulation.settings import SimulateConfig, read_settings

SMALL = ["--batch-size", "8", "--group-size", "2", "--updates", "3", "--warmup", "1"]


def printed(capsys: pytest.CaptureFixture[str], *argv: str) -> dict[str, Any]:
    assert SIMULATE.run([*SMALL, "--format", "json", *argv]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


# ---- the command -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", schedule_names())
def test_every_schedule_can_be_simulated(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    report = printed(capsys, "--schedule", name, "--replicas", "2")
    assert (report["schedule"], report["simulated"]) == (name, True)
    assert report["ledger"]["trained"] == 24


def test_a_table_is_the_default(capsys: pytest.CaptureFixture[str]) -> None:
    assert SIMULATE.run(SMALL) == 0
    assert "sync: simulated" in capsys.readouterr().out


def test_options_reach_the_schedule(capsys: pytest.CaptureFixture[str]) -> None:
    argv = ("--schedule", "bounded_async", "--option", "max_staleness=0")
    assert printed(capsys, *argv)["staleness_counts"] == {"0": 16}
    stale = printed(capsys, *argv[:-1], "max-staleness=3", "--option=on_publish=keep_kv")
    assert max(map(int, stale["staleness_counts"])) > 0


def test_a_file_and_flags_and_options_go_together(tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(
        "schedule: relay\nschedule_options: {max_staleness: 2, buffer_size: 4096}\ncluster: {replicas: 3}\n"
    )
    config = read_settings(
        ["--config", str(path), "--option", "max_staleness=5", "--replicas=7", "--seed", "1"]
    )
    assert config.schedule_options == {"max_staleness": 5, "buffer_size": 4096}
    assert (config.cluster.replicas, config.seed) == (7, 1)
    dump_config(config, path)
    assert read_settings(["--config", str(path)]) == config


def test_a_picture_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "run.svg"
    printed(capsys, "--gantt", str(path), "--gantt-from", "5", "--gantt-seconds", "60")
    assert "sync: simulated, 5 to 65 s" in path.read_text()


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--schedul", "sync"], "Did you mean '--schedule'"),
        (["--cluster.replica", "2"], "Did you mean '--cluster.replicas'"),
        (["--replicas", "none"], "replicas"),
        (["--schedule", "syn"], "there is no schedule 'syn'. Did you mean 'sync'"),
        (["--option", "max_retry=1"], "reads no 'max_retry'. Did you mean 'max_retries'"),
        (["--option", "max_retries"], "--option needs NAME=VALUE, not 'max_retries'"),
        (["--option"], "--option needs NAME=VALUE"),
        (["--option", "max_retries=-1"], "max_retries=-1"),
        (["--schedule", "relay", "--option", "repack_seconds=soon"], "cannot use repack_seconds"),
        (["--updates", "2", "--warmup", "2"], "leaves none of updates=2 to measure"),
        (["--trace", "nowhere"], "there is no trace at nowhere"),
        (["--trace", "x", "--workload.sigma", "2"], "workload is read only without a trace"),
        (["--gantt-from", "3"], "gantt_from is read only with gantt"),
        (["--gantt", "no/such/folder.svg"], "not a file in a folder that exists"),
        (["--cluster.push-seconds", "2"], "push_seconds is read only when transfer is 'relay'"),
        (["--cluster.kv-capacity", "100"], "raise kv_capacity"),
        (["--batch-size", "9"], "batch_size=9 must be a positive multiple"),
    ],
)
def test_mistakes_are_named(argv: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=message.replace("(", r"\(")):
        SIMULATE.run([*SMALL[:4], *argv])


def test_a_configuration_of_a_training_run_is_recognised(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("credit_options: {}\nppo: {updates: 3}\nenv: {}\nseed: 3\n")
    with pytest.raises(ConfigError) as caught:
        SIMULATE.run(["--config", str(path)])
    said = str(caught.value)
    assert "unknown keys 'credit_options', 'ppo', 'env'. This is a configuration of agentic" in said
    assert said.count("Known: ") == said.count("agentic-gym train") == 1
    assert "Did you mean" not in said


def test_settings_have_a_seed_that_changes_everything() -> None:
    def seconds(seed: int) -> float:
        return simulate(SimulateConfig(batch_size=8, updates=2, warmup=0, seed=seed)).now

    assert seconds(0) == seconds(0) != seconds(1)


def test_simpy_is_asked_for_where_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "simpy", None)
    with pytest.raises(MissingDependency, match=r"agentic-gym\[simulate\]"):
        SIMULATE.run(SMALL)


# ---- schedules by name -----------------------------------------------------------------------------


def test_schedules_are_made_by_name() -> None:
    for name in schedule_names():
        schedule = make_schedule(name, 8, 2, 16, 2)
        assert schedule.state_dict() is not None
        assert "batch_size" not in schedule_options(name)
        assert "max_concurrent" not in schedule_options(name)


def test_the_machinery_is_passed_on_once() -> None:
    with pytest.raises(ConfigError, match="reads no 'max_concurrent'"):
        make_schedule("bounded_async", 8, 2, 16, max_concurrent=3)
    with pytest.raises(ConfigError, match="no room for a group of 4"):
        make_schedule("bounded_async", 8, 4, 3)
    with pytest.raises(ConfigError, match="replicas=0"):
        make_schedule("sync", 8, 4, 3, 0)
    shared = make_schedule("relay", 8, 2, 16, 4)
    assert isinstance(shared, Relay)
    assert shared._roofline_batch == 4
    given = make_schedule("relay", 8, 2, 16, 4, roofline_batch=9)
    assert isinstance(given, Relay)
    assert given._roofline_batch == 9


@pytest.mark.slow  # a process of its own
def test_schedules_by_name_load_no_torch() -> None:
    code = (
        "import sys; from agentic_gym.trainers.schedules.registry import *\n"
        "for name in schedule_names(): make_schedule(name, 8, 2, 16)\n"
        "print({'torch', 'simpy'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
