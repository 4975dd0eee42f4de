"""``agentic-gym doctor`` as a user runs it."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

CALL = "import sys; from agentic_gym.cli import main; sys.exit(main())"


@pytest.mark.slow
def test_doctor_prints_one_json_object() -> None:
    command = [sys.executable, "-c", CALL, "doctor", "--format", "json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    found = json.loads(done.stdout)
    assert done.returncode == (0 if found["healthy"] else 1)
    assert {"machine", "packages", "sandboxes", "engines"} < set(found)
    assert any(package["name"] == "gymnasium" and package["ok"] for package in found["packages"])
    for trial in found["sandboxes"].values():
        assert trial["works"] == ("error" not in trial["facts"])
