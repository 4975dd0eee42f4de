"""Checks that an environment keeps the contract, and says how to mend what it breaks.

Gymnasium's ``check_env`` looks at types and seeds. What breaks a training run with language models is
elsewhere: text that no parser expected, a tool that crashes on it, a reset that a crash makes
impossible, a ``close`` that fails the second time. So this plays hostile episodes.
"""

from __future__ import annotations

import math
import pickle
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import gymnasium
from gymnasium.utils.env_checker import check_env as gymnasium_check_env
from gymnasium.utils.env_checker import data_equivalence

from agentic_gym.actions import format_action, parse_action
from agentic_gym.env import ToolEnv
from agentic_gym.errors import (
    AgenticGymError,
    EnvContractError,
    InfraError,
    ResetNeeded,
    ToolDefinitionError,
)
from agentic_gym.registration import make
from agentic_gym.types import Outcome

HOSTILE_TEXTS = (
    "",
    "x",
    "\x00",
    "\ud800",
    "\ud83d\ude00",
    "語🙂\r\n\t",
    "'\"\\${}`;--",
    "-1",
    "../../..",
)
"""Strings that tools get as arguments, and agents write as messages."""

HOSTILE_ACTIONS = (
    *HOSTILE_TEXTS,
    "a" * 2**20,
    "<tool_call>" * 1000,
    "<tool_call>\n{",
    "<tool_call>\n[1, 2]\n</tool_call>",
    "<tool_call>\n" + "[" * 10_000 + "\n</tool_call>",
    '<tool_call>\n{"name": 3, "arguments": {}}\n</tool_call>',
    '<tool_call>\n{"name": "no_such_tool", "arguments": {}}\n</tool_call>',
    '<tool_call>\n{"name": "\\q", "arguments": {}}\n</tool_call>',
    '<tool_call>\n{"a": 1}{"a": 1}\n</tool_call>',
    '<think>\n<tool_call>\n{"name": "x", "arguments": {}}\n</tool_call>',
    '</tool_call>\n{"name": "x", "arguments": {}}\n<tool_call>',
)
"""Messages that an environment must answer."""

Step = tuple[str, float, bool, bool, dict[str, Any]]


def check_env(
    env_or_id: ToolEnv | gymnasium.Env[Any, Any] | str,
    *,
    actions: Sequence[str] | None = None,
    seed: int = 0,
) -> None:
    """Checks an environment against gymnasium's contract and ours; closes it at the end.

    Ours: any text gets an observation within the space that can be encoded; every call of a message is
    answered by its id; tools turn bad arguments into ``ToolCallError``, and other exceptions are not
    swallowed; the same seed and actions give the same episode; an episode that was crashed or left can
    be followed by ``reset``; an end has an outcome, and is final; ``truncate`` and ``close`` are
    idempotent; ``info`` can be pickled. The tools are really run, with strange arguments.

    Args:
        env_or_id: an environment (wrappers are taken off) or a registered id.
        actions: a scripted episode to play too, best one that reaches the end.
        seed: of the episodes.

    Raises:
        EnvContractError: names the first breach, and what to do about it; or this is no environment.
        InfraError: the environment's machinery broke while it was checked.
    """
    made = make(env_or_id) if isinstance(env_or_id, str) else env_or_id
    if not isinstance(made, gymnasium.Env):
        given = f"the class {made.__qualname__}" if isinstance(made, type) else f"{made!r:.100}"
        example = f"{made.__qualname__}()" if isinstance(made, type) else "'me/thing-v0'"
        raise EnvContractError(
            f"check_env got {given}. Give an id or an instance: check_env({example})."
        )
    env = made.unwrapped
    if not isinstance(env, ToolEnv):
        raise EnvContractError(
            f"{type(env).__qualname__} is not a tool environment. Derive it from agentic_gym.ToolEnv"
        )
    try:
        _check_start(env, seed)
        for arguments in (HOSTILE_ACTIONS, tuple(_tool_actions(env)), actions or ()):
            _check_episode(env, arguments, seed)
        _check_crash(env, seed)
        _check_truncate(env, seed)
        _check_gymnasium(env)  # last: what we find too, we say better
    finally:
        _check_close(env)


def _check_gymnasium(env: ToolEnv) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            # Without a spec gymnasium cannot make the environment again, and warns of that.
            gymnasium_check_env(env, skip_render_check=env.spec is None)
        except AgenticGymError:
            raise
        except Exception as error:
            raise _breach(
                env,
                f"gymnasium.utils.env_checker.check_env fails: {type(error).__name__}: {error}",
                "See https://gymnasium.farama.org/api/env/",
            ) from error


def _check_start(env: ToolEnv, seed: int) -> None:
    observation, info = _checked_reset(env, seed)
    _check_text(env, observation, "reset()")
    messages = info.get("messages")
    if not messages or messages[-1] != {"role": "user", "content": observation}:
        raise _breach(
            env,
            "info['messages'] of reset() does not end with the observation",
            "Override start(), not reset(), or call super().reset() and return its info",
        )
    if info.get("tools") != [spec.to_openai() for spec in env.tool_specs.values()]:
        raise _breach(
            env,
            "info['tools'] of reset() is not the list of tools",
            "Override start(), not reset(), or call super().reset() and return its info",
        )
    again = _checked_reset(env, seed)
    if not _is_random(env) and not data_equivalence(again, (observation, info), exact=True):
        raise _breach(
            env,
            "two resets with one seed give two tasks",
            "Draw all that is random from self.np_random, inside start()",
        )


def _check_episode(env: ToolEnv, actions: Sequence[str], seed: int) -> None:
    if not actions:
        return
    first, second = (list(_play(env, actions, seed)) for _ in range(2))
    if _is_random(env):
        return
    for number, (one, other) in enumerate(zip(first, second, strict=True)):
        if not data_equivalence(one, other, exact=True):
            raise _breach(
                env,
                f"the same seed and actions give another episode: step {number} answered "
                f"{_show(one)}, then {_show(other)}",
                "Draw all that is random from self.np_random, and set all state in start()",
            )


def _is_random(env: ToolEnv) -> bool:
    return env.spec is not None and env.spec.nondeterministic


def _play(env: ToolEnv, actions: Sequence[str], seed: int) -> Iterator[Step]:
    """Plays actions with every check of a single step; begins a new episode after each end."""
    _checked_reset(env, seed)
    for action in actions:
        step = _checked_step(env, action)
        yield step
        if step[2] or step[3]:
            _check_final(env)
            _checked_reset(env, seed)


def _checked_reset(env: ToolEnv, seed: int) -> tuple[str, dict[str, Any]]:
    try:
        return env.reset(seed=seed)
    except (EnvContractError, ToolDefinitionError, InfraError):
        raise
    except Exception as error:
        raise _breach(
            env,
            f"reset() raises {type(error).__name__}: {error}",
            "start() must work whatever state the last episode was left in",
        ) from error


def _checked_step(env: ToolEnv, action: str) -> Step:
    try:
        observation, reward, terminated, truncated, info = env.step(action)
    except (EnvContractError, ToolDefinitionError, InfraError):
        raise
    except Exception as error:
        raise _breach(
            env,
            f"step() raises {type(error).__name__}: {error} on the action {_show(action)}",
            "Where the agent is at fault raise ToolCallError, whose text becomes the observation",
        ) from error
    _check_text(env, observation, f"the answer to {_show(action)}")
    if not isinstance(reward, float) or not math.isfinite(reward):
        raise _breach(env, f"the reward is {reward!r}", "reward() must return a finite float")
    calls = [call.call_id for call in parse_action(action).calls]
    if len(action) <= env.max_action_chars and [r.call_id for r in info["results"]] != calls:
        raise _breach(
            env,
            f"the calls {calls} are not answered one by one, in order, in info['results']",
            "Do not override step(): write @tool methods",
        )
    for message in info["messages"]:
        _check_text(env, message["content"], "a message of info['messages']")
    if (terminated or truncated) and info.get("outcome") not in set(Outcome):
        raise _breach(
            env,
            f"an episode ended with the outcome {info.get('outcome')!r}",
            f"outcome() must return one of {', '.join(Outcome)}",
        )
    try:
        pickle.dumps(info)
    except Exception as error:
        raise _breach(
            env,
            f"info cannot be pickled: {error}",
            "Put plain data into self.step_info: it crosses processes",
        ) from error
    return observation, reward, terminated, truncated, info


def _check_text(env: ToolEnv, text: Any, what: str) -> None:
    if text not in env.observation_space:
        raise _breach(
            env,
            f"{what} is not within {env.observation_space}: {_show(text)}",
            "Return text, and raise max_observation_chars where it must be longer",
        )
    try:
        text.encode()
    except UnicodeEncodeError:
        raise _breach(
            env,
            f"{what} has a lone surrogate, which no tokenizer takes: {_show(text)}",
            "Decode bytes with errors='replace'",
        ) from None


def _check_final(env: ToolEnv) -> None:
    try:
        env.step("")
    except ResetNeeded:
        return
    raise _breach(
        env,
        "step() goes on after the end of an episode",
        "Do not override step(): a tool ends an episode by self.finish()",
    )


class _Crash(Exception):
    """Stands for any bug in a tool."""


def _check_crash(env: ToolEnv, seed: int) -> None:
    """Replaces a tool by one that crashes, and expects the crash to come out and a reset to mend it."""
    expected = _checked_reset(env, seed)
    name = next(iter(env.tool_specs))

    def crash() -> str:
        raise _Crash("a bug")

    setattr(env, name, crash)
    try:
        env.step(format_action([(name, {})]))
    except _Crash:
        pass
    else:
        raise _breach(
            env,
            "an exception inside a tool was swallowed",
            "Let it out: only ToolCallError is an observation, a bug must not become a reward",
        )
    finally:
        delattr(env, name)
    _check_final(env)
    again = _checked_reset(env, seed)
    if not _is_random(env) and not data_equivalence(again, expected, exact=True):
        raise _breach(
            env,
            "the first observation after a crash differs from that without",
            "Set all state of an episode in start()",
        )


def _check_truncate(env: ToolEnv, seed: int) -> None:
    _checked_reset(env, seed)
    reward, facts = env.truncate("check")
    if not math.isfinite(reward) or facts.get("outcome") not in set(Outcome):
        raise _breach(
            env,
            f"truncate() gives {reward!r} and {facts!r}",
            "conclude_truncated() must return a finite reward and an Outcome",
        )
    if env.truncate("again") != (0.0, facts):
        raise _breach(
            env,
            "truncate() pays twice, or changes the outcome",
            "Override conclude_truncated(), not truncate()",
        )
    _check_final(env)


def _check_close(env: ToolEnv) -> None:
    for attempt in ("", " the second time"):
        try:
            env.close()
        except InfraError:
            raise
        except Exception as error:
            raise _breach(
                env,
                f"close() raises {type(error).__name__}{attempt}: {error}",
                "close() must work at any time and any number of times",
            ) from error


def _tool_actions(env: ToolEnv) -> Iterator[str]:
    """Calls of each tool with arguments of the right type and strange value; then ten at once."""
    calls = []
    for text in HOSTILE_TEXTS:
        for spec in env.tool_specs.values():
            properties = spec.parameters["properties"]
            arguments = {name: _value(schema, text) for name, schema in properties.items()}
            yield format_action([(spec.name, arguments)])
            calls.append((spec.name, arguments))
    yield format_action((calls * 10)[:10])
    yield format_action([(name, {"no_such_argument": 1}) for name in env.tool_specs])


def _value(schema: dict[str, Any], text: str) -> Any:
    if "enum" in schema:
        return schema["enum"][0]
    if "anyOf" in schema:
        return _value(schema["anyOf"][0], text)
    values = {"string": text, "integer": -(10**400), "number": 1e300, "boolean": True, "array": []}
    return values.get(schema.get("type", ""), {})


def _breach(env: ToolEnv, what: str, remedy: str) -> EnvContractError:
    return EnvContractError(f"{type(env).__qualname__}: {what}. {remedy}.")


def _show(value: Any) -> str:
    shown = ascii(value)
    return shown if len(shown) <= 200 else f"{shown[:150]}... ({len(shown):,} characters)"
