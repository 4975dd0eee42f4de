"""Random episodes: each prompt extends the last prompt and completion, and masks tell the truth."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from agentic_gym.chat import ChatCodec, Conversation
from agentic_gym.trainers.tokenizer import train_tokenizer
from agentic_gym.types import Completion

SAMPLE = """def total(items):\n    return sum(items)\n{"name": "view", "arguments": {"path": "a.py"}}\n"""
TOKENIZER = train_tokenizer([SAMPLE * 5], 320)
CODECS = {
    "qwen3": ChatCodec(TOKENIZER),
    "no tools": ChatCodec(TOKENIZER, show_tools=False),
    "no thinking": ChatCodec(TOKENIZER, thinking=False),
    "template": ChatCodec(TOKENIZER, renderer="default"),
}
STOPS = CODECS["qwen3"].stop_token_ids
CONTROLS = sorted(TOKENIZER.get_added_vocab())
TOOLS = [{"type": "function", "function": {"name": "view", "description": "é", "parameters": {}}}]

texts = st.lists(
    st.one_of(
        st.text(max_size=12), st.sampled_from([*CONTROLS, "<|im_", "end|>", "\n", "  x", "\ufdd0"])
    ),
    max_size=5,
).map("".join)
questions = st.lists(
    st.builds(lambda content: {"role": "user", "content": content}, texts), min_size=1, max_size=2
)
answers = st.lists(
    st.builds(
        lambda content: {"role": "tool", "tool_call_id": "0", "name": "view", "content": content},
        texts,
    ),
    min_size=1,
    max_size=3,
)
tokens = st.integers(0, len(TOKENIZER) - 1).filter(lambda token: token not in STOPS)
completions = st.tuples(
    st.one_of(
        st.lists(tokens, max_size=8),
        st.sampled_from(
            ["<think>never closed", "<think>a</think>b", '<tool_call>\n{"na', "</tool_call>", "ok"]
        ).map(lambda text: TOKENIZER.encode(text, add_special_tokens=False)),
    ),
    st.sampled_from([(), STOPS[:1], STOPS[1:]]),
).map(lambda parts: (*parts[0], *parts[1]))


def closed(codec: ChatCodec, ids: tuple[int, ...]) -> bool:
    return bool(ids) and ids[-1] in codec.stop_token_ids


def sampled(ids: tuple[int, ...], version: int) -> Completion:
    stopped = bool(ids) and ids[-1] in STOPS
    return Completion(
        ids, (-0.5,) * len(ids), (version,) * len(ids), "stop" if stopped else "length"
    )


@settings(deadline=None, derandomize=True, max_examples=150)
@given(
    name=st.sampled_from(sorted(CODECS)),
    first=st.lists(
        st.builds(
            lambda role, content: {"role": role, "content": content},
            st.sampled_from(["system", "user"]),
            texts,
        ),
        min_size=1,
        max_size=2,
    ),
    turns=st.lists(st.tuples(completions, st.one_of(questions, answers)), min_size=1, max_size=4),
)
def test_prompts_only_grow(name: str, first: list[Any], turns: list[Any]) -> None:
    codec = CODECS[name]
    conversation = Conversation(codec)
    conversation.begin(first, TOOLS)
    expected = [(token, -1) for token in conversation.prompt_ids]
    for number, (ids, messages) in enumerate(turns):
        before = conversation.prompt_ids
        action = conversation.add_completion(sampled(ids, version=number))
        content = list(ids[:-1]) if closed(codec, ids) else list(ids)
        assert action == TOKENIZER.decode(content)
        expected += [(token, number) for token in ids]
        conversation.add_observation(messages)
        after = conversation.prompt_ids
        assert after[: len(before) + len(ids)] == [*before, *ids]
        added = after[len(before) + len(ids) :]
        expected += [(token, -1) for token in added]
        check_observation(added, messages, closed=closed(codec, ids))
    stream = conversation.stream()
    found = list(zip(stream.ids.tolist(), stream.versions.tolist(), strict=True))
    assert found == expected
    assert stream.sampled.tolist() == [version >= 0 for _, version in expected]
    assert stream.logprobs.tolist() == [-0.5 if version >= 0 else 0.0 for _, version in expected]
    assert stream.turns[stream.sampled].tolist() == [v for _, v in expected if v >= 0]


def check_observation(added: list[int], messages: list[Any], *, closed: bool) -> None:
    """The turn is closed, and text of the environment is text: no control token comes from it."""
    text = TOKENIZER.decode(added)
    for message in messages:
        assert message["content"].replace("\ufdd0", "\ufffd") in text
    im_start, im_end = STOPS[0] - 1, STOPS[0]
    wanted = 1 if messages[0]["role"] == "tool" else len(messages)
    assert added.count(im_start) == wanted + 1
    assert added.count(im_end) == wanted + (not closed)
    for tag in ("<tool_response>", "</tool_response>"):
        tags = len(messages) if messages[0]["role"] == "tool" else 0
        assert added.count(TOKENIZER.convert_tokens_to_ids(tag)) == tags
    assert TOKENIZER.convert_tokens_to_ids("<tool_call>") not in added


@settings(deadline=None, derandomize=True, max_examples=150)
@given(st.text() | texts)
def test_the_tokenizer_is_lossless(text: str) -> None:
    assert TOKENIZER.decode(TOKENIZER.encode(text, add_special_tokens=False)) == text


plain = st.text(
    st.characters(blacklist_categories=["Cs"], blacklist_characters="<\ufdd0"), max_size=20
)
calls = st.lists(
    st.builds(
        lambda name, value: {
            "type": "function",
            "id": "0",
            "function": {"name": name, "arguments": {"path": value, "n": 1}},
        },
        st.sampled_from(["view", "edit"]),
        plain,
    ),
    max_size=2,
)
messages = st.one_of(
    st.builds(lambda text: {"role": "user", "content": text}, plain),
    st.builds(lambda text: {"role": "user", "content": [{"type": "text", "text": text}]}, plain),
    st.builds(lambda text: {"role": "tool", "name": "view", "content": text}, plain),
    st.builds(
        lambda text, thought, made: {
            "role": "assistant",
            "content": text,
            **({"reasoning_content": thought} if thought else {}),
            **({"tool_calls": made} if made else {}),
        },
        plain,
        st.sampled_from(["", "hm", "\nhm\n"]),
        calls,
    ),
)


@settings(deadline=None, derandomize=True, max_examples=200)
@given(
    system=st.none() | plain,
    middle=st.lists(messages, min_size=1, max_size=6),
    tools=st.sampled_from([[], TOOLS]),
    opened=st.booleans(),
)
def test_the_chat_template_agrees_with_the_qwen3_renderer(
    system: str | None, middle: list[Any], tools: list[Any], opened: bool
) -> None:
    from renderers.base import create_renderer
    from renderers.configs import Qwen3RendererConfig

    conversation = (
        [{"role": "system", "content": system}, *middle] if system is not None else middle
    )
    renderer = create_renderer(TOKENIZER, Qwen3RendererConfig())
    rendered = renderer.render_ids(conversation, tools=tools or None, add_generation_prompt=opened)
    templated = TOKENIZER.apply_chat_template(
        conversation, tools=tools or None, add_generation_prompt=opened, tokenize=False
    )
    assert TOKENIZER.decode(rendered) == templated
    assert rendered == TOKENIZER.encode(templated, add_special_tokens=False)
