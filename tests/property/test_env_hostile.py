"""An environment answers every message: within its space, encodable, by id, and the same each time."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from agentic_gym.env import ToolEnv, clip_text
from agentic_gym.testing import EchoEnv, GuessEnv
from agentic_gym.tools import format_action, parse_action

FRAGMENTS = (
    "<tool_call>\n", "\n</tool_call>", '{"name": "echo", "arguments": {"text": "', '"}}', "\\ud800",
    '{"name": "guess", "arguments": {"number": ', "50}}", "</think>", "\x00", "\ud800",
)  # fmt: skip
text = st.lists(st.sampled_from(FRAGMENTS) | st.text(max_size=4), max_size=12).map("".join)
scalars: st.SearchStrategy[Any] = st.none() | st.integers() | st.text(max_size=20) | st.booleans()
names = st.sampled_from(["echo", "stop", "guess", "gues", ""])
structured = st.lists(
    st.tuples(names, st.dictionaries(st.sampled_from(["text", "number", "x"]), scalars)),
    max_size=10,
).map(format_action)


@settings(deadline=None, derandomize=True, max_examples=60)
@given(
    st.lists(text | structured, max_size=6), st.sampled_from([EchoEnv, GuessEnv]), st.integers(0, 9)
)
def test_every_message_is_answered(actions: list[str], kind: type[ToolEnv], seed: int) -> None:
    env, twin = kind(), kind()
    env.max_observation_chars = twin.max_observation_chars = 500
    assert env.reset(seed=seed) == twin.reset(seed=seed)
    for action in actions:
        step = env.step(action)
        assert twin.step(action) == step
        observation, _, terminated, _, info = step
        assert observation in env.observation_space
        observation.encode()
        assert [r.call_id for r in info["results"]] == [
            c.call_id for c in parse_action(action).calls
        ]
        assert [m["content"] for m in info["messages"]] == (
            [r.content for r in info["results"]] or [observation]
        )
        assert ("outcome" in info) == terminated
        if terminated:
            assert env.reset(seed=seed) == twin.reset(seed=seed)


@settings(deadline=None, derandomize=True, max_examples=200)
@given(st.text(st.characters(), max_size=300), st.integers(1, 200))
def test_clipped_text_is_short_and_can_be_encoded(long: str, limit: int) -> None:
    clipped = clip_text(long, limit)
    assert len(clipped) <= limit
    clipped.encode()
