"""No sandbox at all: the same supervisor as a plain subprocess. Only for code that you trust.

Commands run as you, with your files, your network and your processes in reach. What it does keep: one
workspace a sandbox in a temporary folder, time limits that leave no process, per-process resource limits,
a clean environment.
"""

from __future__ import annotations

import contextlib
import shutil
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from agentic_gym.errors import ConfigError, SandboxUnavailable
from agentic_gym.sandbox import records
from agentic_gym.sandbox.base import SandboxSpec
from agentic_gym.sandbox.client import ClientSandbox
from agentic_gym.sandbox.process import HostProcess


class UnsafeBackend:
    """Plain subprocesses.

    Args:
        allow_unsafe: must be True: running an agent's code unprotected is never a default.

    Raises:
        ConfigError: ``allow_unsafe`` is not True.
        SandboxUnavailable: this is not Linux.
    """

    name = "unsafe"

    def __init__(self, *, allow_unsafe: bool = False) -> None:
        if allow_unsafe is not True:
            raise ConfigError(
                "the backend 'unsafe' runs the agent's code as you, with your files and your network "
                "in reach. Use 'bubblewrap', or pass allow_unsafe=True if you trust that code"
            )
        if sys.platform != "linux":
            raise SandboxUnavailable(f"'unsafe' needs Linux, this is {sys.platform}: use Docker")

    def probe(self) -> Mapping[str, str]:
        """See :meth:`agentic_gym.sandbox.base.SandboxBackend.probe`."""
        self.start(SandboxSpec()).close()
        isolated = dict.fromkeys(("files", "network", "processes", "privileges"), "no")
        return {**isolated, "memory": "limited per process"}

    def start(self, spec: SandboxSpec) -> ClientSandbox:
        """See :meth:`agentic_gym.sandbox.base.SandboxBackend.start`."""
        records.sweep()
        boot = str(Path(__file__).parent / "inside" / "boot.py")
        env = {"LANG": "C.UTF-8"}
        with contextlib.ExitStack() as undo:  # what was made so far, if the rest fails
            work = Path(tempfile.mkdtemp(prefix=records.WORK_PREFIX, dir=records.folder()))
            undo.callback(shutil.rmtree, work, ignore_errors=True)
            workspace = work / "workspace"
            workspace.mkdir()
            try:
                process = HostProcess([sys.executable, "-I", "-S", boot, "supervisor"], env=env)
            except OSError as error:
                raise SandboxUnavailable(f"{sys.executable} cannot be started: {error}") from error
            undo.callback(process.end)
            record = records.Record(process.pid, [work])
            undo.pop_all()

        def end() -> None:
            process.end()  # the supervisor ends what it started and removes its folder
            record.remove()

        config = {
            "mode": "plain",
            "workspace": str(workspace),
            "env": {**_agent_env(work), **spec.env},
            "output_limit": spec.output_limit,
            "packages": _packages(),
            "limits": {"processes": 0, "memory": spec.memory_bytes, "disk": spec.disk_bytes},
        }
        return ClientSandbox(process.channel, spec, config, end=end, describe_death=process.errors)


def _packages() -> list[str]:
    import pytest

    return [str(Path(pytest.__file__).parent.parent)]


def _agent_env(work: Path) -> dict[str, str]:
    return {
        "PATH": f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin",
        "HOME": str(work),
        "LANG": "C.UTF-8",
        "TERM": "dumb",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
