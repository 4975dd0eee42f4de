"""Messages to tokens and back, so that what the policy sampled is never tokenised again.

:class:`ChatCodec` stands over the package ``renderers``: the first prompt is rendered once; each
observation *extends* the sampled ids. :class:`Conversation` keeps one episode as a
:class:`~agentic_gym.types.TokenStream` with provenance. The property that everything rests on: prompt
+ completion of turn k is a prefix of the prompt of turn k+1.

Two things the renderers leave open are settled here. Text from a tool or a user may contain control
strings (a file with ``<|im_end|>`` in it): they are tokenised as the characters they are, and can
neither end a turn nor open a tool call. And a completion for which a family has no bridge (a turn
ended inside ``<think>``) is extended by what the family puts after a well-formed turn.

Rejected: rendering the whole conversation each turn. Templates drop earlier reasoning, and a text
that was sampled as two tokens may come back as one: the policy would be trained on ids that it
never sampled.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Self

import numpy as np

from agentic_gym.errors import ChatError, CheckpointError, MissingDependency
from agentic_gym.types import Completion, Message, Messages, TokenStream

_CUT = "\ufdd0"
"""A Unicode noncharacter that marks where a control string is cut; never in a prompt itself."""

_TEXT_ACTIONS = frozenset({"default", "qwen3", "qwen3-vl"})
"""Families that write calls as Hermes does: what they sampled, decoded, is the action."""


class ChatCodec:
    """Renders conversations of one model family.

    Args:
        tokenizer: a ``transformers`` tokenizer.
        renderer: name of the family as ``renderers`` calls it (``qwen3``, ``glm-4.5``, ``default`` for
            the tokenizer's own chat template …). None: by the tokenizer's name, and Qwen3 for one
            that has its control tokens.
        show_tools: put the tools' schemas into the first prompt. A model that was taught the tools
            in training does not need them, and its prompts are several times shorter.
        thinking: ask for reasoning or forbid it; None leaves the family's default. Qwen3's default
            adds nothing to the prompt; False adds an empty ``<think>`` block (environment tokens).

    Raises:
        ChatError: the family is unknown or does not fit the tokenizer.
        MissingDependency: ``renderers`` is not installed.
    """

    def __init__(
        self,
        tokenizer: Any,
        *,
        renderer: str | None = None,
        show_tools: bool = True,
        thinking: bool | None = None,
    ) -> None:
        self.tokenizer = tokenizer
        self.family = renderer or _family(tokenizer)
        self._show_tools = show_tools
        self._guard = _Guard(tokenizer)
        self._renderer = _make_renderer(self._guard, self.family, thinking)
        self.stop_token_ids: tuple[int, ...] = tuple(self._renderer.get_stop_token_ids())
        if not self.stop_token_ids:
            raise ChatError(f"the renderer {self.family!r} knows no token that ends a turn")

    @classmethod
    def from_pretrained(cls, path: str | os.PathLike[str], **options: Any) -> Self:
        """The codec of a checkpoint folder or a model's name; ``options`` as for the class.

        Raises:
            CheckpointError: there is no tokenizer that can be loaded.
            MissingDependency: ``transformers`` is not installed.
        """
        try:
            from transformers import AutoTokenizer
        except ImportError as error:
            raise MissingDependency(
                "agentic-gym[train]", "tokenizers of language models"
            ) from error
        try:
            tokenizer = AutoTokenizer.from_pretrained(os.fspath(path))
        except (OSError, ValueError) as error:
            raise CheckpointError(
                f"{os.fspath(path)!r} has no tokenizer that can be loaded here: {error}. Give a folder "
                "that save_pretrained wrote."
            ) from error
        return cls(tokenizer, **options)

    def start(self, messages: Messages, tools: Sequence[Mapping[str, Any]] = ()) -> list[int]:
        """Ids of the first prompt, up to where the model begins to write.

        Raises:
            ChatError: the family cannot render these messages.
        """
        try:
            ids = self._renderer.render_ids(
                [self._guard.message(message) for message in messages],
                tools=self._tools(tools),
                add_generation_prompt=True,
            )
        except (ValueError, KeyError, TypeError) as error:
            raise ChatError(f"{self.family!r} cannot render the first prompt: {error}") from error
        return list(ids)

    def extend(
        self,
        prompt_ids: Sequence[int],
        completion_ids: Sequence[int],
        messages: Messages,
        tools: Sequence[Mapping[str, Any]] = (),
    ) -> list[int]:
        """Ids of the next prompt: prompt, completion, then the new messages.

        A completion that was cut off is closed first; its sampled ids stay as they are.

        Args:
            prompt_ids: of the last turn.
            completion_ids: what was sampled after it.
            messages: what the environment answered: no assistant messages.
            tools: as given to :meth:`start`.

        Raises:
            ChatError: the family has no exact extension.
        """
        if not messages or any(message.get("role") == "assistant" for message in messages):
            raise ChatError(
                "extend() takes the environment's messages: at least one, no assistant's"
            )
        prompt, sampled = list(prompt_ids), list(completion_ids)
        clean = [self._guard.message(message) for message in messages]
        known = self._tools(tools)
        extended = self._bridge(prompt, sampled, clean, known)
        if extended is not None:
            return prompt + sampled + extended
        close = [] if sampled and sampled[-1] in self.stop_token_ids else [self.stop_token_ids[0]]
        for turn in self._well_formed_turns():
            after = self._bridge(prompt, turn, clean, known)
            if after is not None:
                return prompt + sampled + close + after
        return prompt + sampled + close + self._suffix_by_template(clean, known)

    def parse(self, completion_ids: Sequence[int]) -> str:
        """The action that a completion is, as text in Hermes form (``<tool_call>`` blocks)."""
        ids = list(completion_ids)
        if self.family in _TEXT_ACTIONS:
            while ids and ids[-1] in self.stop_token_ids:
                ids.pop()
            return str(self.tokenizer.decode(ids, skip_special_tokens=False))
        response = self._renderer.parse_response(ids)
        parts = (
            [f"<think>{response.reasoning_content}</think>"] if response.reasoning_content else []
        )
        parts.append(response.content or "")
        for call in response.tool_calls or []:
            body = call.raw
            if call.name is not None and isinstance(call.arguments, dict):
                body = json.dumps({"name": call.name, "arguments": call.arguments})
            parts.append(f"<tool_call>\n{body}\n</tool_call>")
        return "\n".join(part for part in parts if part)

    def _tools(self, tools: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]] | None:
        return [dict(tool) for tool in tools] if tools and self._show_tools else None

    def _bridge(
        self, prompt: list[int], turn: list[int], messages: list[Any], tools: Any
    ) -> list[int] | None:
        rendered = self._renderer.bridge_to_next_turn(prompt, turn, messages, tools=tools)
        if rendered is None:
            return None
        ids, before = list(rendered.token_ids), prompt + turn
        return ids[len(before) :] if ids[: len(before)] == before else None

    def _well_formed_turns(self) -> Iterator[list[int]]:
        """Turns that any family can follow up: an empty one, and one that only closes its reasoning."""
        stop = self.stop_token_ids[0]
        yield [stop]
        thought = self.tokenizer.convert_tokens_to_ids("</think>")
        if isinstance(thought, int) and thought != self.tokenizer.unk_token_id:
            yield [thought, stop]

    def _suffix_by_template(self, messages: list[Any], tools: Any) -> list[int]:
        """What the template puts after a closed turn, where it can be proven to extend that turn."""
        turn: dict[str, Any] = {"role": "assistant", "content": "ok"}
        if messages[0]["role"] == "tool":
            name = messages[0].get("name") or "tool"
            call = {"id": "0", "type": "function", "function": {"name": name, "arguments": {}}}
            turn["tool_calls"] = [call]
        question = {"role": "user", "content": "hi"}
        try:
            opening = list(
                self._renderer.render_ids([question], tools=tools, add_generation_prompt=True)
            )
            whole = list(
                self._renderer.render_ids(
                    [question, turn, *messages], tools=tools, add_generation_prompt=True
                )
            )
        except Exception as error:  # a Jinja template may raise anything
            raise ChatError(f"{self.family!r} cannot render an observation: {error}") from error
        ends = [i for i, token in enumerate(whole) if token in self.stop_token_ids]
        end = next((i for i in ends if i >= len(opening)), None)
        proven = whole[: len(opening)] == opening and end is not None
        if proven and "tool_calls" not in turn:
            proven = self.tokenizer.decode(whole[len(opening) : end]).strip() == turn["content"]
        if not proven or end is None:
            raise ChatError(
                f"{self.family!r} has no exact extension of a sampled turn: its template rewrites "
                "earlier turns. Name a renderer of the family with renderer=…, or use another model."
            )
        return whole[end + 1 :]


class Conversation:
    """One episode as one stream of tokens; prompts only ever grow.

    Args:
        codec: of the model.
    """

    def __init__(self, codec: ChatCodec) -> None:
        self._codec = codec
        self._tools: tuple[Mapping[str, Any], ...] = ()
        self._ids: list[int] = []
        self._logprobs: list[float] = []
        self._versions: list[int] = []
        self._turns: list[int] = []
        self._turn = -1
        self._start = 0

    @property
    def prompt_ids(self) -> list[int]:
        """Everything so far: what the next completion is sampled after."""
        return list(self._ids)

    @property
    def num_tokens(self) -> int:
        """Length of the stream."""
        return len(self._ids)

    def begin(self, messages: Messages, tools: Sequence[Mapping[str, Any]] = ()) -> None:
        """Renders the first prompt."""
        if self._ids:
            raise ChatError("this conversation has begun; make a new one for each episode")
        self._tools = tuple(tools)
        self._add_environment(self._codec.start(messages, tools))

    def add_completion(self, completion: Completion) -> str:
        """Appends what was sampled; returns the action."""
        self._turn += 1
        self._start = len(self._ids)
        self._ids.extend(completion.token_ids)
        self._logprobs.extend(completion.logprobs)
        self._versions.extend(completion.weight_versions)
        self._turns.extend([self._turn] * len(completion.token_ids))
        return self._codec.parse(completion.token_ids)

    def add_observation(self, messages: Sequence[Message]) -> None:
        """Appends what the environment answered, and the opening of the next turn.

        Raises:
            ChatError: there is no completion to answer, or the family has no exact extension.
        """
        if self._turn < 0:
            raise ChatError("an observation follows a completion; none was added")
        known = len(self._ids)
        extended = self._codec.extend(
            self._ids[: self._start], self._ids[self._start :], messages, self._tools
        )
        self._add_environment(extended[known:])

    def stream(self) -> TokenStream:
        """The tokens so far with who made them."""
        versions = np.array(self._versions, dtype=np.int32)
        return TokenStream(
            ids=np.array(self._ids, dtype=np.int32),
            sampled=versions >= 0,
            logprobs=np.array(self._logprobs, dtype=np.float32),
            versions=versions,
            turns=np.array(self._turns, dtype=np.int32),
        )

    def _add_environment(self, ids: Sequence[int]) -> None:
        self._ids.extend(ids)
        self._logprobs.extend([0.0] * len(ids))
        self._versions.extend([-1] * len(ids))
        self._turns.extend([self._turn] * len(ids))


class _Guard:
    """A tokenizer for which text from outside is only text.

    :meth:`message` cuts each control string in a message by a noncharacter; :meth:`encode` tokenises the
    pieces between the cuts one by one, so that no control token can arise and decoding gives the text.
    """

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        controls = sorted(
            (token for token in tokenizer.get_added_vocab() if len(token) > 1), key=len
        )
        alternatives = "|".join(re.escape(token[1:]) for token in controls)
        firsts = "".join({re.escape(token[0]) for token in controls})
        self._control = (
            re.compile(f"([{firsts}])(?={alternatives})") if controls else re.compile("(?!)")
        )

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # renderers ask whether a tokenizer can be called
            raise AttributeError(name)
        return getattr(self._tokenizer, name)

    def message(self, message: Message) -> dict[str, Any]:
        """A copy whose text is inert; assistant text keeps its markup, which is meant."""
        copy = dict(message)
        if copy.get("role") != "assistant":
            copy["content"] = self._inert(copy.get("content") or "")
            for key in ("name", "tool_call_id"):  # a wrong name is what the agent wrote
                if key in copy:
                    copy[key] = self._inert(copy[key])
        return copy

    def encode(self, text: str, add_special_tokens: bool = False, **options: Any) -> list[int]:
        """Ids of a text, piece by piece between cuts."""
        ids: list[int] = []
        for piece in text.split(_CUT):
            if piece:
                ids.extend(
                    self._tokenizer.encode(piece, add_special_tokens=add_special_tokens, **options)
                )
        return ids

    def apply_chat_template(self, messages: Any, **options: Any) -> Any:
        """The tokenizer's own template, tokenised by :meth:`encode`."""
        tokenize = options.pop("tokenize", True)
        options.pop("return_dict", None)
        text = self._tokenizer.apply_chat_template(messages, tokenize=False, **options)
        return self.encode(text) if tokenize else text

    def _inert(self, content: Any) -> Any:
        if isinstance(content, str):
            return self._control.sub(rf"\1{_CUT}", content.replace(_CUT, "\ufffd"))
        if isinstance(content, Mapping):
            return {key: self._inert(value) for key, value in content.items()}
        if isinstance(content, Sequence):
            return [self._inert(item) for item in content]
        return content


def _family(tokenizer: Any) -> str:
    _require()
    from renderers.base import MODEL_RENDERER_MAP

    known = MODEL_RENDERER_MAP.get(getattr(tokenizer, "name_or_path", ""))
    if known is not None:
        return str(known)
    vocabulary = tokenizer.get_added_vocab()
    qwen3 = ("<|im_start|>", "<|im_end|>", "<tool_call>", "<tool_response>", "<think>", "</think>")
    template = getattr(tokenizer, "chat_template", None)
    if all(token in vocabulary for token in qwen3) and "<function=" not in str(template):
        return "qwen3"
    if template:
        return "default"
    raise ChatError(
        f"no renderer is known for the tokenizer {getattr(tokenizer, 'name_or_path', '')!r} and it has "
        "no chat template. Name a family with renderer=…"
    )


def _make_renderer(tokenizer: _Guard, family: str, thinking: bool | None) -> Any:
    _require()
    from renderers.base import create_renderer
    from renderers.configs import config_from_name

    options: dict[str, Any] = {} if family == "default" else {"thinking_retention": "all"}
    if thinking is not None:
        options["enable_thinking"] = thinking
    try:
        return create_renderer(tokenizer, type(config_from_name(family))(**options))
    except (ValueError, KeyError, AssertionError, TypeError) as error:
        raise ChatError(
            f"the renderer {family!r} with {options} does not fit this tokenizer: {error}"
        ) from error


def _require() -> None:
    try:
        import renderers  # noqa: F401
    except ImportError as error:
        raise MissingDependency("agentic-gym[train]", "rendering conversations") from error
