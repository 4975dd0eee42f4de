"""Where in an episode its credit fell: a heat map of turns and tokens, made by pure functions.

Every number is in the text or in a ``title`` too, and what is negative is underlined: nothing depends on
colour alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from agentic_gym.errors import StoreError
from agentic_gym.store import RunStore, TokenCredit
from agentic_gym.types import Outcome, Trajectory

Decode = Callable[[Sequence[int]], str]
"""Text of token ids."""

MOST_TOKENS = 800
"""Tokens of an episode that are shown one by one; of the others only the sums of their turns are."""

_LEVELS = 5
_LONGEST = 8
"""Tokens that may share one character before it is shown broken."""


@dataclass(frozen=True, slots=True)
class Patch:
    """A piece of text in one colour.

    Attributes:
        text: of one or more tokens.
        level: style class: ``p1`` to ``p5`` above zero, ``n1`` to ``n5`` below, "" at zero.
        title: the numbers.
    """

    text: str
    level: str
    title: str


@dataclass(frozen=True, slots=True)
class TurnCredit:
    """Credit of one turn.

    Attributes:
        number: from 1.
        tokens: that the policy sampled.
        reward: sum of what they earned.
        advantage: sum over them.
        mean: advantage of a token.
        level: style class of the mean.
        patches: the action, coloured.
        left_out: tokens at its end that are not shown.
    """

    number: int
    tokens: int
    reward: float
    advantage: float
    mean: float
    level: str
    patches: tuple[Patch, ...]
    left_out: int = 0


@dataclass(frozen=True, slots=True)
class CreditMap:
    """An episode that was trained: why it is shown, and its credit turn by turn."""

    why: str
    trajectory: Trajectory
    turns: tuple[TurnCredit, ...]


@dataclass(frozen=True, slots=True)
class CreditFacts:
    """Credit of some episodes of one update.

    Attributes:
        update: whose batch they were in.
        trained: episodes of it with credit.
        scale: absolute advantage from which on the colour is the strongest.
        maps: of the episodes that are shown.
    """

    update: int
    trained: int
    scale: float
    maps: tuple[CreditMap, ...]


def gather_credit(store: RunStore, wanted: Sequence[str] = ()) -> CreditFacts | None:
    """Some episodes of the newest batch with credit; None if the run kept none.

    Args:
        store: of the run.
        wanted: ids of trained trajectories that are shown too.

    Raises:
        StoreError: the credit of a wanted one was not kept.
    """
    asked = {name: store.credit(name) for name in wanted}
    for name, one in asked.items():
        if one is None:
            raise StoreError(
                f"no credit of a trajectory {name!r} is kept in {store.path}: give one that was trained"
            )
    for update, names in reversed(store.batches_after(0)):
        credits = {name: one for name in names if (one := store.credit(name)) is not None}
        if not credits:
            continue
        trained = len(credits)
        chosen = [("asked for", t) for t in store.trajectories(asked)]
        chosen += [
            (why, t)
            for why, t in choose(store.trajectories(credits), credits)
            if t.trajectory_id not in asked
        ]
        credits |= {name: one for name, one in asked.items() if one is not None}
        scale = strongest([credits[t.trajectory_id].advantages for _, t in chosen])
        decode = decoder(store)
        maps = (
            CreditMap(why, t, turn_credits(t, credits[t.trajectory_id], scale=scale, decode=decode))
            for why, t in chosen
        )
        return CreditFacts(update, trained, scale, tuple(maps))
    return None


def strongest(advantages: Sequence[npt.NDArray[np.float32]]) -> float:
    """Absolute advantage from which on a colour is the strongest: one of 20 tokens is as far from zero.

    The largest one would do for even advantages, but a single outlier would leave all others pale.
    """
    sizes = np.abs(np.concatenate([*advantages, np.zeros(0, np.float32)]))
    sizes = sizes[np.isfinite(sizes) & (sizes > 0)]
    return float(np.quantile(sizes, 0.95)) if len(sizes) else 0.0


def choose(
    trajectories: Sequence[Trajectory], credits: Mapping[str, TokenCredit]
) -> list[tuple[str, Trajectory]]:
    """Episodes worth a look, each once, with why: the ends of the scale, one solved and one not.

    Args:
        trajectories: that were trained.
        credits: of each.
    """
    means = {name: _mean(credit.advantages) for name, credit in credits.items()}
    ranked = sorted(trajectories, key=lambda t: means[t.trajectory_id])
    solved = [t for t in ranked if t.outcome is Outcome.SOLVED]
    others = [t for t in ranked if t.outcome is not Outcome.SOLVED]
    wanted = {
        "most positive": ranked[::-1],
        "most negative": ranked,
        "usual solved": _from_middle(solved),
        "usual unsolved": _from_middle(others),
    }
    chosen: list[tuple[str, Trajectory]] = []
    for why, candidates in wanted.items():
        taken = {t.trajectory_id for _, t in chosen}
        found = next((t for t in candidates if t.trajectory_id not in taken), None)
        if found is not None:
            chosen.append((why, found))
    return chosen


def turn_credits(
    trajectory: Trajectory, credit: TokenCredit, *, scale: float, decode: Decode | None = None
) -> tuple[TurnCredit, ...]:
    """Credit of each turn of an episode.

    Args:
        trajectory: with its token stream.
        credit: of its sampled tokens.
        scale: absolute advantage from which on the colour is the strongest.
        decode: text of tokens; None: the action of a turn is shown in one colour.
    """
    stream = trajectory.tokens
    if stream is None:
        return ()
    at = np.flatnonzero(stream.sampled[1:]) + 1  # nothing precedes the first token of a stream
    of_turn, ids = stream.turns[at], stream.ids[at]
    found, room = [], MOST_TOKENS
    for number, turn in enumerate(trajectory.turns):
        mine = of_turn == number
        count = int(mine.sum())
        rewards, advantages = credit.rewards[mine], credit.advantages[mine]
        mean, left_out = _mean(advantages), 0
        if decode is None:
            patches: tuple[Patch, ...] = (
                Patch(turn.action, level(mean, scale), f"advantage {mean:+.3g} a token"),
            )
        else:
            left_out = max(0, count - room)
            shown = ids[mine][: count - left_out].tolist()
            patches = _patches(shown, rewards, advantages, scale, decode)
            room -= len(shown)
        found.append(
            TurnCredit(
                number=number + 1,
                tokens=count,
                reward=float(rewards.sum()),
                advantage=float(advantages.sum()),
                mean=mean,
                level=level(mean, scale),
                patches=patches,
                left_out=left_out,
            )
        )
    return tuple(found)


def level(advantage: float, scale: float) -> str:
    """Style class of an advantage.

    Example:
        >>> level(0.5, 1.0), level(-2.0, 1.0), level(0.0, 1.0)
        ('p3', 'n5', '')
    """
    if not math.isfinite(advantage) or advantage == 0 or scale <= 0:
        return ""
    step = min(_LEVELS, math.ceil(_LEVELS * abs(advantage) / scale))
    return f"{'p' if advantage > 0 else 'n'}{step}"


def decoder(store: RunStore) -> Decode | None:
    """Text of tokens by the tokenizer of the newest checkpoint; None without one, or without tokenizers."""
    newest = store.latest_checkpoint()
    file = None if newest is None else newest[1] / "tokenizer.json"
    if file is None or not file.is_file():
        return None
    try:
        from tokenizers import Tokenizer
    except ImportError:
        return None
    return _load(Tokenizer, file)


def _load(kind: Any, file: Path) -> Decode | None:
    try:
        tokenizer = kind.from_file(str(file))
    except Exception:  # the library raises no class of its own
        return None
    return lambda ids: str(tokenizer.decode(list(ids), skip_special_tokens=False))


def _patches(
    ids: Sequence[int],
    rewards: npt.NDArray[np.float32],
    advantages: npt.NDArray[np.float32],
    scale: float,
    decode: Decode,
) -> tuple[Patch, ...]:
    """Tokens as text; neighbours whose numbers look the same become one patch."""
    found: list[tuple[Patch, int]] = []
    for text, first, end in _pieces(ids, decode):
        advantage, reward = _mean(advantages[first:end]), float(rewards[first:end].sum())
        title = f"advantage {advantage:+.3g}" + (f", reward {reward:+.3g}" if reward else "")
        patch, tokens = Patch(text, level(advantage, scale), title), end - first
        if found and not reward and found[-1][0].title == title:
            patch = Patch(found[-1][0].text + text, patch.level, title)
            tokens += found.pop()[1]
        found.append((patch, tokens))
    return tuple(
        Patch(p.text, p.level, p.title if tokens == 1 else f"{p.title} ({tokens} tokens)")
        for p, tokens in found
    )


def _pieces(ids: Sequence[int], decode: Decode) -> list[tuple[str, int, int]]:
    """(text, first, end) of the fewest tokens that are whole characters.

    A token is decoded behind the piece before it: alone, some tokenizers drop the space that it begins with.
    """
    pieces: list[tuple[str, int, int]] = []
    before = first = 0
    for end in range(1, len(ids) + 1):
        known, whole = decode(ids[before:first]), decode(ids[before:end])
        text = whole[len(known) :] if whole.startswith(known) else decode(ids[first:end])
        unfinished = text.endswith("\ufffd") and end < len(ids) and end - first < _LONGEST
        if not unfinished:
            pieces.append((text, first, end))
            before, first = first, end
    return pieces


def _mean(values: npt.NDArray[np.float32]) -> float:
    return float(np.mean(values, dtype=np.float64)) if len(values) else 0.0


def _from_middle(ranked: Sequence[Trajectory]) -> list[Trajectory]:
    middle = (len(ranked) - 1) / 2
    return [ranked[i] for i in sorted(range(len(ranked)), key=lambda i: abs(i - middle))]
