"""What only shows across processes: vector environments and the cost of imports."""

import subprocess
import sys
from typing import Any

import gymnasium
import pytest

from agentic_gym.registration import register
from agentic_gym.testing import EchoEnv, GuessEnv
from agentic_gym.tools import format_action

pytestmark = [
    pytest.mark.slow,
    # Python 3.12 and later, where gymnasium forks while a test runner's thread is alive.
    pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning"),
]

HI = format_action([("echo", {"text": "hí \x00🙂"})])
STOP = format_action([("stop", {})])


@pytest.mark.parametrize("vector_kwargs", [{}, {"shared_memory": False}, {"context": "spawn"}])
def test_async_vector_environments_see_the_observations_of_each_step(
    vector_kwargs: dict[str, object],
) -> None:
    register("tests/vector-v0", "agentic_gym.testing:EchoEnv", max_turns=3)
    envs = gymnasium.make_vec(
        "tests/vector-v0", num_envs=2, vectorization_mode="async", vector_kwargs=vector_kwargs
    )
    try:
        task = "Echo something, then stop."
        first, info = envs.reset(seed=1)
        assert first == (task, task)
        assert info["messages"][1] == [{"role": "user", "content": task}]
        second, *_ = envs.step((HI, "nothing"))
        assert second[0] == "hí \x00🙂"
        assert second[1].startswith("Error: Your message has no tool call")
        assert first == (task, task)  # what was returned before does not change
        third, rewards, terminated, truncated, info = envs.step((STOP, HI))
        assert third == ("stopped", "hí \x00🙂")
        assert rewards.tolist() == [1.0, 0.0]
        assert (terminated.tolist(), truncated.tolist()) == ([True, False], [False, False])
        assert info["outcome"].tolist() == ["solved", None]
        fourth, *_, truncated, info = envs.step((STOP, HI))
        assert fourth[0] == task  # begun anew
        assert truncated.tolist() == [False, True]
        assert info["truncation_reason"][1] == "turn limit of 3"
    finally:
        envs.close()


def test_sync_vector_environments_and_seeds() -> None:
    register("tests/vector-guess-v0", GuessEnv)
    envs: Any = gymnasium.make_vec("tests/vector-guess-v0", num_envs=3, vectorization_mode="sync")
    numbers = []
    for seed in (5, 5, 6):
        envs.reset(seed=seed)
        numbers.append(envs.get_attr("_number"))
    envs.close()
    assert numbers[0] == numbers[1]
    assert numbers[2][:2] == numbers[0][1:]  # environment n of seed s has the seed s + n


def test_gymnasiums_own_wrappers_work() -> None:
    env = gymnasium.wrappers.RecordEpisodeStatistics(gymnasium.wrappers.TimeLimit(EchoEnv(), 2))
    env.reset(seed=0)
    env.step(HI)
    *_, truncated, info = env.step(HI)
    assert truncated
    assert info["episode"]["l"] == 2


def python(code: str) -> str:
    command = [sys.executable, "-W", "error", "-c", code]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


@pytest.mark.parametrize(
    "imports",
    [
        "import agentic_gym, gymnasium",
        "import gymnasium, agentic_gym",
        "import agentic_gym, gymnasium.spaces",
        "import agentic_gym.env; import gymnasium",
        "import agentic_gym.registration; import gymnasium",
        "from agentic_gym import make; import gymnasium",
    ],
)
def test_ids_are_known_to_gymnasium_in_any_order_of_imports(imports: str) -> None:
    code = f"{imports}; print('agentic_gym.registration' in __import__('sys').modules)"
    assert python(code) == "True"


def test_the_package_alone_is_cheap() -> None:
    code = (
        "import sys, time; start = time.process_time(); import agentic_gym; "
        "print(time.process_time() - start); "
        "print([m for m in ('gymnasium', 'numpy', 'pydantic', 'torch') if m in sys.modules])"
    )
    seconds, heavy = python(code).splitlines()
    assert float(seconds) < 0.4
    assert heavy == "[]"
