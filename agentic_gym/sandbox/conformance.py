"""What every sandbox backend must do, as checks that anybody can run against theirs.

From a shell: ``python -m agentic_gym.sandbox.conformance bubblewrap``. From pytest::

    @pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.name)
    def test_conformance(check):
        run_check(check, MyBackend())

Checks marked ``isolation`` are about keeping the agent in; a backend that isolates nothing skips them, and
says "no" in its probe.
"""

from __future__ import annotations

import os
import sys
import time

from agentic_gym.sandbox.base import SandboxBackend
from agentic_gym.sandbox.conformance_base import SECRET_VARIABLE, Check, ConformanceError
from agentic_gym.sandbox.conformance_behaviour import BEHAVIOUR
from agentic_gym.sandbox.conformance_isolation import ISOLATION

__all__ = ["CHECKS", "Check", "ConformanceError", "run_check"]

CHECKS: tuple[Check, ...] = (*BEHAVIOUR, *ISOLATION)


def run_check(check: Check, backend: SandboxBackend) -> None:
    """Runs one check in a sandbox of its own.

    Raises:
        ConformanceError: the backend fails it.
    """
    os.environ[SECRET_VARIABLE] = "must not be seen inside"
    try:
        sandbox = backend.start(check.spec)
        try:
            check.run(sandbox)
        finally:
            sandbox.close()
    finally:
        del os.environ[SECRET_VARIABLE]


def main() -> int:
    """Runs all checks against the backend named on the command line; the number that fail."""
    from agentic_gym.sandbox.select import select_backend

    name = sys.argv[1] if len(sys.argv) > 1 else "auto"
    backend = select_backend(name, allow_unsafe=name == "unsafe")
    isolates = "no" not in backend.probe().values()
    failed = 0
    for check in CHECKS:
        if check.isolation and not isolates:
            print(f"skip  {check.name}")
            continue
        begin = time.monotonic()
        try:
            run_check(check, backend)
        except Exception as error:
            failed += 1
            print(f"FAIL  {check.name}: {type(error).__name__}: {error}")
        else:
            print(f"ok    {check.name} ({time.monotonic() - begin:.2f} s)")
    return failed


if __name__ == "__main__":
    sys.exit(main())
