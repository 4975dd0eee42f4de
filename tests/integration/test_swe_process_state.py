"""What the environment says of a repository after each turn, measured in real sandboxes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from agentic_gym.agent import PolicyAgent
from agentic_gym.envs.swe.baselines import make_baseline
from agentic_gym.envs.swe.env import SWEEnv
from agentic_gym.envs.swe.grading import Grader
from agentic_gym.envs.swe.pocket import load_tasks
from agentic_gym.envs.swe.task import SWETask
from agentic_gym.errors import GraderError
from agentic_gym.evaluation import make_launches
from agentic_gym.rewards.credit.process import ProcessCredit, RepositoryState, states_of
from agentic_gym.rollout import Launch, Rollout
from agentic_gym.sandbox.base import SandboxBackend
from agentic_gym.tools import format_action
from agentic_gym.types import Outcome

pytestmark = pytest.mark.slow

TASK = SWETask(
    task_id="sums",
    repo="sums",
    files={
        "sums.py": "def double(x):\n    return x + 2\n\n\ndef half(x):\n    return x - 2\n",
        "test_sums.py": (
            "from sums import double, half\n\n\ndef test_double():\n    assert double(5) == 10\n\n\n"
            "def test_half():\n    assert half(10) == 5\n\n\ndef test_two():\n    assert double(2) == 4\n"
        ),
    },
    problem_statement="double(5) and half(10) are wrong.",
    visible_tests=["test_sums.py"],
    hidden_tests={
        "hidden_sums.py": (
            "from sums import double, half\n\n\ndef test_d():\n    assert double(7) == 14\n\n\n"
            "def test_h():\n    assert half(14) == 7\n"
        )
    },
    fail_to_pass=[
        "test_sums.py::test_double",
        "test_sums.py::test_half",
        "hidden_sums.py::test_d",
        "hidden_sums.py::test_h",
    ],
    pass_to_pass=["test_sums.py::test_two"],
    gold_patch="",
)
Call = tuple[str, dict[str, Any]]
DOUBLE: Call = ("edit", {"path": "sums.py", "old": "x + 2", "new": "x * 2"})
HALF: Call = ("edit", {"path": "sums.py", "old": "x - 2", "new": "x / 2"})
VIEW: Call = ("view", {"path": "sums.py"})
UNDO: Call = ("undo", {})
RUN: Call = ("run_tests", {})
SUBMIT: Call = ("submit", {})
BASE = {
    "parses": 1.0,
    "imports": 1.0,
    "error_gone": 0.0,
    "fail_to_pass": 0.0,
    "pass_to_pass": 1.0,
}
WORST = dict.fromkeys(BASE, 0.0)


@pytest.fixture(scope="module")
def env(backend: SandboxBackend, grader: Grader) -> Iterator[SWEEnv]:
    made = SWEEnv(
        tasks=[TASK], split=None, backend=backend, grader=grader, process_state=True,
        test_timeout_s=60.0,
    )  # fmt: skip
    yield made
    made.close()


def act(env: SWEEnv, *calls: Call) -> dict[str, Any]:
    return env.step(format_action(calls))[4]


def state(info: Mapping[str, Any]) -> dict[str, float]:
    found: dict[str, float] = json.loads(json.dumps(info["state"]))
    return found


def test_states_of_a_repair_in_two_steps(env: SWEEnv) -> None:
    _, info = env.reset()
    assert state(info) == BASE
    start = info["state_key"]
    looked = act(env, VIEW)
    assert (state(looked), looked["base_state"], looked["state_key"]) == (BASE, BASE, start)
    halfway = act(env, DOUBLE)
    assert state(halfway) == BASE | {"error_gone": 1.0, "fail_to_pass": 0.5}
    assert "base_state" not in halfway
    assert halfway["state_key"] != start
    talk = env.step("I think.")[4]
    assert (talk["state"], talk["state_key"]) == (halfway["state"], halfway["state_key"])
    assert state(act(env, UNDO)) == BASE
    done = act(env, DOUBLE, HALF)
    assert state(done) == BASE | {"error_gone": 1.0, "fail_to_pass": 1.0}
    assert state(act(env, SUBMIT)) == state(done)


@pytest.mark.parametrize(
    ("new", "expected"),
    [
        ("x +", {"parses": 0.0, "imports": 0.0, "pass_to_pass": 0.0}),
        ("x + 2\n\nimport nothing_of_this_name", {"imports": 0.0, "pass_to_pass": 0.0}),
        ("x + 3", {"pass_to_pass": 0.0}),
    ],
)
def test_what_is_broken_shows(env: SWEEnv, new: str, expected: dict[str, float]) -> None:
    env.reset()
    edit = {"path": "sums.py", "old": "x + 2", "new": new}
    assert state(act(env, ("edit", edit))) == BASE | expected


def test_another_exception_in_the_place_of_the_error_is_no_progress(env: SWEEnv) -> None:
    env.reset()
    edit = {"path": "sums.py", "old": "x + 2", "new": "x + 2 if x == 2 else 1 / 0"}
    assert state(act(env, ("edit", edit))) == BASE


@pytest.mark.parametrize(
    "command",
    [
        "sed -i 's/double(5) == 10/True/; s/half(10) == 5/True/' test_sums.py",
        "rm test_sums.py",
        "printf 'def pytest_collection_modifyitems(items):\\n    items.clear()\\n' > conftest.py",
        "printf '[pytest]\\naddopts = -k two\\n' > pytest.ini",
        "printf 'def test_h():\\n    pass\\n' > hidden_sums.py",
        "echo 'PASSED test_sums.py::test_double'",
    ],
)
def test_changed_tests_change_no_state(env: SWEEnv, command: str) -> None:
    env.reset()
    assert state(act(env, ("bash", {"command": command}))) == BASE


def test_removing_a_file_that_does_not_parse_repairs_nothing(
    backend: SandboxBackend, grader: Grader
) -> None:
    broken = TASK.model_copy(
        update={"task_id": "broken", "files": {**TASK.files, "sums.py": "def double(x)\n"}}
    )
    made = SWEEnv(tasks=[broken], split=None, backend=backend, grader=grader, process_state=True)
    _, info = made.reset()
    assert state(info) == WORST
    assert state(act(made, ("bash", {"command": "mv sums.py sums.txt"}))) == WORST
    right = TASK.files["sums.py"].replace("+", "*").replace("-", "/")
    fixed = act(made, ("edit", {"path": "sums.py", "old": "", "new": right}))
    assert state(fixed) == dict.fromkeys(BASE, 1.0)
    made.close()


def test_a_suspected_hack_is_the_worst_state(env: SWEEnv) -> None:
    env.reset()
    equal = (
        "class Any(int):\n    def __eq__(self, other):\n        return True\n\n\n"
        "def double(x):\n    return Any()\n\n\ndef half(x):\n    return Any()\n"
    )
    hack = act(env, ("bash", {"command": f"cat > sums.py <<'EOF'\n{equal}EOF"}))
    assert state(hack) == WORST
    assert act(env, SUBMIT)["outcome"] == Outcome.SUSPECTED_HACK


def test_the_agent_reads_and_earns_the_same(
    env: SWEEnv, backend: SandboxBackend, grader: Grader
) -> None:
    plain = SWEEnv(tasks=[TASK], split=None, backend=backend, grader=grader, test_timeout_s=60.0)
    turns = [VIEW, DOUBLE, RUN, UNDO, HALF, SUBMIT]
    assert env.reset(seed=1)[0] == plain.reset(seed=1)[0]
    for turn in turns:
        action = format_action([turn])
        with_states, without = env.step(action), plain.step(action)
        assert with_states[:4] == without[:4]
        messages = (with_states[4].pop("messages"), without[4]["messages"])
        assert messages[0] == messages[1]
        assert "state" not in without[4]
        assert with_states[4]["state_key"] == without[4]["state_key"]
    plain.close()


def test_states_are_named_by_what_is_there_and_what_was_shown(env: SWEEnv) -> None:
    keys = []
    for turns in ((DOUBLE, HALF, RUN), (HALF, DOUBLE), (HALF, DOUBLE, RUN)):
        env.reset()
        keys.append([act(env, turn)["state_key"] for turn in turns])
    assert keys[0][1:] == keys[2][1:]
    assert keys[0][0] != keys[1][0]
    assert keys[2][:2] == keys[1]
    assert keys[2][2] != keys[2][1]


def test_a_grader_that_breaks_gives_no_state(backend: SandboxBackend) -> None:
    own = Grader(backend)
    made = SWEEnv(tasks=[TASK], split=None, backend=backend, grader=own, process_state=True)
    made.reset()
    own.close()
    with pytest.raises(GraderError):
        act(made, DOUBLE)
    made.close()


def test_gold_patches_of_the_pocket_set_reach_the_best_state() -> None:
    chosen = {task.error_class: task for task in load_tasks("pocket", "train")}
    tasks = [chosen[name] for name in ("syntax", "import", "name", "logic")]

    def make() -> SWEEnv:
        return SWEEnv(
            tasks=tasks, split=None, process_state=True, sandboxes=1, cache_tests=64,
            tools=["view", "edit", "edit_lines", "submit"], test_timeout_s=60.0,
        )  # fmt: skip

    ids = [task.task_id for task in tasks]
    by_id = {task.task_id: task for task in tasks}

    def gold(launch: Launch) -> PolicyAgent:
        return PolicyAgent(make_baseline("gold"), task=by_id[launch.task_id])

    with Rollout(make, gold, concurrency=2) as rollout:
        played = rollout.collect(make_launches(ids), progress=False)
    for trajectory, error_class in zip(played, ("syntax", "import", "name", "logic"), strict=True):
        assert trajectory.outcome is Outcome.SOLVED
        states = states_of(trajectory)
        assert states is not None
        assert (states[0].error_gone, states[0].fail_to_pass) == (0.0, 0.0)
        assert states[0].parses == float(error_class != "syntax")
        assert states[1:] == [RepositoryState(1, 1, 1, 1, 1)] * 2
        potential = ProcessCredit().potential(trajectory)
        assert potential is not None
        assert potential[1] == pytest.approx(0.6)
        assert potential[0] < 0.11
