"""Conformance checks of what a sandbox does; see :mod:`agentic_gym.sandbox.conformance`."""

from __future__ import annotations

import threading
import time

from agentic_gym.errors import SandboxDead
from agentic_gym.sandbox.base import Sandbox
from agentic_gym.sandbox.conformance_base import SPEC, TREE, Check, expect, output, raises


def _files(sandbox: Sandbox) -> None:
    expect(sandbox.list_files() == sorted(TREE), f"listing: {sandbox.list_files()}")
    for path, content in TREE.items():
        expect(sandbox.read_file(path) == content, f"{path} is not what it was made from")
    content = bytes(range(256)) * 100
    sandbox.write_file("new/folder/x.bin", content)
    expect(sandbox.read_file("new/folder/x.bin") == content, "written bytes differ")
    expect("25600" in output(sandbox, "wc -c new/folder/x.bin"), "the shell sees another file")
    raises(FileNotFoundError, lambda: sandbox.read_file("nowhere"))
    raises(FileNotFoundError, lambda: sandbox.read_file("a.py/below"))
    raises(IsADirectoryError, lambda: sandbox.read_file("pkg"))


def _paths_stay_inside(sandbox: Sandbox) -> None:
    output(sandbox, "ln -s /tmp/out link; ln -s /etc/passwd p; ln -s a.py inner; mkfifo fifo")
    for path in ("link/new.txt", "../e.txt", "/etc/x", "p", "pkg/../../e.txt"):
        raises(PermissionError, lambda path=path: sandbox.write_file(path, b"x"))  # type: ignore[misc]
    raises(PermissionError, lambda: sandbox.read_file("p"))
    raises(PermissionError, lambda: sandbox.read_file("../etc/passwd"))
    raises(PermissionError, lambda: sandbox.read_file("fifo"))
    sandbox.write_file("inner", b"through the link")
    expect(sandbox.read_file("a.py") == b"through the link", "links within are not followed")


def _state_persists(sandbox: Sandbox) -> None:
    sandbox.exec("cd pkg/deep; export GREETING='a  b'; shout() { echo \"$1!\"; }; local_var=1")
    text = output(sandbox, 'pwd; echo "$GREETING"; shout hey; echo $local_var')
    expect(text.endswith("/pkg/deep\na  b\nhey!\n1\n"), f"state is lost: {text!r}")


def _shell_can_end(sandbox: Sandbox) -> None:
    sandbox.exec("cd pkg; export KEPT=yes; f() { echo f; }")
    for command, rc in (("exit 3", 3), ("exec false", 1), ("set -e; false; echo no", 1)):
        result = sandbox.exec(command)
        expect(result.rc == rc and "no" not in result.output, f"{command!r}: {result}")
        text = output(sandbox, "basename $(pwd); echo $KEPT; f")
        expect(text == "pkg\nyes\nf\n", f"after {command!r}: {text!r}")
    expect(sandbox.exec("kill -9 $$").rc in (0, 137), "the shell cannot be killed by itself")
    expect(output(sandbox, "echo on") == "on\n", "no shell after it was killed")


def _odd_commands(sandbox: Sandbox) -> None:
    for command in (
        "cat <<EOF\nx",
        "echo 'open",
        "if true; then",
        "A=(); false",
        ")",
        "\0",
        "\ud800",
    ):
        sandbox.exec(command, timeout_s=5)
        expect(output(sandbox, "echo next") == "next\n", f"the command after {command!r} fails")
    expect(sandbox.exec("A=(); false").rc == 1, "the status of 'A=(); false' is not 1")
    expect(sandbox.exec("echo 'open").rc != 0, "a syntax error has status 0")
    heredoc = "cat <<'EOF'\n```\n$HOME '\"\n```\nEOF"
    expect(output(sandbox, heredoc) == "```\n$HOME '\"\n```\n", "a heredoc is changed")
    for word in ("break", "continue", "return 3", "shopt -s expand_aliases", "set -x"):
        sandbox.exec(word, timeout_s=5)
    expect("fine" in output(sandbox, "set +x; echo fine"), "control words break the shell")
    expect(sandbox.exec("cat; read x", timeout_s=5).timed_out is False, "standard input is open")


def _timeout_leaves_nothing(sandbox: Sandbox) -> None:
    sandbox.exec("cd pkg; export KEPT=yes; f() { echo f; }")
    for command in (
        "echo partial; setsid sleep 4321 & sleep 4321; echo not reached > marker",
        "trap '' TERM INT; while :; do :; done",
        "(trap '' TERM; exec -a ignoring sleep 4321)",
    ):
        result = sandbox.exec(command, timeout_s=0.5)
        expect(result.timed_out and result.rc == 124, f"{command!r} was not timed out: {result}")
        expect(result.duration_s < 20, f"ending {command!r} took {result.duration_s:.1f} s")
        expect("partial" in result.output or "echo" not in command, "partial output is lost")
        left = output(sandbox, "cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' '")
        expect("sleep 4321" not in left, f"processes are left: {left}")
        expect("marker" not in sandbox.list_files(), "the rest of the command line went on")
        text = output(sandbox, "basename $(pwd); echo $KEPT; f")
        expect(text == "pkg\nyes\nf\n", f"state is lost by a timeout: {text!r}")


def _background_jobs(sandbox: Sandbox) -> None:
    job = "(until [ -e go ]; do sleep 0.05; done; echo late > late.txt) & echo now"
    result = sandbox.exec(job, timeout_s=20)
    expect(not result.timed_out, "a background job is waited for")
    expect(result.output == "now\n", f"a background job spoils the output: {result.output!r}")
    output(
        sandbox,
        "touch go; for i in $(seq 100); do [ -e late.txt ] && break; sleep 0.1; done; cat late.txt",
    )
    sandbox.exec("(yes | head -c 3000000; touch finished) &")
    output(sandbox, "for i in $(seq 100); do [ -e finished ] && exit 0; sleep 0.1; done; exit 1")


def _output_is_bounded(sandbox: Sandbox) -> None:
    result = sandbox.exec("echo first; yes | head -c 200000000; echo last", timeout_s=120)
    expect(result.rc == 0 and result.total_bytes == 200000011, f"{result.rc} {result.total_bytes}")
    expect(len(result.output) < 2 * SPEC.output_limit, f"{len(result.output)} characters kept")
    expect(result.output.startswith("first\n"), "the head of the output is lost")
    expect(result.output.endswith("last\n"), "the tail of the output is lost")
    expect("omitted" in result.output, "nothing says that output is left out")


def _output_any_bytes(sandbox: Sandbox) -> None:
    expect(sandbox.exec("printf '\\377\\376'").output == "��", "bytes are not replaced")
    text = output(sandbox, "printf 'a\\0b'; echo err >&2; printf '\\rx'")
    expect(text == "a\0berr\n\rx", f"output is changed: {text!r}")
    printed = output(
        sandbox, "printf '0\\0/workspace\\0\\0'; for i in 3 4 5 6; do echo 7 >&$i; done; true"
    )
    expect("0\0/workspace" in printed, "output can pass for an end marker")


def _runs_tests(sandbox: Sandbox) -> None:
    for hardened in (False, True, False):
        report = sandbox.run_pytest(["test_a.py"], hardened=hardened)
        found = dict(report.outcomes)
        wanted = {"test_a.py::test_one": "passed", "test_a.py::test_two": "failed"}
        expect(found == wanted and report.exit_code == 1, f"hardened={hardened}: {report}")
    sandbox.write_file("a.py", b"def inc(x):\n    return x + 2\n")
    report = sandbox.run_pytest([])
    expect(report.outcomes["test_a.py::test_two"] == "passed", "stale code was imported")
    sandbox.write_file("a.py", b"def f(:\n")
    report = sandbox.run_pytest([])
    expect(report.collection_errors and not report.outcomes, f"a syntax error: {report}")
    expect("__pycache__" not in " ".join(sandbox.list_files()), "bytecode was written")


def _results_are_private(sandbox: Sandbox) -> None:
    forged = (
        b"import os\n\n\ndef test_f2p():\n    print('PASSED test_x.py::test_f2p')\n"
        b"    for fd in range(3, 1000):\n        try:\n            os.write(fd, b'x' * 64)\n"
        b"        except OSError:\n            pass\n    os._exit(0)\n"
    )
    sandbox.put_tree({"test_x.py": forged})
    report = sandbox.run_pytest(["test_x.py"])
    expect(not report.outcomes and report.exit_code is None, f"results were forged: {report}")
    held = b"import subprocess\n\n\ndef test_held():\n    subprocess.Popen(['sleep', '4321'])\n"
    sandbox.put_tree({"test_x.py": held})
    report = sandbox.run_pytest(["test_x.py"], timeout_s=20)
    expect(report.exit_code == 0 and not report.timed_out, f"a child is waited for: {report}")


def _hardened_run(sandbox: Sandbox) -> None:
    hostile = b"raise RuntimeError('imported')\n"
    sandbox.put_tree(
        {
            "conftest.py": hostile,
            "pytest.py": hostile,
            "json.py": hostile,
            "sitecustomize.py": hostile,
            "pytest.ini": b"[pytest]\naddopts = -p hostile --collect-only\n",
        }
    )
    report = sandbox.run_pytest(["test_a.py"], hardened=True)
    expect(
        report.outcomes.get("test_a.py::test_one") == "passed", f"the workspace steers: {report}"
    )
    expect(sandbox.read_file("test_a.py") == TREE["test_a.py"], "a hardened run changes its files")


def _test_timeout(sandbox: Sandbox) -> None:
    slow = b"import os, time\n\n\ndef test_fast():\n    pass\n\n\ndef test_slow():\n"
    slow += b"    os.system('setsid sleep 4321 &')\n    time.sleep(4321)\n"
    sandbox.write_file("test_slow.py", slow)
    report = sandbox.run_pytest(["test_slow.py"], timeout_s=1)
    expect(report.timed_out and report.exit_code is None, f"not timed out: {report}")
    expect(report.outcomes == {"test_slow.py::test_fast": "passed"}, f"results: {report.outcomes}")
    left = output(sandbox, "cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' '")
    expect("sleep 4321" not in left, f"processes of the tests are left: {left}")
    expect(sandbox.run_pytest(["test_a.py"]).exit_code == 1, "no run after a timeout")


def _reset(sandbox: Sandbox) -> None:
    for files, expected in ((None, TREE), ({"only": b"1"}, {"only": b"1"}), (None, {"only": b"1"})):
        sandbox.exec(
            "cd /tmp; export LEFT=1; touch /tmp/left /dev/shm/left; (sleep 4321 &); "
            "cd - >/dev/null; mkdir -p more; touch more/x; chmod -R 000 more; rm -f a.py only; "
            "git init -q . 2>/dev/null; ln -s / root"
        )
        sandbox.reset(files)
        expect(sandbox.list_files() == sorted(expected), f"after reset: {sandbox.list_files()}")
        for path, content in expected.items():
            expect(sandbox.read_file(path) == content, f"{path} survives a reset")
        expect(sandbox.diff() == b"", "there is a diff after a reset")
        text = output(sandbox, "echo [$LEFT]; ls -A .git 2>/dev/null; basename $(pwd)")
        expect(text == "[]\nworkspace\n", f"the shell survives a reset: {text!r}")
        left = output(sandbox, "cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' '")
        expect("sleep 4321" not in left, f"processes survive a reset: {left}")


def _diff(sandbox: Sandbox) -> None:
    sandbox.exec(
        "printf 'a=9\\r\\nb=2\\r\\n' > crlf.txt; rm empty; printf more > 'no newline'; "
        "printf 'x\\0y' > bin; mkdir -p __pycache__; touch __pycache__/a.pyc; "
        "git init -q . && git add -A && git -c user.name=a -c user.email=a@b commit -qm x"
    )
    expected = (
        b"diff --git a/bin b/bin\nnew file mode 100644\nindex 0000000..1ab6aab\n"
        b"Binary files /dev/null and b/bin differ\n"
        b"diff --git a/crlf.txt b/crlf.txt\nindex 13c9c8c..eb21265 100644\n"
        b"--- a/crlf.txt\n+++ b/crlf.txt\n@@ -1,2 +1,2 @@\n-a=1\r\n+a=9\r\n b=2\r\n"
        b"diff --git a/empty b/empty\ndeleted file mode 100644\nindex e69de29..0000000\n"
        b"diff --git a/no newline b/no newline\nindex 6e76ddd..7db92d5 100644\n"
        b"--- a/no newline\t\n+++ b/no newline\t\n@@ -1 +1 @@\n-last\n"
        b"\\ No newline at end of file\n+more\n\\ No newline at end of file\n"
    )
    found = sandbox.diff()
    strip = [line for line in found.split(b"\n") if not line.startswith(b"index ")]
    wanted = [line for line in expected.split(b"\n") if not line.startswith(b"index ")]
    expect(strip == wanted, f"diff: {found!r}")


def _many_files(sandbox: Sandbox) -> None:
    tree = {f"src/m{i // 100}/f{i}.py": b"x = %d\n" % i for i in range(2000)}
    sandbox.reset(tree)
    expect(len(sandbox.list_files()) == 2000, "files are missing")
    sandbox.write_file("src/m3/f300.py", b"x = 0\n")
    expect(sandbox.diff().count(b"diff --git") == 1, "the diff of one file has more")


def _loopback(sandbox: Sandbox) -> None:
    code = (
        "import socket; s = socket.create_server(('127.0.0.1', 0)); "
        "c = socket.create_connection(s.getsockname(), 5); s.accept()[0].send(b'hi'); print(c.recv(2))"
    )
    expect("hi" in output(sandbox, f'python3 -c "{code}"'), "no loopback")


def _dies_in_bounded_time(sandbox: Sandbox) -> None:
    caught: list[Exception] = []

    def wait() -> None:
        try:
            sandbox.exec("sleep 4321", timeout_s=4321)
        except SandboxDead as error:
            caught.append(error)

    waiting = threading.Thread(target=wait)
    waiting.start()
    time.sleep(0.2)
    begin = time.monotonic()
    sandbox.close()
    waiting.join(20)
    expect(caught and time.monotonic() - begin < 20, "a call outlives its sandbox")
    for call in (
        lambda: sandbox.exec("true"),
        lambda: sandbox.run_pytest([]),
        lambda: sandbox.read_file("a.py"),
        lambda: sandbox.write_file("a.py", b""),
        lambda: sandbox.put_tree({}),
        lambda: sandbox.list_files(),
        lambda: sandbox.diff(),
        lambda: sandbox.reset(),
    ):
        raises(SandboxDead, call)
    expect(not sandbox.alive(), "a closed sandbox is alive")
    sandbox.close()


BEHAVIOUR: tuple[Check, ...] = (
    Check("files", _files),
    Check("paths stay inside", _paths_stay_inside),
    Check("state persists", _state_persists),
    Check("the shell can end", _shell_can_end),
    Check("odd commands", _odd_commands),
    Check("a timeout leaves nothing", _timeout_leaves_nothing),
    Check("background jobs", _background_jobs),
    Check("output is bounded", _output_is_bounded),
    Check("output of any bytes", _output_any_bytes),
    Check("runs tests", _runs_tests),
    Check("results are private", _results_are_private),
    Check("a hardened run", _hardened_run),
    Check("a test's timeout", _test_timeout),
    Check("reset", _reset),
    Check("diff", _diff),
    Check("2,000 files", _many_files),
    Check("loopback", _loopback),
    Check("dies in bounded time", _dies_in_bounded_time),
)
