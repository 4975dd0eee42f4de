from __future__ import annotations

import ast
import base64
import random
import re
from typing import Any

import pytest

from agentic_gym.envs.swe.baselines import (
    Change,
    GoldPolicy,
    NoopPolicy,
    SearchPolicy,
    make_baseline,
    random_order,
    suspicious_order,
)
from agentic_gym.envs.swe.editing import replace_lines
from agentic_gym.envs.swe.task import SWETask
from agentic_gym.errors import ConfigError
from agentic_gym.sandbox.diffing import file_diff
from agentic_gym.tools import parse_action

SOURCE = "def one():\n    return 2\n\n\ndef two():\n    return 2\n"
TASK = SWETask(
    task_id="t",
    repo="m",
    files={
        "m.py": SOURCE,
        "test_m.py": "from m import one, two\n\n\ndef test_a():\n    assert one() == 1\n\n\n"
        "def test_b():\n    assert two() == 2\n",
        "notes.txt": "a\r\nb",
    },
    problem_statement="one is wrong",
    visible_tests=["test_m.py"],
    fail_to_pass=["test_m.py::test_a"],
    gold_patch=file_diff("m.py", SOURCE.encode(), SOURCE.replace("2", "1", 1).encode()).decode(),
)
TOOLS = [{"function": {"name": name}} for name in ("edit_lines", "run_tests", "submit", "view")]


def calls(action: str) -> list[tuple[str, dict[str, Any]]]:
    return [(call.name, call.arguments or {}) for call in parse_action(action).calls]


def play(action: str, files: dict[str, bytes]) -> None:
    """Does what the environment would do with the calls that change files."""
    for name, arguments in calls(action):
        if name == "edit_lines":
            span = (arguments["start"], arguments["end"], arguments["text"])
            files[arguments["path"]] = replace_lines(files[arguments["path"]], *span).content
        elif name == "bash" and (
            written := re.search(r"%s (\S*) \| .* > (\S+)$", arguments["command"])
        ):
            files[written[2]] = base64.b64decode(written[1])
        elif name == "bash":
            del files[arguments["command"].split(" -- ")[1]]


def visible(files: dict[str, bytes]) -> dict[str, Any]:
    scope: dict[str, Any] = {}
    exec(files["m.py"], scope)
    missing = int  # a repair may rename a function: then its test fails
    passed = (scope.get("one", missing)() == 1) + (scope.get("two", missing)() == 2)
    return {"tests_passed": passed, "tests_total": 2}


def test_noop_submits() -> None:
    assert calls(NoopPolicy().act("", {})) == [("submit", {})]


@pytest.mark.parametrize(
    "after",
    [
        {"m.py": SOURCE.replace("2", "1", 1).encode()},
        {"m.py": b""},
        {"m.py": SOURCE.encode().removesuffix(b"\n")},
        {"m.py": b"\xff\xfe\n"},
        {"notes.txt": b"a\r\nc"},
        {"notes.txt": b"a\r\nb\r\n"},
        {"notes.txt": b"a\nb"},
        {"notes.txt": None, "new.py": b"x = 1\n"},
        {"m.py": b"import os\n\n" + SOURCE.encode() + b"\n\n\ndef three():\n    return 3\n"},
    ],
)
def test_gold_writes_any_change_to_the_byte(after: dict[str, bytes | None]) -> None:
    patch = b"".join(
        file_diff(path, TASK.base_files[path], content)
        if path in TASK.files and content is not None
        else b""
        for path, content in after.items()
    )
    if "new.py" in after:
        patch += b"--- a/notes.txt\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-a\r\n-b\n\\ No newline at end of file\n"
        patch += b"--- /dev/null\n+++ b/new.py\n@@ -0,0 +1 @@\n+x = 1\n"
    task = TASK.model_copy(update={"gold_patch": patch.decode("utf-8", "surrogateescape")})
    policy = GoldPolicy()
    policy.reset(task, 0)
    files = task.base_files
    play(policy.act("", {}), files)
    expected = {**task.base_files, **after}
    assert files == {path: content for path, content in expected.items() if content is not None}
    assert calls(policy.act("", {})) == [("submit", {})]


@pytest.mark.parametrize("name", ["random", "scripted"])
def test_searches_find_the_repair_from_test_counts_alone(name: str) -> None:
    policy = make_baseline(name)
    policy.reset(TASK.model_copy(update={"gold_patch": ""}), 1)
    files = TASK.base_files
    info: dict[str, Any] = {"tools": TOOLS, **visible(files)}
    for _ in range(400):
        action = policy.act("test_a: assert 2 == 1", info)
        if calls(action) == [("submit", {})]:
            break
        play(action, files)
        info = visible(files)
    assert info == {"tests_passed": 2, "tests_total": 2}
    assert ast.dump(ast.parse(files["m.py"])) != ast.dump(ast.parse(SOURCE))


def test_a_search_takes_back_what_did_not_help() -> None:
    policy = SearchPolicy(lambda task, changes, text, rng: sorted(changes, key=str)[:2], look=False)
    policy.reset(TASK, 0)
    files = TASK.base_files
    info = {"tools": TOOLS, "tests_passed": 1, "tests_total": 2}
    play(policy.act("", info), files)
    assert files != TASK.base_files
    second = policy.act("", {"tests_passed": 1, "tests_total": 2})
    assert [name for name, _ in calls(second)] == ["edit_lines", "edit_lines", "run_tests"]
    last = policy.act("", {"tests_passed": 1, "tests_total": 2})
    assert [name for name, _ in calls(last)] == ["edit_lines", "submit"]
    play(second, files)
    play(last, files)
    assert files == TASK.base_files


def test_scripted_looks_first() -> None:
    policy = make_baseline("scripted")
    policy.reset(TASK, 0)
    first = calls(policy.act("", {"tools": TOOLS, "tests_passed": 1, "tests_total": 2}))
    assert first == [("view", {"path": "m.py"}), ("run_tests", {})]


def test_suspicion_goes_by_failing_tests_and_tracebacks() -> None:
    changes = [
        Change("m.py", line, SOURCE, f"{SOURCE}# {line} {k}\n") for line in (2, 6) for k in range(3)
    ]
    by_test = suspicious_order(TASK, changes, "test_a: assert 2 == 1", random.Random(0))
    assert [change.line for change in by_test] == [2, 2, 2, 6, 6, 6]
    by_place = suspicious_order(TASK, changes, "m.py:6: in two", random.Random(0))
    assert [change.line for change in by_place] == [6, 6, 6, 2, 2, 2]
    neither = suspicious_order(TASK, changes, "", random.Random(0))
    assert {change.line for change in neither[:2]} == {2, 6}


def test_random_order_is_a_permutation_by_seed() -> None:
    changes = [Change("m.py", line, SOURCE, str(line)) for line in range(20)]
    first = random_order(TASK, changes, "", random.Random(1))
    assert sorted(first, key=lambda change: change.line) == changes
    assert first == random_order(TASK, changes, "", random.Random(1))
    assert first != random_order(TASK, changes, "", random.Random(2))


def test_unknown_baselines_are_refused() -> None:
    with pytest.raises(ConfigError, match="Did you mean 'random'"):
        make_baseline("randon")
