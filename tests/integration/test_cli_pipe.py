"""The installed command in a pipe."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow
def test_a_reader_that_goes_away_is_no_error() -> None:
    command = shlex.quote(str(Path(sys.executable).with_name("agentic-gym")))
    script = f"set -o pipefail; {command} doctor --format json | true"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
