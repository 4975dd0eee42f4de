"""The example of a custom environment."""

import ast
import runpy
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "examples" / "custom_env.py"


@pytest.mark.slow
def test_it_runs_and_its_scripted_policy_solves_every_episode(
    capsys: pytest.CaptureFixture[str],
) -> None:
    runpy.run_path(str(SCRIPT), run_name="__main__")
    assert " 100.0 [" in capsys.readouterr().out  # per cent of 100 episodes, then its interval


def test_the_environment_takes_less_than_forty_lines() -> None:
    tree = ast.parse(SCRIPT.read_text())
    (cls,) = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    assert cls.end_lineno is not None
    assert cls.end_lineno - cls.lineno + 1 < 40
