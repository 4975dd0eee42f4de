"""What a backend isolates, found by trying it from inside."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from typing import Any

from agentic_gym.errors import SandboxUnavailable
from agentic_gym.sandbox.base import Sandbox, SandboxBackend, SandboxSpec

_SCRIPT = """
import ctypes, json, os, resource, socket, sys
seen = {}
def tried(name, action):
    try:
        action()
        seen[name] = True
    except OSError:
        seen[name] = False
tried("host_file", lambda: open(sys.argv[1]).close())
tried("write_outside", lambda: open("/usr/gym-probe", "w").close())
tried("connect", lambda: socket.create_connection(("192.0.2.1", 9), 0.2).close())
def loopback():
    server = socket.create_server(("127.0.0.1", 0))
    socket.create_connection(server.getsockname(), 1).close()
tried("loopback", loopback)
seen["interfaces"] = [name for _, name in socket.if_nameindex()]
seen["pid_namespace"] = os.readlink("/proc/self/ns/pid")
status = open("/proc/self/status").read()
seen["capabilities"] = int(status.split("CapEff:")[1].split()[0], 16)
seen["no_new_privs"] = "NoNewPrivs:\\t1" in status
seen["processes"] = resource.getrlimit(resource.RLIMIT_NPROC)[0]
seen["address_space"] = resource.getrlimit(resource.RLIMIT_AS)[0]
seen["uid"] = os.getuid()
seen["user_namespace"] = ctypes.CDLL(None).unshare(0x10000000) == 0
print(json.dumps(seen))
"""


def probe_isolation(backend: SandboxBackend) -> Mapping[str, str]:
    """Starts a sandbox and looks around in it.

    Returns:
        For "files", "network", "processes", "privileges", "memory": how it is isolated, or "no".

    Raises:
        SandboxUnavailable: the sandbox does not work.
    """
    spec = SandboxSpec(files={"probe.py": _SCRIPT.encode()})
    with tempfile.NamedTemporaryFile("w", suffix=".gym-probe") as secret:
        os.chmod(secret.name, 0o644)  # readable by everyone, were it not hidden
        sandbox = backend.start(spec)
        try:
            seen = _look(sandbox, secret.name)
        finally:
            sandbox.close()
    found = {
        "files": "own file system, the host's programs read-only",
        "network": f"none but loopback ({'up' if seen['loopback'] else 'down'})",
        "processes": f"own namespace, at most {seen['processes']} of them",
        "privileges": f"uid {seen['uid']}, no capability, no user namespaces",
        "memory": "limited as a whole" if seen["address_space"] < 0 else "limited per process",
    }
    open_doors = {
        "files": seen["host_file"] or seen["write_outside"],
        "network": seen["connect"] or seen["interfaces"] != ["lo"],
        "processes": seen["pid_namespace"] == os.readlink("/proc/self/ns/pid"),
        "privileges": seen["capabilities"] or not seen["no_new_privs"] or seen["user_namespace"],
    }
    return {what: "no" if open_doors.get(what) else how for what, how in found.items()}


def _look(sandbox: Sandbox, secret: str) -> dict[str, Any]:
    result = sandbox.exec(f"python3 probe.py {secret}", timeout_s=20)
    try:
        seen: dict[str, Any] = json.loads(result.output)
    except ValueError:
        raise SandboxUnavailable(
            f"python3 does not run in the sandbox (status {result.rc}): {result.output}"
        ) from None
    return seen
