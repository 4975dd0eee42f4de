"""Prefixes of interrupted trajectories, in chunks: what was stored of a long one is never written again.

A chunk holds some turns and their tokens (:func:`part`); put together in order they are the prefix
(:func:`joined`).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import fields, replace

import numpy as np

from agentic_gym.store.records import decode_trajectory, encode_trajectory
from agentic_gym.types import TokenStream, Trajectory

TABLES = """
CREATE TABLE chunks (id TEXT NOT NULL, first_turn INTEGER NOT NULL, num_turns INTEGER NOT NULL,
  record BLOB NOT NULL, PRIMARY KEY (id, first_turn))
"""


def part(trajectory: Trajectory, first_turn: int) -> Trajectory:
    """The turns from ``first_turn`` on, with their tokens; from 0, the first prompt too."""
    tokens = trajectory.tokens
    if tokens is not None and first_turn:
        own = tokens.turns >= first_turn
        tokens = TokenStream(**{f.name: getattr(tokens, f.name)[own] for f in fields(TokenStream)})
    return replace(trajectory, turns=trajectory.turns[first_turn:], tokens=tokens)


def joined(parts: Sequence[Trajectory]) -> Trajectory:
    """The trajectory that :func:`part` cut up; what is not in turns comes from the last part."""
    streams = [p.tokens for p in parts if p.tokens is not None]
    tokens = None
    if len(streams) == len(parts):
        names = [f.name for f in fields(TokenStream)]
        tokens = TokenStream(**{n: np.concatenate([getattr(s, n) for s in streams]) for n in names})
    turns = tuple(turn for p in parts for turn in p.turns)
    return replace(parts[-1], turns=turns, tokens=tokens)


def extend(db: sqlite3.Connection, prefix: Trajectory) -> None:
    """Stores what is new of a prefix: the turns after those that are stored."""
    name = prefix.trajectory_id
    chunks, turns = db.execute(
        "SELECT COUNT(*), COALESCE(SUM(num_turns), 0) FROM chunks WHERE id = ?", (name,)
    ).fetchone()
    new = len(prefix.turns) - turns
    if new > 0 or not chunks:
        record = encode_trajectory(part(prefix, turns))
        db.execute("INSERT INTO chunks VALUES (?, ?, ?, ?)", (name, turns, new, record))


def load(db: sqlite3.Connection, name: str) -> Trajectory:
    """A stored prefix, of which there is at least one chunk."""
    rows = db.execute("SELECT record FROM chunks WHERE id = ? ORDER BY first_turn", (name,))
    return joined([decode_trajectory(row[0]) for row in rows])


def forget(db: sqlite3.Connection, name: str) -> None:
    """Removes a prefix, if there is one."""
    db.execute("DELETE FROM chunks WHERE id = ?", (name,))
