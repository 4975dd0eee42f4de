"""The example of a custom environment: the script, and the same text in the README."""

import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "examples" / "custom_env.py"


@pytest.mark.slow
def test_it_runs_and_its_scripted_policy_solves_every_episode(
    capsys: pytest.CaptureFixture[str],
) -> None:
    runpy.run_path(str(SCRIPT), run_name="__main__")
    assert " 100.0 [" in capsys.readouterr().out  # per cent of 100 episodes, then its interval


def test_it_has_fewer_than_forty_lines_of_code() -> None:
    assert len([line for line in SCRIPT.read_text().splitlines() if line.strip()]) < 40


def test_the_readme_shows_it() -> None:
    shown = SCRIPT.read_text().split('"""\n\n', 1)[1]
    assert f"```python test\n{shown}```" in (ROOT / "README.md").read_text()
