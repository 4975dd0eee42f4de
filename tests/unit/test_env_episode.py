"""The course of an episode in a ToolEnv."""

from typing import Any

import pytest

from agentic_gym.env import ToolEnv, clip_text
from agentic_gym.errors import (
    EnvContractError,
    InfraError,
    ResetNeeded,
    SandboxDead,
    ToolCallError,
)
from agentic_gym.testing import EchoEnv, GuessEnv
from agentic_gym.tools import format_action, tool
from agentic_gym.types import Outcome, ToolResult

ECHO = format_action([("echo", {"text": "hi"})])
STOP = format_action([("stop", {})])


class Odd(ToolEnv):
    """Tools that answer and fail in every way."""

    max_observation_chars = 2000

    def start(self, options: dict[str, Any]) -> str:
        self.step_info["started"] = True
        self.rewards_asked = 0
        return str(options.get("task", "task"))

    @tool
    def answer(self, kind: str) -> Any:
        """Answers."""
        self.step_info["kind"] = kind
        answers = {"none": None, "long": "x" * 10_000, "half": "a\ud800b", "object": object()}
        return answers.get(kind, {"é": [1, None]})

    @tool
    def fail(self, kind: str) -> str:
        """Fails."""
        raise {"agent": ToolCallError("not so"), "infra": SandboxDead("gone")}.get(
            kind, ZeroDivisionError("bug")
        )

    @tool
    def end(self, outcome: str = "") -> str:
        """Ends."""
        self.finish(Outcome(outcome) if outcome else None)
        return "ended"

    def reward(self) -> float:
        self.rewards_asked += 1
        return -0.5


def call(name: str, **arguments: Any) -> str:
    return format_action([(name, arguments)])


def started(env: ToolEnv, **options: Any) -> ToolEnv:
    env.reset(seed=0, options=options)
    return env


def test_reset_gives_the_task_the_conversation_and_the_tools() -> None:
    observation, info = GuessEnv(limit=9).reset(seed=0)
    assert observation == "Find the number between 1 and 9."
    assert info["messages"] == [
        {"role": "system", "content": "You play number games by calling tools."},
        {"role": "user", "content": observation},
    ]
    assert [t["function"]["name"] for t in info["tools"]] == ["guess"]
    assert Odd().reset()[1]["messages"] == [{"role": "user", "content": "task"}]


def test_one_call_is_answered_by_its_text() -> None:
    observation, reward, terminated, truncated, info = started(EchoEnv(step_reward=-0.1)).step(ECHO)
    assert (observation, reward, terminated, truncated) == ("hi", -0.1, False, False)
    assert info == {
        "results": [ToolResult("call_0", "echo", "hi")],
        "messages": [{"role": "tool", "tool_call_id": "call_0", "name": "echo", "content": "hi"}],
    }


def test_every_call_of_a_message_is_answered_by_its_id() -> None:
    action = format_action(
        [("echo", {"text": "a"}), ("echo", {}), ("ecko", {}), ("echo", {"text": "b"})]
    )
    observation, *_, info = started(EchoEnv()).step(
        action + '<tool_call>\n{"name": "\\q"}\n</tool_call>'
    )
    assert observation == (
        "[call_0 echo]\na\n"
        "[call_1 echo]\nError: text is missing. Expected: echo(text: string)\n"
        "[call_2 ecko]\nError: There is no tool 'ecko'. Did you mean echo? Tools: echo, stop\n"
        "[call_3 echo]\nb\n"
        "[call_4 ]\n" + info["results"][4].content
    )
    assert "Invalid \\escape" in info["results"][4].content
    assert [r.is_error for r in info["results"]] == [False, True, True, False, True]
    assert [m["tool_call_id"] for m in info["messages"]] == [f"call_{n}" for n in range(5)]
    assert info["messages"][4]["name"] == "unknown"


def test_a_message_without_a_call_costs_a_step_and_says_what_is_expected() -> None:
    env = started(EchoEnv(step_reward=-0.1))
    observation, reward, terminated, _, info = env.step("hello")
    assert reward == -0.1
    assert not terminated
    assert 'Expected:\n<tool_call>\n{"name": "echo", "arguments": {"text": "..."}}' in observation
    assert "- echo(text: string)\n- stop()" in observation
    assert info["results"] == []
    assert info["messages"] == [{"role": "user", "content": observation}]


def test_calls_after_the_end_are_answered_but_not_run() -> None:
    env = started(EchoEnv())
    observation, reward, terminated, _, info = env.step("\n".join([ECHO, STOP, ECHO]))
    assert terminated
    assert reward == 1.0
    assert info["outcome"] == "solved"
    assert info["results"][2].is_error
    assert "episode is over" in observation


@pytest.mark.parametrize(
    ("kind", "content"), [("json", '{"é": [1, null]}'), ("none", "ok"), ("half", "a\ufffdb")]
)
def test_answers_become_text_that_can_be_encoded(kind: str, content: str) -> None:
    observation, *_, info = started(Odd()).step(call("answer", kind=kind))
    assert observation == content
    assert info["kind"] == kind


def test_step_info_is_of_one_step() -> None:
    env = Odd()
    assert env.reset()[1]["started"]
    assert "kind" in env.step(call("answer", kind="none"))[4]
    assert env.step("")[4].keys() == {"results", "messages"}


def test_long_answers_keep_head_and_tail_and_share_the_room() -> None:
    env = started(Odd())
    observation, *_ = env.step(call("answer", kind="long"))
    assert len(observation) == 2000
    assert "more characters left out" in observation
    *_, info = env.step(format_action([("answer", {"kind": "long"}), ("answer", {"kind": "json"})]))
    assert len(info["results"][0].content) == 900
    assert info["results"][1].content == '{"é": [1, null]}'


def test_observations_fit_whatever_is_called() -> None:
    env = started(Odd(), task="t" * 5000)
    assert len(env.reset(options={"task": "t" * 5000})[0]) == 2000
    observation, *_, info = env.step(format_action([("n" * 5000, {})] * 64))
    assert len(observation) == 2000
    assert {r.name for r in info["results"]} == {"n" * 64}


def test_a_message_that_is_too_long_is_not_read() -> None:
    env = EchoEnv()
    env.max_action_chars = 100
    env.reset()
    observation, *_, info = env.step(ECHO + " " * 100)
    assert "at most 100 are read" in observation
    assert info["results"] == []


def test_the_agents_fault_is_an_observation() -> None:
    observation, *_ = started(Odd()).step(call("fail", kind="agent"))
    assert observation == "Error: not so"


@pytest.mark.parametrize(("kind", "error"), [("infra", InfraError), ("bug", ZeroDivisionError)])
def test_other_failures_come_out_and_only_reset_leads_on(kind: str, error: type[Exception]) -> None:
    env = started(Odd())
    with pytest.raises(error):
        env.step(call("fail", kind=kind))
    with pytest.raises(ResetNeeded):
        env.step(call("answer", kind="none"))
    with pytest.raises(ResetNeeded):
        env.truncate("turns")
    env.reset()
    assert env.step(call("answer", kind="none"))[0] == "ok"


@pytest.mark.parametrize(
    ("declared", "outcome"),
    [("", "failed"), ("solved", "solved"), ("suspected_hack", "suspected_hack")],
)
def test_the_outcome_is_the_declared_one_or_follows_the_return(declared: str, outcome: str) -> None:
    env = started(Odd())
    *_, terminated, _, info = env.step(call("end", outcome=declared) if declared else call("end"))
    assert terminated
    assert info["outcome"] == outcome


@pytest.mark.parametrize("told", ["failed", "truncated"])
def test_an_outcome_may_be_told_by_its_name(told: str) -> None:
    class Named(EchoEnv):
        @tool
        def stop(self) -> str:
            """Ends."""
            self.finish(told)  # type: ignore[arg-type]
            return ""

    assert started(Named()).step(STOP)[4]["outcome"] == told


def test_an_outcome_that_is_none_is_refused() -> None:
    class Won(EchoEnv):
        def conclude_truncated(self, reason: str) -> tuple[float, Outcome]:
            return 0.0, "won"  # type: ignore[return-value]

    with pytest.raises(EnvContractError, match=r"'won'\. It must be one of solved, failed"):
        started(Won()).truncate("turns")


def test_reward_is_asked_once_a_step_whatever_the_step_was() -> None:
    env = Odd()
    env.reset()
    for action in ("", format_action([("answer", {"kind": "none"})] * 3), call("end")):
        env.step(action)
    assert env.rewards_asked == 3


def test_step_needs_a_running_episode() -> None:
    env = EchoEnv()
    with pytest.raises(ResetNeeded, match="Call reset"):
        env.step(ECHO)
    env.reset()
    env.step(STOP)
    with pytest.raises(ResetNeeded):
        env.step(ECHO)


def test_truncate_pays_once_and_ends_the_episode() -> None:
    class Graded(EchoEnv):
        def conclude_truncated(self, reason: str) -> tuple[float, Outcome]:
            assert reason == "turns"
            return 0.25, Outcome.SOLVED

    env = started(Graded())
    facts = {"outcome": "solved", "truncation_reason": "turns"}
    assert env.truncate("turns") == (0.25, facts)
    assert env.truncate("again") == (0.0, facts)
    with pytest.raises(ResetNeeded):
        env.step(ECHO)
    env.reset()
    assert env.step(ECHO)[0] == "hi"


def test_truncate_tells_what_was_found_while_concluding() -> None:
    class Graded(EchoEnv):
        def conclude_truncated(self, reason: str) -> tuple[float, Outcome]:
            self.step_info["grade"] = "half"
            return 0.0, Outcome.FAILED

        def reward(self) -> float:
            self.step_info["of_the_step"] = True
            return 0.0

    env = started(Graded())
    env.step(ECHO)
    facts = {"grade": "half", "outcome": "failed", "truncation_reason": "turns"}
    assert env.truncate("turns") == (0.0, facts)
    assert env.truncate("again") == (0.0, facts)


def test_truncate_after_the_end_changes_nothing() -> None:
    env = started(EchoEnv())
    env.step(STOP)
    assert env.truncate("turns") == (0.0, {"outcome": "failed"})


def test_truncated_by_default_is_no_reward_and_an_outcome_of_its_own() -> None:
    env = started(EchoEnv())
    assert env.truncate("turns") == (
        0.0,
        {"outcome": "truncated", "truncation_reason": "turns"},
    )
    with pytest.raises(ResetNeeded):
        EchoEnv().truncate("turns")


def test_seeds() -> None:
    env = GuessEnv()
    numbers = []
    for seed in (1, None, 1, None, 2):
        env.reset(seed=seed)
        numbers.append(env._number)
    assert numbers[:2] == numbers[2:4]
    assert len(set(numbers)) == 3


def test_the_guessing_game_can_be_won() -> None:
    env = started(GuessEnv(), number=42)
    observations = [env.step(call("guess", number=n)) for n in (0, 50, 25, 42)]
    assert [o[0] for o in observations] == [
        "Error: The number must be between 1 and 100",
        "lower",
        "higher",
        "correct",
    ]
    assert observations[-1][1:3] == (1.0, True)


def test_an_answer_that_differs_between_runs_is_refused() -> None:
    with pytest.raises(EnvContractError, match=r"Odd\.answer\(\) returned object.*return text, or"):
        started(Odd()).step(call("answer", kind="object"))


@pytest.mark.parametrize("limit", [1, 10, 50, 100])
def test_clip_text_never_exceeds_its_limit(limit: int) -> None:
    for length in (0, limit - 1, limit, limit + 1, 1000):
        text = "".join(chr(97 + n % 26) for n in range(length))
        clipped = clip_text(text, limit)
        assert len(clipped) <= limit
        assert clipped == text or length > limit
    long = clip_text("a" * 500 + "b" * 500, 100)
    assert long.startswith("a" * 20)
    assert long.endswith("b" * 20)


def test_what_is_expected_is_the_named_tool_where_a_name_could_be_read() -> None:
    env = started(EchoEnv())
    observation, *_ = env.step('<tool_call>\n{"name": "stop", "arguments": []}\n</tool_call>')
    assert observation == 'Error: "arguments" must be a JSON object, found []. Expected: stop()'
