"""The command line: finding commands, exit statuses, messages."""

from __future__ import annotations

import importlib.metadata
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentic_gym.cli import main

PLUGIN = """
from agentic_gym.cli import Command
from agentic_gym.errors import ConfigError, SandboxDead

def run(argv):
    if argv == ["user"]:
        raise ConfigError("lr=-1 must be positive")
    if argv == ["infra"]:
        raise SandboxDead("gone")
    if argv == ["interrupt"]:
        raise KeyboardInterrupt
    print("ran with", argv)
    return 7

COMMAND = Command("sample", "a sample command", run)
"""


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An installed package with a command of its own, and one whose module is missing."""
    (tmp_path / "sample_plugin.py").write_text(PLUGIN)
    info = tmp_path / "sample_plugin-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: sample-plugin\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[agentic_gym.commands]\nsample = sample_plugin:COMMAND\nbroken = no_such_module:COMMAND\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    yield
    sys.modules.pop("sample_plugin", None)


@pytest.mark.usefixtures("plugin")
def test_an_installed_package_adds_a_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sample", "--x", "1"]) == 7
    assert capsys.readouterr().out == "ran with ['--x', '1']\n"


@pytest.mark.slow  # every command is loaded
@pytest.mark.usefixtures("plugin")
@pytest.mark.parametrize("argv", [[], ["--help"], ["help"], ["-h"]])
def test_usage_lists_commands_also_when_one_is_broken(
    argv: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(argv) == 0
    text = capsys.readouterr().out
    assert "a sample command" in text
    assert "(cannot be loaded: No module named 'no_such_module')" in text
    for name in ("doctor", "envs", "eval", "tasks", "train"):
        assert f"\n  {name} " in text


@pytest.mark.usefixtures("plugin")
@pytest.mark.parametrize(
    ("argument", "status", "message"),
    [
        ("user", 2, "agentic-gym sample: ConfigError: lr=-1 must be positive\n"),
        ("infra", 3, "agentic-gym sample: SandboxDead: gone\n"),
        ("interrupt", 130, "interrupted\n"),
    ],
)
def test_statuses_tell_errors_apart(
    argument: str, status: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["sample", argument]) == status
    assert capsys.readouterr().err == message


@pytest.mark.usefixtures("plugin")
def test_a_package_that_is_missing_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["broken"]) == 2
    assert "agentic-gym broken needs no_such_module" in capsys.readouterr().err
    with pytest.raises(ModuleNotFoundError):
        main(["--debug", "broken"])


@pytest.mark.usefixtures("plugin")
def test_debug_shows_the_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--debug", "sample", "user"]) == 2
    assert "Traceback" in capsys.readouterr().err


def test_an_unknown_command_gets_a_suggestion(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["docter"]) == 2
    assert "no command 'docter'. Did you mean 'doctor'?" in capsys.readouterr().err


def test_a_wrong_flag_is_an_error_of_the_user(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--fromat", "json"]) == 2
    assert "Did you mean '--format'?" in capsys.readouterr().err


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.strip() == importlib.metadata.version("agentic-gym")
