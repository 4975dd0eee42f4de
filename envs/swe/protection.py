"""What an agent's changes may not decide: the tests, and what steers pytest or the interpreter. Pure."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import PurePosixPath

from agentic_gym.envs.swe.task import SWETask

_STEERING_NAMES = frozenset(
    {
        *("conftest.py", "pytest.ini", ".pytest.ini", "pytest.toml", ".pytest.toml", "tox.ini"),
        *("setup.cfg", "pyproject.toml", ".coveragerc", "sitecustomize.py", "usercustomize.py"),
        *("pytest.py", "py.py"),
    }
)
_STEERING_FOLDERS = frozenset(
    {"_pytest", "pytest", "pluggy", "py", "iniconfig", "sitecustomize", "usercustomize"}
)
_TEST_FOLDERS = frozenset({".git", "tests", "test"})


def protection(task: SWETask) -> Callable[[str], bool]:
    """Says of a path whether a patch may not touch it: tests, and what steers them."""
    expected = (node_id.split("::", 1)[0] for node_id in (*task.fail_to_pass, *task.pass_to_pass))
    tests = {*task.visible_tests, *task.hidden_tests, *expected}

    def protected(path: str) -> bool:
        pure = PurePosixPath(path.lower())
        return (
            path in tests
            or steers_tests(path)
            or not _TEST_FOLDERS.isdisjoint(pure.parts)
            or is_test_name(pure.name)
        )

    return protected


def steers_tests(path: str) -> bool:
    """Whether pytest or the interpreter reads a file of this path by itself."""
    pure = PurePosixPath(path.lower())
    return (
        pure.name in _STEERING_NAMES
        or pure.suffix in (".pth", ".pyc", ".so")
        or not _STEERING_FOLDERS.isdisjoint(pure.parts)
    )


def guarded_files(task: SWETask) -> dict[str, bytes]:
    """The files of the base tree that decide what a run of the visible tests says."""
    return {
        path: content
        for path, content in task.base_files.items()
        if path in task.visible_tests or steers_tests(path)
    }


def is_test_name(name: str) -> bool:
    """Whether pytest takes a file of this name for tests."""
    return name.endswith(".py") and (name.startswith("test_") or name.endswith("_test.py"))
