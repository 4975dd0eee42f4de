"""``agentic-gym envs``."""

import json
import sys
from pathlib import Path

import pytest

from agentic_gym.cli_envs import COMMAND
from agentic_gym.errors import EnvContractError, RegistrationError
from agentic_gym.registration import register
from agentic_gym.testing import EchoEnv


class Broken(EchoEnv):
    def close(self) -> None:
        raise RuntimeError("stuck")


def test_list(capsys: pytest.CaptureFixture[str]) -> None:
    register("tests/listed-v0", EchoEnv, max_turns=3)
    for arguments in ([], ["list"]):
        assert COMMAND.run(arguments) == 0
        lines = capsys.readouterr().out.splitlines()
        assert any(
            line.split() == ["tests/listed-v0", "agentic_gym.testing:EchoEnv", "(max_turns=3)"]
            for line in lines
        )
    assert COMMAND.run(["list", "--format", "json"]) == 0
    rows = {row.pop("id"): row for row in json.loads(capsys.readouterr().out)}
    assert rows["tests/listed-v0"] == {
        "entry_point": "agentic_gym.testing:EchoEnv",
        "options": {"max_turns": 3},
    }


def test_check_finds_a_module_in_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "env_of_this_folder.py").write_text(
        "import agentic_gym\n"
        "from agentic_gym.testing import EchoEnv\n"
        "agentic_gym.register('tests/folder-v0', EchoEnv)\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [*sys.path])
    assert COMMAND.run(["check", "env_of_this_folder:tests/folder-v0"]) == 0
    assert "keeps the contract" in capsys.readouterr().out
    sys.modules.pop("env_of_this_folder")


def test_check(capsys: pytest.CaptureFixture[str]) -> None:
    register("tests/listed-v0", EchoEnv, max_turns=3)
    register("tests/broken-v0", Broken)
    assert COMMAND.run(["check", "tests/listed-v0"]) == 0
    assert capsys.readouterr().out == "tests/listed-v0 keeps the contract\n"
    with pytest.raises(EnvContractError, match="stuck"):
        COMMAND.run(["check", "tests/broken-v0"])
    with pytest.raises(RegistrationError, match="Did you mean"):
        COMMAND.run(["check", "tests/lsted-v0"])
