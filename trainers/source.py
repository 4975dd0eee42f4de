"""What the trainer consumes and what it gives back, without saying how trajectories are made.

The trainer pulls batches and tells the source when an update is done; the source owns the engine,
the environments and the ledger. A push design (the rollout calls the trainer) was rejected: TRL's
trainer base owns the loop. Importable without torch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from agentic_gym.errors import ConfigError
from agentic_gym.store import TokenCredit
from agentic_gym.types import Trajectory

OnPiece = Callable[[Sequence[Trajectory]], None]
"""Given whole groups that are certain to be in the batch that is waited for."""


@dataclass(frozen=True, slots=True)
class Batch:
    """The trajectories of one update.

    Attributes:
        update: number of this update, from 1; when it is done the weights have this version.
        trajectories: none of them an ``infra_error``.
        metrics: what was measured while they were played.
    """

    update: int
    trajectories: Sequence[Trajectory]
    metrics: Mapping[str, float] = field(default_factory=dict)


class Policy(Protocol):
    """The trained policy, as seen from outside the trainer."""

    def weights(self) -> Mapping[str, Any]:
        """Tensors by the names that the causal LM has on disk: no value head, LoRA merged in."""
        ...

    def logprobs(self, prompt_ids: Sequence[int], token_ids: Sequence[int]) -> list[float]:
        """Log-probability of each token after the prompt, at the sampling temperature."""
        ...


@dataclass(frozen=True, slots=True)
class Start:
    """Where training starts from.

    Attributes:
        version: of the weights.
        policy: as loaded.
        checkpoint: that it was loaded from, or None.
        state: what :meth:`TrajectorySource.state_dict` gave for that checkpoint, or None.
    """

    version: int
    policy: Policy
    checkpoint: Path | None = None
    state: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Update:
    """A finished update.

    Attributes:
        version: of the weights now: the number of updates made.
        policy: the trained policy.
        checkpoint: complete checkpoint of this version, or None if none was due.
        metrics: what the update measured.
        credit: of each trajectory that was trained, by its id.
    """

    version: int
    policy: Policy
    checkpoint: Path | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)
    credit: Mapping[str, TokenCredit] = field(default_factory=dict)


class TrajectorySource(Protocol):
    """Where batches come from."""

    def begin(self, start: Start) -> None:
        """Called once, before the first batch."""
        ...

    def next_batch(self, on_piece: OnPiece | None = None) -> Batch | None:
        """The batch of the next update, or None when there are no more. May take minutes.

        Args:
            on_piece: called, on the caller's thread, with parts of the batch before it is whole; no
                trajectory comes twice, and the batch that is returned has them too. A batch that is trained
                again after a restart comes in the same parts as before. None: nobody wants parts.
        """
        ...

    def update_finished(self, update: Update) -> None:
        """An update is done, and its checkpoint (if one was due) is on disk."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """JSON-able state that belongs into a checkpoint."""
        ...


class RecordedSource:
    """Batches given beforehand: for offline training on recorded trajectories, and for tests.

    Args:
        batches: one list of trajectories an update.
    """

    def __init__(self, batches: Sequence[Sequence[Trajectory]]) -> None:
        self._batches = batches
        self._done = 0
        self.updates: list[Update] = []

    def begin(self, start: Start) -> None:
        """Starts at the batch after the version that training starts from."""
        if start.version > len(self._batches):
            raise ConfigError(
                f"the checkpoint has version {start.version}, but only {len(self._batches)} batches "
                "are given"
            )
        self._done = start.version

    def next_batch(self, on_piece: OnPiece | None = None) -> Batch | None:
        """The next recorded batch, or None after the last. Its parts are its groups but the last."""
        if self._done >= len(self._batches):
            return None
        batch = self._batches[self._done]
        if on_piece is not None:
            for group in list(dict.fromkeys(t.group_id for t in batch))[:-1]:
                on_piece([t for t in batch if t.group_id == group])
        return Batch(self._done + 1, batch)

    def update_finished(self, update: Update) -> None:
        """Moves on to the next batch."""
        self._done = update.version
        self.updates.append(update)

    def state_dict(self) -> dict[str, Any]:
        """Nothing: the version says it all."""
        return {}
