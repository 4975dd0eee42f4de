"""Conformance checks of what a sandbox keeps in; see :mod:`agentic_gym.sandbox.conformance`."""

from __future__ import annotations

import os
import tempfile

from agentic_gym.sandbox.base import Sandbox
from agentic_gym.sandbox.conformance_base import SECRET_VARIABLE, Check, expect, output, raises


def _reset_temporary_files(sandbox: Sandbox) -> None:
    find = "find / -xdev -writable -not -path '/proc/*' 2>/dev/null; find /workspace /tmp /dev"
    before = sorted(output(sandbox, f"{find}; true").split())
    sandbox.exec(
        "for d in $(find / -type d -writable -not -path '/proc/*' 2>/dev/null); do touch $d/left; done; "
        "mkdir -p /tmp/a/b; touch /dev/shm/x"
    )
    sandbox.reset()
    after = sorted(output(sandbox, f"{find}; true").split())
    changed = set(before).symmetric_difference(after)
    changed = {path for path in changed if not path.startswith("/dev/pts/")}
    expect(not changed, f"survives a reset: {sorted(changed)[:9]}")


def _host_is_hidden(sandbox: Sandbox) -> None:
    with tempfile.NamedTemporaryFile(suffix=".gym-secret") as secret:
        os.chmod(secret.name, 0o644)
        expect(sandbox.exec(f"cat {secret.name}").rc != 0, "a file of the host can be read")
    expect(
        not output(sandbox, f"ls {os.path.expanduser('~')}/.ssh /home/*/ 2>/dev/null; true"),
        "homes are seen",
    )
    environ = output(sandbox, "cat /proc/[0-9]*/environ | tr '\\0' '\\n'")
    expect("PATH" in environ, "the sandbox's own environment cannot be read")
    for name in (
        SECRET_VARIABLE,
        *(n for n in os.environ if n.startswith(("SSH_", "AWS_", "HF_", "PIP_"))),
    ):
        expect(f"{name}=" not in environ, f"{name} of the host's environment can be read")
    pids = output(sandbox, "echo /proc/[0-9]*").split()
    expect(len(pids) < 10, f"processes of the host are seen: {len(pids)}")


def _no_way_out(sandbox: Sandbox) -> None:
    expect(
        sandbox.exec("touch /usr/x || touch /etc/x || touch /x || touch /run/x").rc,
        "writes outside",
    )
    expect(sandbox.exec("chmod 777 / /usr /etc").rc, "modes of the host can be changed")
    expect(sandbox.exec("unshare -U true").rc, "user namespaces can be made")
    expect(sandbox.exec("mount -t tmpfs none /tmp").rc, "things can be mounted")
    status = output(sandbox, "grep -E 'Cap(Prm|Eff|Bnd|Amb)|NoNewPrivs' /proc/self/status").split()
    expect(set(status[1::2]) == {"0" * 16, "1"}, f"capabilities are left: {status}")
    code = "import socket; socket.create_connection(('192.0.2.1', 80), 2)"
    result = sandbox.exec(f'python3 -c "{code}"', timeout_s=10)
    expect("unreachable" in result.output, f"the network is in reach: {result.output[-200:]}")
    interfaces = output(sandbox, "ls /sys/class/net 2>/dev/null || tail -n +3 /proc/net/dev")
    expect(interfaces.strip().startswith("lo"), f"interfaces: {interfaces}")


def _supervisor_is_out_of_reach(sandbox: Sandbox) -> None:
    expect(output(sandbox, "kill -9 -1; kill -9 1; echo alive") is not None, "")
    text = output(sandbox, "cat /proc/[0-9]*/cmdline | tr '\\0' ' '")
    expect("supervisor" not in text and "boot.py" not in text, f"the supervisor is seen: {text}")
    found = output(sandbox, "ls -A /run/gym/base /run/gym/layer 2>/dev/null; true")
    expect("a.py" not in found, "the base tree can be reached")
    peek = b"import os\n\n\ndef test_peek():\n    fds = {int(n) for n in os.listdir('/proc/self/fd')}\n"
    peek += (
        b"    assert len([fd for fd in fds if fd < 300 and os.path.exists(f'/proc/self/fd/{fd}')\n"
    )
    peek += b"                and 'socket' in os.readlink(f'/proc/self/fd/{fd}')]) == 0\n"
    peek += b"    for pid in [n for n in os.listdir('/proc') if n.isdigit() and int(n) != os.getpid()]:\n"
    peek += b"        try:\n            os.listdir(f'/proc/{pid}/fd')\n"
    peek += b"        except OSError:\n            continue\n        raise AssertionError(pid)\n"
    sandbox.write_file("test_peek.py", peek)
    report = sandbox.run_pytest(["test_peek.py", "-s"])
    expect(report.exit_code == 0, f"tests can reach the runner: {report.output}")


def _fork_bomb(sandbox: Sandbox) -> None:
    bomb = "bomb() { bomb | bomb & }; bomb; sleep 4321"
    result = sandbox.exec(bomb, timeout_s=2)
    expect(result.duration_s < 20, f"a fork bomb took {result.duration_s:.0f} s to end")
    expect(output(sandbox, "echo calm") == "calm\n", "no shell after a fork bomb")
    count = len(output(sandbox, "echo /proc/[0-9]*").split())
    expect(count < 10, f"{count} processes are left of a fork bomb")
    expect(sandbox.run_pytest(["test_a.py"]).exit_code == 1, "no tests after a fork bomb")


def _memory_hog(sandbox: Sandbox) -> None:
    result = sandbox.exec(
        "python3 -c \"x = b'x' * (600 * 2**20); print('ke' + 'pt')\"", timeout_s=60
    )
    expect("kept" not in result.output and result.rc != 0, f"600 MB in a sandbox of 256: {result}")
    expect(
        result.oom or "MemoryError" in result.output, f"nothing tells that memory ran out: {result}"
    )
    expect(output(sandbox, "echo calm") == "calm\n", "no shell after memory ran out")


def _disk_hog(sandbox: Sandbox) -> None:
    for folder in (".", "/tmp", "/dev/shm"):
        result = sandbox.exec(
            f"for i in 1 2 3; do head -c 50000000 /dev/zero > {folder}/f$i; done", timeout_s=60
        )
        expect(result.rc != 0, f"150 MB in {folder} of a sandbox with 64")
        sandbox.exec(f"rm -f {folder}/f?")
    sandbox.write_file("after.txt", b"1")
    sandbox.exec("truncate -s 60M sparse; truncate -s 60M sparser")
    raises(OSError, lambda: sandbox.read_file("sparse"))
    expect(sandbox.diff().count(b"Binary files") == 2, "large files are not summed up in a diff")
    expect(sandbox.exec("truncate -s 100G sparse").rc, "a file of 100 GB can be made")


ISOLATION: tuple[Check, ...] = (
    Check("memory hog", _memory_hog),
    Check("reset of temporary files", _reset_temporary_files, isolation=True),
    Check("the host is hidden", _host_is_hidden, isolation=True),
    Check("no way out", _no_way_out, isolation=True),
    Check("the supervisor is out of reach", _supervisor_is_out_of_reach, isolation=True),
    Check("fork bomb", _fork_bomb, isolation=True),
    Check("disk hog", _disk_hog, isolation=True),
)
