import asyncio
import json
from typing import Any

import httpx
import pytest

from agentic_gym.agent import ChatAgent
from agentic_gym.engines.openai import OpenAIChat
from agentic_gym.errors import ConfigError, EngineError
from agentic_gym.tools import parse_action

CALL = {
    "id": "call_7",
    "type": "function",
    "function": {"name": "view", "arguments": '{"path": "a.py"}'},
}


def server(*answers: tuple[int, Any]) -> tuple[httpx.MockTransport, list[dict[str, Any]]]:
    """A server that gives these (status, body) answers in turn, and what it was asked."""
    asked: list[dict[str, Any]] = []

    def handle(request: httpx.Request) -> httpx.Response:
        asked.append(json.loads(request.content))
        status, body = answers[min(len(asked), len(answers)) - 1]
        return httpx.Response(status, json=body)

    return httpx.MockTransport(handle), asked


def answer(message: dict[str, Any], reason: str = "stop") -> tuple[int, Any]:
    choice = {"message": message, "finish_reason": reason}
    return 200, {"choices": [choice], "usage": {"completion_tokens": 5}}


def connect(transport: httpx.MockTransport, **options: Any) -> OpenAIChat:
    return OpenAIChat("m", base_url="http://server/v1", transport=transport, **options)


def test_an_agent_calls_a_tool_and_gets_its_answer_by_the_servers_id() -> None:
    transport, asked = server(
        answer({"role": "assistant", "content": "Look.", "tool_calls": [CALL]}),
        answer({"role": "assistant", "content": "Done."}, "length"),
    )

    async def main() -> None:
        async with connect(transport) as chat:
            agent = ChatAgent(chat, max_tokens_per_episode=10)
            tools = [{"type": "function", "function": {"name": "view"}}]
            await agent.begin("t", 3, "fix it", {"tools": tools})
            first = await agent.act()
            assert first is not None
            parsed = parse_action(first.text)
            assert parsed.content == "Look."
            assert (parsed.calls[0].name, parsed.calls[0].arguments) == ("view", {"path": "a.py"})
            observed = {"role": "tool", "tool_call_id": "0", "name": "view", "content": "x = 1"}
            agent.observe("x = 1", {"messages": [observed]})
            second = await agent.act()
            assert second is not None
            assert (second.text, second.finish_reason, second.num_tokens) == ("Done.", "length", 5)
            assert await agent.act() is None, "the budget of 10 tokens is spent"
            await agent.end()

    asyncio.run(main())
    assert asked[0]["messages"] == [{"role": "user", "content": "fix it"}]
    assert asked[0]["seed"] == 3
    assert asked[0]["tools"][0]["function"]["name"] == "view"
    assert asked[1]["messages"][-1]["tool_call_id"] == "call_7"


def test_what_may_pass_is_tried_again_and_what_will_not_is_refused() -> None:
    async def complete(transport: httpx.MockTransport, **options: Any) -> Any:
        async with connect(transport, pause_s=0.0, **options) as chat:
            return await chat.complete([], [], seed=0)

    transport, asked = server((503, {}), (429, {}), answer({"role": "assistant", "content": "ok"}))
    message, reason, count = asyncio.run(complete(transport))
    assert (message["content"], reason, count, len(asked)) == ("ok", "stop", 5, 3)
    with pytest.raises(EngineError, match="failed 2 times, lastly with status 500"):
        asyncio.run(complete(server((500, {}))[0], retries=1))
    with pytest.raises(ConfigError, match="status 404"):
        asyncio.run(complete(server((404, {"error": "no such model"}))[0]))
    with pytest.raises(EngineError, match="no chat completion"):
        asyncio.run(complete(server((200, {"choices": []}))[0]))


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (400, "This model's maximum context length is 4096 tokens. However, you requested 5000"),
        (400, {"code": "context_length_exceeded"}),
        (400, "the request exceeds the available context size"),
        (413, "The input is longer than the maximum allowed length"),
    ],
)
def test_a_conversation_over_the_context_ends_its_episode_alone(status: int, words: Any) -> None:
    transport, _ = server(
        answer({"role": "assistant", "content": "Hm."}), (status, {"error": words})
    )

    async def main() -> None:
        async with connect(transport) as chat:
            agent = ChatAgent(chat)
            await agent.begin("t", 0, "fix it", {})
            assert await agent.act() is not None
            agent.observe("x" * 9999, {})
            assert await agent.act() is None

    asyncio.run(main())


def test_a_first_prompt_over_the_context_and_other_refusals_stop_the_evaluation() -> None:
    async def act(status: int, error: str) -> None:
        async with connect(server((status, {"error": error}))[0]) as chat:
            agent = ChatAgent(chat)
            await agent.begin("t", 0, "fix it", {})
            await agent.act()

    for status, error in ((400, "maximum context length is 10"), (400, "unknown field 'seed'")):
        with pytest.raises(ConfigError, match=error):
            asyncio.run(act(status, error))


def test_the_answer_to_a_call_that_the_server_does_not_know_is_a_users() -> None:
    text = '<tool_call>\n{"name": "view", "arguments": {}}\n</tool_call>'
    transport, asked = server(answer({"role": "assistant", "content": text}))

    async def main() -> None:
        async with connect(transport) as chat:
            agent = ChatAgent(chat)
            await agent.begin("t", 0, "fix it", {})
            await agent.act()
            observed = {"role": "tool", "tool_call_id": "0", "name": "view", "content": "x = 1"}
            agent.observe("x = 1", {"messages": [observed]})
            await agent.act()

    asyncio.run(main())
    assert asked[1]["messages"][-1] == {"role": "user", "content": "x = 1"}
