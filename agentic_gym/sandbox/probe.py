"""What a backend isolates, found by trying it from inside."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping

from agentic_gym.errors import SandboxUnavailable
from agentic_gym.sandbox.base import Sandbox, SandboxBackend, SandboxSpec

_SCRIPT = """
import json, os, resource, socket, sys
seen = {}
def tried(name, action):
    try:
        action()
        seen[name] = True
    except OSError:
        seen[name] = False
tried("host_file", lambda: open(sys.argv[1]).close())
tried("write_outside", lambda: open("/usr/gym-probe", "w").close())
tried("network", lambda: socket.create_connection(("192.0.2.1", 9), 0.2).close())
seen["interfaces"] = [name for _, name in socket.if_nameindex()]
def loopback():
    server = socket.create_server(("127.0.0.1", 0))
    socket.create_connection(server.getsockname(), 1).close()
tried("loopback", loopback)
tried("signal_host", lambda: os.kill(int(sys.argv[2]), 0))
seen["pids"] = len([name for name in os.listdir("/proc") if name.isdigit()])
status = open("/proc/self/status").read()
seen["capabilities"] = int(status.split("CapEff:")[1].split()[0], 16)
seen["no_new_privs"] = "NoNewPrivs:\\t1" in status
seen["processes"] = resource.getrlimit(resource.RLIMIT_NPROC)[0]
seen["address_space"] = resource.getrlimit(resource.RLIMIT_AS)[0]
seen["uid"] = os.getuid()
tried("user_namespace", lambda: os.execvp("unshare", ["unshare", "-U", "true"]) if os.fork() == 0
      else os.waitstatus_to_exitcode(os.wait()[1]) and (_ for _ in ()).throw(OSError()))
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
    return {
        "files": "no"
        if seen["host_file"] or seen["write_outside"]
        else "own file system, the host's programs read-only",
        "network": "no"
        if seen["network"] or seen["interfaces"] != ["lo"]
        else f"none but loopback ({'up' if seen['loopback'] else 'down'})",
        "processes": "no"
        if seen["signal_host"]
        else f"own namespace, at most {seen['processes']} of them",
        "privileges": "no"
        if seen["capabilities"] or not seen["no_new_privs"] or seen["user_namespace"]
        else f"uid {seen['uid']}, no capability, no user namespaces",
        "memory": "limited per process" if seen["address_space"] > 0 else "limited as a whole",
    }


def _look(sandbox: Sandbox, secret: str) -> dict[str, object]:
    result = sandbox.exec(f"python3 probe.py {secret} {os.getpid()}", timeout_s=20)
    try:
        seen = json.loads(result.output)
    except ValueError:
        raise SandboxUnavailable(
            f"python3 does not run in the sandbox (status {result.rc}): {result.output}"
        ) from None
    if not isinstance(seen, dict):
        raise SandboxUnavailable(f"the probe answered {result.output}")
    return seen
