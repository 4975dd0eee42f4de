"""``agentic-gym eval`` and ``examples/evaluate_swe.py``: what they refuse, write, leave behind and print."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from agentic_gym.cli import main
from agentic_gym.config import dump_config
from agentic_gym.envs.swe import eval_command
from agentic_gym.envs.swe.eval_command import EVAL, EvalConfig, run_ablation, run_eval
from agentic_gym.errors import ConfigError, TaskError
from agentic_gym.evaluation import EvalResult, summarise
from agentic_gym.store import RunStore
from agentic_gym.types import Outcome, Trajectory

SCRIPT = Path(__file__).parents[2] / "examples" / "evaluate_swe.py"


def load_example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("example_evaluate_swe", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def played(task: str, outcome: Outcome = Outcome.SOLVED) -> Trajectory:
    return Trajectory(
        trajectory_id=f"eval/{task}/0",
        task_id=task,
        group_id=task,
        seed=0,
        prompt="",
        turns=(),
        tokens=None,
        outcome=outcome,
        terminated=True,
        truncated=False,
        tags={"split": "dev"},
    )


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Evaluations that play nothing, and say which tasks they were asked for."""
    asked: list[str] = []

    def evaluate(env: Any, *, task_ids: list[str], store: Any, name: str, **_: Any) -> EvalResult:
        asked.extend(task_ids)
        episodes = [played(task) for task in task_ids]
        if store is not None:
            store.record_eval(name, episodes)
        return summarise(episodes)

    monkeypatch.setattr(eval_command, "evaluate", evaluate)
    monkeypatch.setattr(eval_command, "choose_backend", lambda *_, **__: None, raising=False)
    return asked


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"agent": "golden"}, ConfigError),
        ({"agent": str(Path(__file__).parent)}, ConfigError),  # a folder, and no model
        ({"backend": "bubblewarp"}, ConfigError),
        ({"backend": "unsafe"}, ConfigError),
        ({"tasks": "pockt"}, TaskError),
        ({"split": "trian"}, TaskError),
    ],
)
def test_what_is_refused_leaves_no_folder(
    tmp_path: Path, change: dict[str, str], error: type[Exception]
) -> None:
    folder = tmp_path / "a" / "b"
    with pytest.raises(error):
        run_eval(EvalConfig(**{"agent": "gold", "output_dir": folder} | change))
    assert not list(tmp_path.iterdir())


def test_reminders_are_refused_where_nothing_would_come_of_them(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="ablate_goal_reminder=4 must be below max_turns=4"):
        EVAL.run(["--agent", "gold", "--max-turns", "4", "--ablate-goal-reminder", "4"])
    config = EvalConfig(agent="gold", output_dir=tmp_path / "out", ablate_goal_reminder=3)
    with pytest.raises(ConfigError, match="compares two evaluations of one agent"):
        run_eval(config)
    with pytest.raises(ConfigError, match="ablate_goal_reminder=0 compares nothing"):
        run_ablation(config.model_copy(update={"ablate_goal_reminder": 0}))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("stop", [KeyboardInterrupt, RuntimeError])
def test_what_fails_before_a_result_gives_the_folder_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quick: list[str], stop: type[BaseException]
) -> None:
    kept = tmp_path / "mine"
    kept.mkdir()
    (kept / "notes.txt").touch()
    with monkeypatch.context() as patched:

        def fails(*_: Any, **__: Any) -> None:
            assert {"config.yaml", "run.sqlite"} <= {path.name for path in kept.iterdir()}
            raise stop

        patched.setattr(eval_command, "evaluate", fails)
        with pytest.raises(stop):
            run_eval(EvalConfig(agent="gold", output_dir=kept))
    assert [path.name for path in kept.iterdir()] == ["notes.txt"]
    run_eval(EvalConfig(agent="gold", num_tasks=2, output_dir=kept))
    assert json.loads((kept / "eval.json").read_text())["counted"] == 2
    with RunStore(kept, readonly=True) as store:
        assert len(store.eval_trajectories("eval")) == 2


def test_episodes_that_were_kept_stay_whatever_comes_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stores_and_fails(*_: Any, store: RunStore, **__: Any) -> None:
        store.record_eval("eval", [played("a")])
        raise KeyboardInterrupt

    monkeypatch.setattr(eval_command, "evaluate", stores_and_fails)
    monkeypatch.setattr(eval_command, "choose_backend", lambda *_, **__: None, raising=False)
    with pytest.raises(KeyboardInterrupt):
        run_eval(EvalConfig(agent="gold", output_dir=tmp_path / "out"))
    with RunStore(tmp_path / "out", readonly=True) as store:
        assert len(store.eval_trajectories("eval")) == 1


def test_a_taken_folder_is_refused_and_kept(tmp_path: Path, quick: list[str]) -> None:
    config = EvalConfig(agent="gold", num_tasks=1, output_dir=tmp_path)
    run_eval(config)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(ConfigError, match="already holds a run: give another"):
        run_eval(config)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_what_a_killed_evaluation_left_is_told_from_a_run(tmp_path: Path) -> None:
    config = EvalConfig(agent="gold", output_dir=tmp_path)
    dump_config(config, tmp_path / "config.yaml")
    with pytest.raises(ConfigError, match=r"no result .remove the folder if it was killed"):
        run_eval(config)


def test_a_folder_that_cannot_be_made_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "afile").touch()
    for folder in (str(tmp_path / "afile"), "/proc/nope", "x" * 5000):
        flags = ["eval", "--agent", "gold", "--num-tasks", "1", "--output-dir", folder]
        assert main(flags) == 2
        said = capsys.readouterr().err
        assert f"ConfigError: output_dir={folder!r} cannot be made" in said
        assert "Traceback" not in said


def test_the_result_is_printed_once(
    tmp_path: Path, quick: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert EVAL.run(["--agent", "gold", "--num-tasks", "2", "--output-dir", str(out)]) == 0
    said = capsys.readouterr().out
    assert said.count("Success rate") == 1
    assert sum(line.startswith("│ gold ") for line in said.splitlines()) == 1
    assert "│ dev " in said
    assert json.loads(said[said.index("{") :]) == {"output_dir": str(out), "success": 1.0}


def test_no_counted_episode_is_null_in_what_is_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = summarise([played("a", Outcome.INFRA_ERROR)])
    monkeypatch.setattr(eval_command, "run_eval", lambda config: broken)
    assert EVAL.run(["--agent", "gold", "--output-dir", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert "1 │ unknown" in said
    assert "nan" not in said.lower()
    assert json.loads(said[said.index("{") :])["success"] is None


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["gold", "nop"], "agent='nop' is none of"),
        (["gold", "gold"], "give it once"),
        (["--num-tasks", "1", "gold"], "'gold' stands behind flags. Agents come first"),
        (["--num-tasks", "1", "glod"], "'glod' stands behind flags"),
        (["--num-tasks", "gold"], "num.tasks"),
        (["gold", "--num-task", "1"], "Did you mean '--num-tasks'"),
    ],
)
def test_the_example_refuses_before_any_agent_plays(
    words: list[str], message: str, quick: list[str]
) -> None:
    with pytest.raises(ConfigError, match=message):
        load_example().main(words)
    assert not quick


def test_the_example_gives_each_agent_a_folder_and_a_row(
    tmp_path: Path, quick: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["gold", "noop", "--num-tasks", "1", "--output-dir", str(tmp_path)]
    assert load_example().main(words) == 0
    assert {path.name for path in tmp_path.iterdir()} == {"gold", "noop"}
    said = capsys.readouterr().out
    assert "│ gold " in said
    assert "│ noop " in said


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "status"), [("nop", 2), ("--help | true", 0), ("--help | head -2 >/dev/null", 0)]
)
def test_the_script_ends_quietly(line: str, status: int) -> None:
    script = f"set -o pipefail; {sys.executable} {SCRIPT} {line}"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == status, done.stderr
    assert "Traceback" not in done.stderr
    assert "BrokenPipe" not in done.stderr
    assert done.stderr.startswith("evaluate_swe.py: ConfigError" if status else "")


def test_the_word_for_no_sandbox_is_read_with_the_backend_that_has_none() -> None:
    with pytest.raises(ConfigError, match="allow_unsafe is read only when backend is 'unsafe'"):
        EvalConfig(agent="gold", allow_unsafe=True)
    assert EvalConfig(agent="gold", backend="unsafe", allow_unsafe=True).allow_unsafe
