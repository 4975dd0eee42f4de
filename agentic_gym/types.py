"""The nouns of the project: records that pass between floors. No behaviour, no I/O, no torch.

Suffixes: ``_T`` runs over the tokens of one trajectory, ``_K`` over its turns.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

IntArray = npt.NDArray[np.int32]
FloatArray = npt.NDArray[np.float32]
BoolArray = npt.NDArray[np.bool_]

FinishReason = Literal["stop", "length", "abort"]
"""Why a completion ended: a stop token, the token limit, or an abort."""


class Slip(str):
    """A message that a demonstrator writes in order to recover from it: context, never to be imitated."""

    __slots__ = ()


class Outcome(enum.StrEnum):
    """How an episode ended. ``INFRA_ERROR`` never trains and is never in a silent denominator."""

    SOLVED = "solved"
    FAILED = "failed"
    TRUNCATED = "truncated"
    INFRA_ERROR = "infra_error"
    SUSPECTED_HACK = "suspected_hack"


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call as the agent wrote it.

    Attributes:
        call_id: unique within its message; the answer carries it.
        name: tool name, or "" if it could not be read.
        arguments: decoded JSON object, or None if it could not be read.
        error: what was wrong with the text of the call, or None.
        raw: the text as written.
    """

    call_id: str
    name: str
    arguments: dict[str, Any] | None
    error: str | None = None
    raw: str = ""


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The answer to one call.

    Attributes:
        call_id: of the call.
        name: of the tool.
        content: what the agent reads.
        is_error: the call was not carried out.
        idle: it was right in form and would have changed nothing.
    """

    call_id: str
    name: str
    content: str
    is_error: bool = False
    idle: bool = False


@dataclass(frozen=True, slots=True)
class Completion:
    """What an engine sampled for one request.

    Attributes:
        token_ids: sampled ids, including the stop token where one was sampled.  # [T]
        logprobs: log-probability of each under the policy that sampled it (temperature applied). # [T]
        weight_versions: version of the weights that sampled each token.  # [T]
        finish_reason: "stop", "length" or "abort".
    """

    token_ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    weight_versions: tuple[int, ...]
    finish_reason: FinishReason


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """How to sample. There is no top-p and no top-k: both would bias the policy ratio (trl#6789).

    Attributes:
        max_tokens: limit of one completion.
        temperature: 0 is greedy (logprobs are then those of temperature 1).
        seed: with the request's id, makes sampling reproducible whatever is batched beside it.
        stop_token_ids: sampling one of these ends the completion.
        forced: the completion begins with these tokens, whatever the noise says; their logprobs are those
            that the engine would have reported had it sampled them. ``max_tokens`` counts them.
        noise_offset: tokens of this completion that the prompt ends with: what an interrupted request of
            the same id sampled. The noise goes on behind them, as if nothing had interrupted it.
    """

    max_tokens: int
    temperature: float = 1.0
    seed: int | None = None
    stop_token_ids: tuple[int, ...] = ()
    forced: tuple[int, ...] = ()
    noise_offset: int = 0


@dataclass(frozen=True, eq=False, slots=True)
class TokenStream:
    """One trajectory as one stream of tokens, with provenance per token (DESIGN §4, Chat).

    Attributes:
        ids: token ids.  # int32 [T]
        sampled: True where the policy made the token, False where the environment or template did. # [T]
        logprobs: behaviour log-probability, 0 where not sampled.  # float32 [T]
        versions: weight version that sampled the token, -1 where not sampled.  # int32 [T]
        turns: turn index; the first prompt is -1, the observation after turn k counts to k.  # [T]
    """

    ids: IntArray
    sampled: BoolArray
    logprobs: FloatArray
    versions: IntArray
    turns: IntArray

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True, slots=True)
class Turn:
    """One completion and what the environment answered.

    Attributes:
        action: text of the completion.
        observation: text of the answer ("" if the episode ended without one).
        reward: reward of this step.
        finish_reason: of the completion.
        generate_s: seconds in the engine.
        step_s: seconds in ``env.step``.
        info: small JSON-able facts from the environment (tools called, tests passed …).
        began_s: seconds from the episode's begin to this turn's, time in which it was parked included.
    """

    action: str
    observation: str
    reward: float
    finish_reason: FinishReason = "stop"
    generate_s: float = 0.0
    step_s: float = 0.0
    info: Mapping[str, Any] = field(default_factory=dict)
    began_s: float = 0.0


@dataclass(frozen=True, eq=False, slots=True)
class Trajectory:
    """The immutable record of one episode.

    Attributes:
        trajectory_id: unique in the run.
        task_id: which task.
        group_id: trajectories of one task launched together share it.
        seed: of the episode (environment and sampling).
        prompt: text of the first observation.
        turns: one a turn.  # [K]
        tokens: the token stream, or None for agents that are not token models.  # [T]
        outcome: how it ended.
        terminated: ended by the task.
        truncated: ended by a budget (turns, tokens, time).
        error: what broke, if the outcome is ``infra_error``.
        tags: facts for reports (``error_class``, ``repo``, ``split`` …).
        metrics: numbers for reports (``tests_passed``, ``duration_s`` …).
    """

    trajectory_id: str
    task_id: str
    group_id: str
    seed: int
    prompt: str
    turns: tuple[Turn, ...]
    tokens: TokenStream | None
    outcome: Outcome
    terminated: bool
    truncated: bool
    error: str | None = None
    tags: Mapping[str, str] = field(default_factory=dict)
    metrics: Mapping[str, float] = field(default_factory=dict)

    @property
    def reward(self) -> float:
        """Undiscounted return: the sum of the turns' rewards."""
        return float(sum(turn.reward for turn in self.turns))


Message = Mapping[str, Any]
"""A chat message: ``role``, ``content``, and for tool answers ``tool_call_id`` and ``name``."""

Messages = Sequence[Message]
