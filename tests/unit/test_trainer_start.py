"""What a run refuses before any work: its folder, its model, words of its command line."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import time
from pathlib import Path

import huggingface_hub.constants
import pytest
from rich.console import Console

from agentic_gym.cli import main
from agentic_gym.errors import CheckpointError, ConfigError
from agentic_gym.trainers.models import check_source
from agentic_gym.trainers.pipeline import Pipeline
from agentic_gym.trainers.preflight import preflight
from agentic_gym.trainers.run_config import TrainConfig

EXAMPLE = Path(__file__).parents[2] / "examples" / "train_swe.py"


@pytest.fixture(params=["file", "below a file", "nowhere"])
def no_folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A path where no folder can be made."""
    (tmp_path / "taken").write_text("mine")
    places = {"file": tmp_path / "taken", "below a file": tmp_path / "taken" / "run"}
    return places.get(request.param, Path("/proc/nope/x"))


@pytest.mark.parametrize("flags", [[], ["--dry-run"]])
def test_an_output_folder_that_cannot_be_made_is_an_error_of_the_user(
    no_folder: Path, flags: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["train", *flags, "--output-dir", str(no_folder)]) == 2
    said = capsys.readouterr().err
    assert f"ConfigError: output_dir='{no_folder}' cannot be made" in said
    assert "give output_dir a folder" in said


@pytest.mark.parametrize("name", ["./nowhere", "a/b/c", "~/nowhere", "here/nowhere"])
def test_a_model_folder_that_does_not_exist_is_refused_before_anything_is_made(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("here").mkdir()
    config = TrainConfig(model=name, output_dir=tmp_path / "run")
    with pytest.raises(CheckpointError, match="there is no such folder"):
        Pipeline(config, console=Console(quiet=True))
    with pytest.raises(CheckpointError, match="there is no such folder"):
        preflight(config, console=Console(quiet=True))
    assert not config.output_dir.exists()


def test_a_name_that_no_hub_can_be_asked_about_is_refused_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        huggingface_hub.constants,
        "HUGGINGFACE_CO_URL_TEMPLATE",
        "http://127.0.0.1:9/{repo_id}/{revision}/{filename}",
    )
    began = time.perf_counter()
    with pytest.raises(CheckpointError, match=r"no such folder here, and the hub.* be reached"):
        check_source("nosuchmodel-of-nobody")
    assert time.perf_counter() - began < 10
    check_source("starter")
    check_source("scratch")


def test_the_help_lists_what_is_no_key(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["train", "--help"])
    text = capsys.readouterr().out
    assert [
        flag for flag in ("--config", "--resume", "--dry-run") if f"  {flag} " not in text
    ] == []
    assert "0 leaves PPO out" in " ".join(text.replace("│", " ").split())
    assert main(["train", "--resme"]) == 2
    assert "Did you mean '--resume'?" in capsys.readouterr().err


def test_the_example_lists_its_switches_and_ends_with_the_status_of_a_users_error(
    capsys: pytest.CaptureFixture[str],
) -> None:
    spec = importlib.util.spec_from_file_location("example_switches", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    with pytest.raises(SystemExit):
        example.main(["--help"])
    assert "  --smoke " in capsys.readouterr().out
    with pytest.raises(ConfigError, match="Did you mean '--smoke'"):
        example.main(["--smoek"])


@pytest.mark.slow
def test_the_example_as_a_script_ends_with_status_2() -> None:
    done = subprocess.run(
        [sys.executable, EXAMPLE, "--resme"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "ConfigError: unknown flag '--resme'." in done.stderr
