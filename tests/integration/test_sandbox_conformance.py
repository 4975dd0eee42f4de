"""The public conformance suite against every backend of this machine, as root and as an ordinary user."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from agentic_gym.sandbox.bubblewrap import BubblewrapBackend, bwrap_path
from agentic_gym.sandbox.conformance import CHECKS, Check, run_check
from agentic_gym.sandbox.unsafe import UnsafeBackend

pytestmark = pytest.mark.slow

_ORDINARY_UID = 60002


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.name)
def test_bubblewrap(check: Check) -> None:
    run_check(check, BubblewrapBackend())


@pytest.mark.parametrize(
    "check", [check for check in CHECKS if not check.isolation], ids=lambda check: check.name
)
def test_unsafe_does_all_but_isolate(check: Check) -> None:
    run_check(check, UnsafeBackend(allow_unsafe=True))


def test_probes_say_what_is_isolated() -> None:
    isolated = dict(BubblewrapBackend().probe())
    assert set(isolated) == {"files", "network", "processes", "privileges", "memory"}
    assert "no" not in isolated.values()
    unprotected = dict(UnsafeBackend(allow_unsafe=True).probe())
    assert [what for what, how in unprotected.items() if how != "no"] == ["memory"]


@pytest.mark.skipif(os.getuid() != 0, reason="the other tests already run as an ordinary user")
@pytest.mark.skipif(shutil.which("setpriv") is None, reason="setpriv is missing")
def test_bubblewrap_as_an_ordinary_user() -> None:
    """All checks in one process of another user, who can read this interpreter wherever it lies."""
    command = [
        *_readable_by_all(),
        *("setpriv", "--reuid", str(_ORDINARY_UID), "--regid", str(_ORDINARY_UID)),
        *("--clear-groups", "--no-new-privs", sys.executable, "-c", _ONCE),
    ]
    env = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8"}
    ended = subprocess.run(
        command, capture_output=True, text=True, timeout=300, env=env, cwd="/", check=False
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert ended.stdout.count("ok ") == len(CHECKS), ended.stdout


_ONCE = "import sys; from agentic_gym.sandbox.conformance import main; sys.exit(main())"


def _readable_by_all() -> list[str]:
    """A bwrap that only opens the folders above the interpreter and this project to everyone."""
    args = [bwrap_path(), "--dev-bind", "/", "/"]
    needed = [
        Path(sys.base_prefix).resolve(),
        Path(sys.prefix).resolve(),
        Path(__file__).parents[2],
    ]
    hidden: set[Path] = set()
    for path in needed:
        parents = [parent for parent in path.parents if parent != Path("/")]
        private = [parent for parent in parents if not parent.stat().st_mode & 0o001]
        if private and private[-1] not in hidden:
            hidden.add(private[-1])
            args += ["--perms", "0755", "--tmpfs", str(private[-1])]
        if private:
            below = [parent for parent in reversed(parents) if private[-1] in parent.parents]
            for parent in below:
                args += ["--perms", "0755", "--dir", str(parent)]
            args += ["--ro-bind", str(path), str(path)]
    return args
