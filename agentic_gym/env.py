"""Environments in which an agent acts by calling tools.

A :class:`ToolEnv` is a :class:`gymnasium.Env` whose actions and observations are text. A subclass
writes ``start``, some ``@tool`` methods and ``reward``; this class parses messages, validates calls,
answers each by its id, and keeps the bookkeeping of an episode. Environments are synchronous:
concurrency is the rollout's work.

Rejected: structured actions (a ``Dict`` space of calls). Half of what goes wrong with a language model's
calls goes wrong before they are structured, and the answer to that belongs to the environment too.
"""

from __future__ import annotations

import abc
import difflib
import functools
import inspect
import math
import re
from collections.abc import Sequence
from typing import Any

import gymnasium

from agentic_gym.errors import (
    EnvContractError,
    IdleCallError,
    ResetNeeded,
    ToolCallError,
    ToolDefinitionError,
)
from agentic_gym.spaces import UnicodeText
from agentic_gym.tools import (
    ToolSpec,
    bind_arguments,
    collect_tools,
    format_action,
    is_tool,
    parse_action,
    write_answer,
)
from agentic_gym.types import Outcome, ToolCall, ToolResult

_SURROGATE = re.compile("[\ud800-\udfff]")
_MAX_NAME_CHARS = 64
_HEADER_CHARS = 100
_MIN_RESULT_CHARS = 256
# What a subclass writes -> the arguments that it is called with, in words.
_CALLED_WITH = {
    "start": ("options",),
    "reward": (),
    "outcome": (),
    "conclude_truncated": ("reason",),
}


class ToolEnv(gymnasium.Env[str, str], abc.ABC):
    """Base class of tool environments.

    Attributes:
        system_prompt: first message of every episode; none if empty.
        max_action_chars: longest message that is read.
        max_observation_chars: longer observations keep their head and tail.
        step_info: facts for ``info`` that a tool or ``reward`` may fill in; cleared before each step.
        step_results: answers to the calls of the step, for ``reward``; empty if no call could be read.

    A whole environment::

        class Guess(ToolEnv):
            def start(self, options):
                self.secret = int(self.np_random.integers(100))
                self.hit = False
                return "Guess a number below 100."

            @tool
            def guess(self, number: int) -> str:
                '''Tries a number.'''
                self.hit = number == self.secret
                if self.hit:
                    self.finish()
                return "yes" if self.hit else "higher" if number < self.secret else "lower"

            def reward(self):
                return float(self.hit)
    """

    system_prompt: str = ""
    max_action_chars: int = 2**22
    max_observation_chars: int = 2**16
    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012 (gymnasium's own attribute)

    step_info: dict[str, Any]
    step_results: Sequence[ToolResult] = ()
    _running = False
    _finished = False
    _declared: Outcome | None = None
    _return = 0.0
    _end: dict[str, Any] | None = None

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        for name, given in _CALLED_WITH.items():
            _check_callable(cls, name, given)
        for name, value in vars(cls).items():
            if is_tool(value) and hasattr(ToolEnv, name):
                raise ToolDefinitionError(
                    f"{cls.__qualname__}.{name} cannot be a tool: ToolEnv.{name} has that name. "
                    "Give the method another name"
                )

    @functools.cached_property
    def action_space(self) -> UnicodeText:  # type: ignore[override]
        """Every text; what cannot be read as calls gets an observation that says so."""
        return UnicodeText(self.max_action_chars)

    @functools.cached_property
    def observation_space(self) -> UnicodeText:  # type: ignore[override]
        """Text that can be encoded, of at most ``max_observation_chars``."""
        return UnicodeText(self.max_observation_chars)

    # What a subclass writes.

    @abc.abstractmethod
    def start(self, options: dict[str, Any]) -> str:
        """Begins an episode and returns the first observation: the task.

        All randomness comes from ``self.np_random``, so that a seed gives one episode.

        Args:
            options: as given to :meth:`reset`.
        """

    @abc.abstractmethod
    def reward(self) -> float:
        """Reward of the step that was just done; called once after every step, also after the last."""

    def outcome(self) -> Outcome:
        """How a terminated episode ended, where ``finish`` was not told: solved if the return is > 0."""
        return Outcome.SOLVED if self._return > 0 else Outcome.FAILED

    def conclude_truncated(self, reason: str) -> tuple[float, Outcome]:
        """What a budget wrapper gets when it ends the episode: a last reward and the outcome.

        Override it where unfinished work has a value, for instance to grade what is there.
        """
        return 0.0, Outcome.TRUNCATED

    # What a tool calls.

    def finish(self, outcome: Outcome | None = None) -> None:
        """Ends the episode after this step; later calls of the same message are not run."""
        self._finished = True
        self._declared = outcome

    # What an agent, a wrapper or a rollout calls.

    @property
    def tool_specs(self) -> dict[str, ToolSpec]:
        """The tools by name."""
        return collect_tools(self)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[str, dict[str, Any]]:
        """Begins an episode, whatever became of the one before.

        Returns:
            The task, and ``info`` with ``messages`` (system prompt and task) and ``tools`` (OpenAI form).

        Raises:
            ToolDefinitionError: the environment has no tool, or one without a schema.
        """
        super().reset(seed=seed)
        specs = self.tool_specs
        if not specs:
            raise ToolDefinitionError(f"{type(self).__qualname__} has no @tool method")
        self._running = self._finished = False
        self._declared = self._end = None
        self._return = 0.0
        self.step_info = {}
        task = self.start(dict(options or {}))
        if not isinstance(task, str):
            raise EnvContractError(
                f"{type(self).__qualname__}: start() returned {type(task).__name__}. It must return "
                "the task as text."
            )
        observation = clip_text(task, self.max_observation_chars)
        if self._finished:
            raise EnvContractError("start() called finish(): only a tool may end the episode")
        self._running = True
        messages = [{"role": "user", "content": observation}]
        if self.system_prompt:
            messages.insert(0, {"role": "system", "content": self.system_prompt})
        tools = [spec.to_openai() for spec in specs.values()]
        return observation, {"messages": messages, "tools": tools, **self.step_info}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Runs every call of a message, in order, and answers each.

        Returns:
            Observation, reward, terminated, False, and ``info`` with ``results``, ``messages`` (to
            append to the conversation), ``outcome`` at the end, and what is in ``step_info``.

        Raises:
            ResetNeeded: there is no running episode.
            InfraError: a tool's machinery broke; the episode is over and has no outcome.
        """
        if not self._running:
            raise ResetNeeded("No episode is running. Call reset() before step()")
        self._running = False  # whatever a tool raises, only reset() leads on
        self.step_info = {}
        self.step_results = results = self._run(action)
        reward = self._paid(self.reward())
        if results:
            messages = [_tool_message(result) for result in results]
            observation = self._join(results)
        else:
            observation = clip_text(self._no_call(action), self.max_observation_chars)
            messages = [{"role": "user", "content": observation}]
        info = {"results": results, "messages": messages, **self.step_info}
        if self._finished:
            self._end = {"outcome": self._stated(self._declared or self.outcome())}
            info |= self._end
        self._running = not self._finished
        return observation, reward, self._finished, False, info

    def truncate(self, reason: str) -> tuple[float, dict[str, Any]]:
        """Ends the running episode because a budget is spent; what budget wrappers call.

        Idempotent: the last reward is paid once, and later calls (also after a normal end) return 0 and
        the same facts.

        Returns:
            A reward to add to that of the last step, and facts for its ``info``: ``outcome``,
            ``truncation_reason``, and what :meth:`conclude_truncated` put into ``step_info``.

        Raises:
            ResetNeeded: there is no episode.
        """
        if self._end is not None:
            return 0.0, dict(self._end)
        if not self._running:
            raise ResetNeeded("No episode is running. Call reset() before truncate()")
        self._running = False
        self.step_info = {}
        reward, outcome = self.conclude_truncated(reason)
        facts = {"outcome": self._stated(outcome), "truncation_reason": reason}
        self._end = self.step_info | facts
        return self._paid(reward), dict(self._end)

    def _run(self, action: str) -> list[ToolResult]:
        if not isinstance(action, str):
            raise EnvContractError(f"An action is text, got {type(action).__name__}")
        if len(action) > self.max_action_chars:
            return []
        calls = parse_action(action).calls
        limit = self.max_observation_chars
        if len(calls) > 1:
            limit = max(_MIN_RESULT_CHARS, limit // len(calls) - _HEADER_CHARS)
        return [self._answer(call, limit) for call in calls]

    def _answer(self, call: ToolCall, limit: int) -> ToolResult:
        name = call.name[:_MAX_NAME_CHARS]
        is_error = idle = False
        try:
            content = self._call(call)
        except ToolCallError as error:
            content, is_error, idle = f"Error: {error}", True, isinstance(error, IdleCallError)
        return ToolResult(call.call_id, name, clip_text(content, limit), is_error, idle)

    def _call(self, call: ToolCall) -> str:
        if self._finished:
            raise ToolCallError("The episode is over; this call was not run")
        specs = self.tool_specs
        if call.error is not None or call.arguments is None:
            known = specs.get(call.name)
            expected = f" {known.signature}" if known else f"\n{self._example()}"
            raise ToolCallError(f"{call.error}. Expected:{expected}")
        if call.name not in specs:
            close = difflib.get_close_matches(call.name[:_MAX_NAME_CHARS], specs, n=1)
            hint = f" Did you mean {close[0]}?" if close else ""
            raise ToolCallError(
                f"There is no tool {call.name[:_MAX_NAME_CHARS]!a}.{hint} Tools: {', '.join(specs)}"
            )
        method = getattr(self, call.name)
        answer = method(**bind_arguments(method, call.arguments))
        try:
            return write_answer(answer)
        except (TypeError, ValueError) as error:
            raise EnvContractError(
                f"{type(self).__qualname__}.{call.name}() returned {type(answer).__name__}, which has no "
                f"JSON ({error}). It must return text, or values that JSON can hold."
            ) from error

    def _paid(self, reward: float) -> float:
        try:
            # float() would read text too, and a reward that is text is a mistake.
            paid = math.nan if isinstance(reward, (str, bytes, bytearray)) else float(reward)
        except (TypeError, ValueError):
            paid = math.nan
        if not math.isfinite(paid):
            raise EnvContractError(
                f"{type(self).__qualname__}: the reward is {reward!r}. It must be a finite number."
            )
        self._return += paid
        return paid

    def _stated(self, outcome: Outcome) -> str:
        try:
            return Outcome(outcome).value
        except ValueError:
            raise EnvContractError(
                f"{type(self).__qualname__}: an episode ended with the outcome {outcome!r}. "
                f"It must be one of {', '.join(Outcome)}."
            ) from None

    def _join(self, results: list[ToolResult]) -> str:
        if len(results) == 1:
            return clip_text(results[0].content, self.max_observation_chars)
        parts = [f"[{result.call_id} {result.name}]\n{result.content}" for result in results]
        return clip_text("\n".join(parts), self.max_observation_chars)

    def _no_call(self, action: str) -> str:
        if len(action) > self.max_action_chars:
            why = f"has {len(action):,} characters; at most {self.max_action_chars:,} are read"
        else:
            why = "has no tool call (text outside of <tool_call> and inside <think> is not run)"
        tools = "\n".join(f"- {spec.signature}" for spec in self.tool_specs.values())
        return (
            f"Error: Your message {why}. Nothing was done. Expected:\n{self._example()}\n"
            f"Tools:\n{tools}"
        )

    def _example(self) -> str:
        spec = next(iter(self.tool_specs.values()))
        required = spec.parameters.get("required", ())
        return format_action([(spec.name, dict.fromkeys(required, "..."))])


def _check_callable(cls: type, name: str, given: tuple[str, ...]) -> None:
    """Refuses a method that could not be called, before the first episode would find it."""
    method = vars(cls).get(name)
    if not inspect.isfunction(method):
        return
    signature = inspect.signature(method, follow_wrapped=False)
    try:
        signature.bind("self", *given)
    except TypeError as error:
        raise EnvContractError(
            f"{cls.__qualname__}.{name}{signature} cannot be called: {error}. "
            f"Write def {name}({', '.join(('self', *given))})."
        ) from None


def clip_text(text: str, limit: int) -> str:
    """Text that can be encoded and is at most ``limit`` long: head and tail with a count between.

    Lone surrogates become U+FFFD, since no tokenizer takes them.
    """
    text = _SURROGATE.sub("\ufffd", text)
    if len(text) <= limit:
        return text
    note = f"\n[... {len(text) - limit:,} or more characters left out ...]\n"
    keep = limit - len(note)
    if keep <= 0:
        return text[:limit]
    return text[: keep - keep // 2] + note + text[len(text) - keep // 2 :]


def _tool_message(result: ToolResult) -> dict[str, Any]:
    return {
        "role": "tool",
        "tool_call_id": result.call_id,
        "name": result.name or "unknown",
        "content": result.content,
    }
