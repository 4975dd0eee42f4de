"""Episodes in a real sandbox, on a task small enough to read."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium
import pytest

import agentic_gym
from agentic_gym.envs.swe.baselines import BASELINES, make_baseline
from agentic_gym.envs.swe.env import SWEEnv
from agentic_gym.envs.swe.grading import Grader
from agentic_gym.envs.swe.task import SWETask, write_tasks
from agentic_gym.errors import ConfigError, GraderError, SandboxDead, TaskError
from agentic_gym.rewards.outcome import RewardConfig
from agentic_gym.sandbox.base import SandboxBackend
from agentic_gym.tools import format_action
from agentic_gym.types import Outcome

pytestmark = pytest.mark.slow

SOURCE = "def double(x):\n    return x + 2\n\n\ndef name():\n    return 'd'\n"
TASK = SWETask(
    task_id="double",
    repo="double",
    files={
        "double.py": SOURCE,
        "test_double.py": (
            "from double import double, name\n\n\ndef test_two():\n    assert double(2) == 4\n\n\n"
            "def test_five():\n    assert double(5) == 10\n\n\ndef test_name():\n    assert name() == 'd'\n"
        ),
        "docs/notes.txt": "first\r\nsecond\r\nlast",
    },
    problem_statement="double(5) is wrong.",
    visible_tests=["test_double.py"],
    hidden_tests={
        "hidden_double.py": "import double\n\n\ndef test_h():\n    assert double.double(7) == 14\n"
    },
    fail_to_pass=["test_double.py::test_five", "hidden_double.py::test_h"],
    pass_to_pass=["test_double.py::test_two"],
    gold_patch=(
        "--- a/double.py\n+++ b/double.py\n@@ -1,2 +1,2 @@\n def double(x):\n"
        "-    return x + 2\n+    return x * 2\n"
    ),
)
OTHER = TASK.model_copy(update={"task_id": "other", "split": "heldout_bugs"})
FIX = ("edit_lines", {"path": "double.py", "start": 2, "end": 2, "text": "    return x * 2"})
SUBMIT = ("submit", dict[str, Any]())


@pytest.fixture(scope="module")
def env(backend: SandboxBackend, grader: Grader) -> Iterator[SWEEnv]:
    made = SWEEnv(
        tasks=[TASK, OTHER], split=None, backend=backend, grader=grader, test_timeout_s=60.0
    )
    yield made
    made.close()


@pytest.fixture(scope="module")
def compact(backend: SandboxBackend, grader: Grader) -> Iterator[SWEEnv]:
    small: dict[str, Any] = {"compact": True, "test_after_edit": True, "test_timeout_s": 60.0}
    made = SWEEnv(tasks=[TASK], backend=backend, grader=grader, **small)
    yield made
    made.close()


def act(env: SWEEnv, *calls: tuple[str, dict[str, Any]]) -> tuple[str, float, bool, dict[str, Any]]:
    observation, reward, terminated, _, info = env.step(format_action(calls))
    return observation, float(reward), terminated, info


def test_a_repair_is_solved_and_paid(env: SWEEnv) -> None:
    observation, info = env.reset(options={"task_id": "double"})
    assert observation.startswith("double(5) is wrong.\n\nFiles:\ndouble.py")
    assert (info["tests_passed"], info["tests_total"]) == (2, 3)
    _, reward, _, info = act(env, FIX, ("run_tests", {}))
    assert reward == pytest.approx(-0.01 + 0.2 / 3)
    assert info["tests_passed"] == 3
    assert info["edited"] == {"path": "double.py", "start": 2, "end": 2}
    observation, reward, terminated, info = act(env, SUBMIT)
    assert (observation, terminated, info["outcome"]) == ("solved", True, "solved")
    assert reward == pytest.approx(0.99)
    assert json.loads(json.dumps(info["grade"]))["outcome"] == "solved"


def test_no_edit_fails(env: SWEEnv) -> None:
    env.reset(options={"task_id": "double"})
    observation, reward, terminated, info = act(env, SUBMIT)
    assert (observation, terminated, info["outcome"]) == ("not solved", True, "failed")
    assert reward == pytest.approx(-0.01)
    assert info["grade"]["reason"] == "empty patch"


def test_compact_observations_are_short(compact: SWEEnv) -> None:
    observation, _ = compact.reset(seed=0)
    assert observation == (
        "double.py\n1|def double(x):\n2|    return x + 2\n3|\n4|\n5|def name():\n6|    return 'd'\n\n"
        "2 passed, 1 failed\ntest_five: assert 7 == 10"
    )
    wrong = {**FIX[1], "text": "    return x * 3"}
    observation, reward, _, info = act(compact, ("edit_lines", wrong))
    assert observation == "2|    return x * 3\n1 passed, 2 failed\ntest_two: assert 6 == 4"
    assert reward == pytest.approx(-0.01 - 0.2 / 3)
    assert (info["tests_passed"], info["tests_total"]) == (1, 3)
    observation, reward, _, _ = act(compact, ("undo", {}))
    assert observation == "undone"
    assert reward == pytest.approx(-0.01 + 0.2 / 3)
    assert act(compact, FIX)[0] == "2|    return x * 2\n3 passed"
    broken = {**FIX[1], "text": "    return x *"}
    observation, _, _, info = act(compact, ("edit_lines", broken))
    assert observation == "2|    return x *\ntest_double.py: SyntaxError: invalid syntax"
    assert (info["tests_passed"], info["tests_total"]) == (0, 1)


def test_truncation_grades_the_workspace(backend: SandboxBackend, grader: Grader) -> None:
    made = agentic_gym.make(
        "agentic_gym/SWE-v0", tasks=[TASK], backend=backend, grader=grader, max_turns=2
    )
    made.reset(seed=0)
    made.step(format_action([FIX]))
    _, reward, terminated, truncated, info = made.step("no call")
    assert (terminated, truncated, info["outcome"]) == (False, True, "solved")
    assert info["grade"]["outcome"] == "solved"
    assert reward == pytest.approx(0.99)
    made.reset(seed=0)
    made.step("no call")
    _, _, _, truncated, info = made.step("no call")
    assert (truncated, info["outcome"]) == (True, Outcome.TRUNCATED.value)
    made.close()


def test_what_the_agent_commits_is_still_in_the_diff(env: SWEEnv) -> None:
    env.reset(options={"task_id": "double"})
    commit = (
        "git init -q . && git add -A && git -c user.name=a -c user.email=a@b commit -qm base; "
        "sed -i 's/x + 2/x * 2/' double.py && git -c user.name=a -c user.email=a@b commit -qam x"
    )
    act(env, ("bash", {"command": commit}))
    assert act(env, SUBMIT)[3]["outcome"] == "solved"


@pytest.mark.parametrize(
    "command",
    [
        "head -c 100000 /dev/urandom > out.png",
        "ln -s /etc/passwd link; ln -s /nowhere dangling",
        "mkdir 'a b' && echo 1 > 'a b/é \"q\".txt'",
        "mv docs/notes.txt notes.md",
        "rm -r docs",
        "printf 'no newline' > new.txt; : > empty",
        "sed -i 's/last/LAST/' docs/notes.txt",
        "seq 300000 > big.txt",
        "chmod +x double.py",
    ],
)
def test_other_changes_do_not_spoil_a_repair(env: SWEEnv, command: str) -> None:
    env.reset(options={"task_id": "double"})
    observation, _, _, _ = act(env, ("bash", {"command": command}), FIX)
    assert "Error" not in observation
    info = act(env, SUBMIT)[3]
    assert info["outcome"] == "solved", info["grade"]


def test_weakened_tests_are_restored_flagged_and_pay_nothing(env: SWEEnv) -> None:
    env.reset(options={"task_id": "double"})
    weaken = {"path": "test_double.py", "old": "double(5) == 10", "new": "True"}
    _, reward, _, info = act(env, ("edit", weaken), ("run_tests", {}))
    assert (info["tests_passed"], info["tests_changed"]) == (3, True)
    assert reward == pytest.approx(-0.01)
    info = act(env, SUBMIT)[3]
    assert info["outcome"] == "failed"
    assert info["grade"]["tampered"] == ["test_double.py"]


@pytest.mark.parametrize(
    "command",
    [
        "echo 'collect_ignore = []' > conftest.py",
        "printf '[pytest]\\naddopts = -k two\\n' > pytest.ini",
        "printf 'import os; os._exit(0)\\n' > conftest.py",
    ],
)
def test_what_steers_the_visible_tests_pays_nothing(env: SWEEnv, command: str) -> None:
    env.reset(options={"task_id": "double"})
    _, reward, _, info = act(env, ("bash", {"command": command}), ("run_tests", {}))
    assert info["tests_changed"]
    assert reward == pytest.approx(-0.01)


def test_a_run_that_dies_has_not_passed(env: SWEEnv) -> None:
    env.reset(options={"task_id": "double"})
    leave = {**FIX[1], "text": "    import os\n    return 4 if x == 2 else os._exit(0)"}
    _, reward, _, info = act(env, ("edit_lines", leave), ("run_tests", {}))
    assert (info["tests_passed"], info["tests_total"]) == (1, 2)
    assert reward < -0.01


def test_the_root_of_the_workspace_can_be_named(env: SWEEnv) -> None:
    env.reset(options={"task_id": "double"})
    for path in ("/workspace", "/workspace/", "."):
        found = act(env, ("search", {"pattern": "def double", "path": path}))[0]
        assert found == "double.py:1:def double(x):"
        assert "It holds: docs/notes.txt, double.py" in act(env, ("view", {"path": path}))[0]
    assert "outside" in act(env, ("search", {"pattern": "x", "path": "/"}))[0]


def test_an_edit_that_cannot_be_taken_back_is_told(env: SWEEnv) -> None:
    env.reset(options={"task_id": "double"})
    act(env, FIX, ("bash", {"command": "rm double.py && mkdir double.py"}))
    assert "cannot take back the edit of 'double.py'" in act(env, ("undo", {}))[0]


def test_a_folder_in_place_of_a_test_is_a_failure_like_any_other(env: SWEEnv) -> None:
    env.reset(options={"task_id": "double"})
    swap = "rm test_double.py && mkdir test_double.py && echo 1 > test_double.py/x"
    info = act(env, ("bash", {"command": swap}), FIX, SUBMIT)[3]
    assert info["outcome"] == "failed"
    assert "is a file" in info["grade"]["reason"]


def test_views_and_searches(env: SWEEnv) -> None:
    env.reset(options={"task_id": "double"})
    assert act(env, ("view", {"path": "/workspace/double.py", "start": 2, "end": 2}))[0] == (
        "2|    return x + 2"
    )
    assert act(env, ("view", {"path": "docs/notes.txt"}))[0] == "1|first\n2|second\n3|last"
    found = act(env, ("search", {"pattern": r"def (double|name)"}))[0]
    assert found == "double.py:1:def double(x):\ndouble.py:5:def name():"
    assert act(env, ("search", {"pattern": "d", "path": "docs"}))[0] == "docs/notes.txt:2:second"
    assert act(env, ("search", {"pattern": "zzz"}))[0] == "no match"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (("view", {"path": "doubel.py"}), "Did you mean double.py?"),
        (("view", {"path": "docs"}), "is a folder. It holds: docs/notes.txt"),
        (("view", {"path": "../etc/passwd"}), "Error: cannot read"),
        (("view", {"path": "a\0b"}), "NUL"),
        (("view", {"path": "double.py", "start": 99}), "lines 1 to 6"),
        (
            ("edit", {"path": "double.py", "old": "x - 2", "new": "x"}),
            "Nearest:\n2|    return x + 2",
        ),
        (("edit", {"path": "double.py", "old": "return", "new": "x"}), "found 2 times"),
        (("edit", {"path": "none.py", "old": "a", "new": "b"}), "there is no file"),
        (("search", {"pattern": "x", "path": "docs/../.."}), "outside of the repository"),
        (("edit", {"path": "../out.py", "old": "", "new": "b"}), "Error:"),
        (("undo", {}), "no edit to take back"),
        (("run_tests", {"paths": ["--collect-only"]}), "is an option"),
        (("bash", {"command": "true", "timeout_s": 0}), "timeout_s"),
        (("bash", {"command": "a\0b"}), "NUL"),
    ],
)
def test_wrong_calls_say_what_is_wrong(
    env: SWEEnv, call: tuple[str, dict[str, Any]], message: str
) -> None:
    env.reset(options={"task_id": "double"})
    assert message in act(env, call)[0]


def test_edits_keep_line_endings_and_make_files(env: SWEEnv) -> None:
    env.reset(options={"task_id": "double"})
    edit = {"path": "docs/notes.txt", "old": "first\nsecond", "new": "1\n2"}
    assert act(env, ("edit", edit))[0] == "edited docs/notes.txt\n1|1\n2|2\n3|last"
    made = {"path": "pkg/new.py", "old": "", "new": "x = 1\n"}
    act(env, ("edit", made))
    shown = act(env, ("bash", {"command": "od -c docs/notes.txt | head -1; cat pkg/new.py"}))[0]
    assert " ".join(shown.split()) == r"0000000 1 \r \n 2 \r \n l a s t x = 1"
    act(env, ("undo", {}))
    assert "there is no file" in act(env, ("view", {"path": "pkg/new.py"}))[0]


def test_shell_state_persists_and_endings_are_told(env: SWEEnv) -> None:
    env.reset(options={"task_id": "double"})
    act(env, ("bash", {"command": "cd docs; export A=7"}))
    assert act(env, ("bash", {"command": "pwd | grep -o docs; echo $A"}))[0] == "docs\n7"
    assert act(env, ("bash", {"command": "false"}))[0] == "[exit code 1]"
    assert "[timed out after" in act(env, ("bash", {"command": "sleep 9", "timeout_s": 0.2}))[0]
    assert "double.py" in act(env, ("search", {"pattern": "double"}))[0]


def test_an_episode_starts_clean(env: SWEEnv) -> None:
    env.reset(options={"task_id": "double"})
    act(env, FIX, ("bash", {"command": "cd docs; export A=7; echo x > left.txt"}))
    env.reset(options={"task_id": "double"})
    shown = act(env, ("bash", {"command": "ls; echo $A"}), ("view", {"path": "double.py"}))[0]
    assert "left.txt" not in shown
    assert "7" not in shown
    assert "2|    return x + 2" in shown


def test_a_dead_sandbox_is_an_infrastructure_error_and_reset_makes_another(
    backend: SandboxBackend, grader: Grader
) -> None:
    made = SWEEnv(tasks=[TASK], backend=backend, grader=grader)
    made.reset(seed=0)
    made.close()
    with pytest.raises(SandboxDead):
        act(made, ("view", {"path": "double.py"}))
    made.reset(seed=0)
    assert act(made, ("view", {"path": "double.py", "end": 1}))[0] == "1|def double(x):"
    made.close()
    made.close()


def test_a_closed_grader_is_an_infrastructure_error(backend: SandboxBackend) -> None:
    closed = Grader(backend)
    closed.close()
    with pytest.raises(GraderError, match="closed"):
        closed.grade(TASK, TASK.gold_patch)


def test_equal_verdicts_can_be_kept(backend: SandboxBackend) -> None:
    made = Grader(backend, cache_size=1)
    first = made.grade(TASK, TASK.gold_patch)
    assert made.grade(TASK, TASK.gold_patch) is first
    made.grade(TASK, "")
    assert made.grade(TASK, TASK.gold_patch) is not first
    made.close()


def test_task_choice(env: SWEEnv) -> None:
    assert env.reset(options={"task_index": 1})[1]["task_id"] == "other"
    seeds = [env.reset(seed=seed)[1]["task_id"] for seed in range(6)]
    assert seeds == [env.reset(seed=seed)[1]["task_id"] for seed in range(6)]
    assert set(seeds) == {"double", "other"}
    with pytest.raises(TaskError, match="Did you mean 'double'"):
        env.reset(options={"task_id": "doubl"})
    with pytest.raises(TaskError, match=r"0\.\.1"):
        env.reset(options={"task_index": 2})
    with pytest.raises(ConfigError, match="task_name"):
        env.reset(options={"task_name": "double"})


def test_tasks_from_a_file_and_a_subset_of_the_tools(
    tmp_path: Path, backend: SandboxBackend, grader: Grader
) -> None:
    path = tmp_path / "tasks.jsonl"
    write_tasks([TASK, OTHER], path)
    made = SWEEnv(
        tasks=path, split="heldout_bugs", tools=["submit", "view"], backend=backend, grader=grader
    )
    assert [task.task_id for task in made.tasks] == ["other"]
    info = made.reset(seed=0)[1]
    assert [item["function"]["name"] for item in info["tools"]] == ["view", "submit"]
    assert "no tool 'bash'" in act(made, ("bash", {"command": "ls"}))[0]
    made.close()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tools": ["veiw"]}, "Did you mean 'view'"),
        ({"output_limit": 0}, "output_limit=0"),
        ({"test_timeout_s": -1.0}, "test_timeout_s"),
        ({"reward": {"solv": 1.0}}, "Did you mean 'solve'"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        SWEEnv(tasks=[TASK], backend="unsafe", allow_unsafe=True, **options)


def test_rewards_follow_their_weights(backend: SandboxBackend, grader: Grader) -> None:
    weights = RewardConfig(solve=5.0, progress=0.0, turn=-1.0)
    made = SWEEnv(tasks=[TASK], backend=backend, grader=grader, reward=weights)
    made.reset(seed=0)
    assert act(made, FIX, ("run_tests", {}))[1] == -1.0
    assert act(made, SUBMIT)[1] == 4.0
    made.close()


def test_the_checks_of_gymnasium_and_our_own_pass(backend: SandboxBackend, grader: Grader) -> None:
    made = gymnasium.make("agentic_gym/SWE-v0", tasks=[TASK], backend=backend, grader=grader)
    actions = [format_action([FIX, ("run_tests", {})]), format_action([SUBMIT])]
    agentic_gym.check_env(made, actions=actions)


@pytest.mark.parametrize("name", BASELINES)
def test_baselines_play_whole_episodes(compact: SWEEnv, env: SWEEnv, name: str) -> None:
    policy = make_baseline(name)
    for played in (compact, env):
        observation, info = played.reset(options={"task_index": 0})
        policy.reset(TASK, 15)  # finds the repair early: few turns
        for _ in range(120):
            observation, _, terminated, _, info = played.step(policy.act(observation, info))
            if terminated:
                break
        expected = "failed" if name == "noop" else "solved"
        assert info["outcome"] == expected, info
