"""Figures of one batch, from the trajectories that it trained on. Pure.

Every figure is a share in [0, 1] unless its name says otherwise; one that a batch does not tell is left out.
The SWE environment says in a turn's ``info`` whether it was a ``mishap``, and why. Other tool environments
say ``tools`` when a call was read and answer a refused one with ``Error: …``, from which mishaps are guessed;
of those that do neither, the figures that need it are left out.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from agentic_gym.actions import parse_action
from agentic_gym.types import Outcome, Trajectory, Turn

REASON = "batch.mishap."
"""What the figures of mishaps begin with, the reason behind it."""

_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]{2,}")
_IDLE = r"(?!.*: nothing would change$)"
"""How a call that was right in form and idle is answered by the SWE environment, whose older runs do not say
what a mishap was: it was none."""
_REFUSED = re.compile(r"\AError: " + _IDLE, re.MULTILINE)
_ONE_REFUSED = re.compile(r"^\[\S+ \S+\]\nError: " + _IDLE, re.MULTILINE)
"""One of several answers, under its heading."""
_EQUAL = 1e-9
_MIN_FIT = 24
"""Turns that a fit of three coefficients needs before it says anything."""
_GOOD_FIT = 0.5
"""Share of the variance that the fit must explain: below it, time depends on something else."""
_LATE_TURNS = 4
"""Turns of an episode that has a late half: with fewer, every turn is close to the request."""


def figures(batch: Sequence[Trajectory]) -> dict[str, float]:
    """Everything that is measured of a batch.

    Args:
        batch: trajectories of one update.
    """
    if not batch:
        return {}
    return {
        "batch.reward_spread": float(np.std([t.reward for t in batch])),
        "batch.solved": _share([t.outcome is Outcome.SOLVED for t in batch]),
        "batch.suspected_hacks": _share([t.outcome is Outcome.SUSPECTED_HACK for t in batch]),
        **_groups(batch),
        **_ends(batch),
        **_acts(batch),
        **_tests(batch),
        **_seconds(batch),
        **_credit(batch),
    }


# ---- groups and endings ----------------------------------------------------------------------------


def _groups(batch: Sequence[Trajectory]) -> dict[str, float]:
    groups: dict[str, list[Trajectory]] = defaultdict(list)
    for t in batch:
        groups[t.group_id].append(t)
    found = {"batch.tasks": float(len({t.task_id for t in batch}))}
    several = [group for group in groups.values() if len(group) > 1]
    if several:
        solved = [[t.outcome is Outcome.SOLVED for t in group] for group in several]
        spreads = [np.ptp([t.reward for t in group]) for group in several]
        found["batch.groups_equal"] = _share([spread <= _EQUAL for spread in spreads])
        found["batch.groups_failed"] = _share([not any(group) for group in solved])
        found["batch.groups_solved"] = _share([all(group) for group in solved])
    return found


def _ends(batch: Sequence[Trajectory]) -> dict[str, float]:
    reasons = [str(_fact(t, "truncation_reason") or "") for t in batch]
    return {
        "batch.out_of_turns": _share([reason.startswith("turn") for reason in reasons]),
        "batch.out_of_tokens": _share([reason.startswith("token") for reason in reasons]),
        "batch.out_of_time": _share([reason.startswith("time") for reason in reasons]),
        "batch.cut_completions": _share([u.finish_reason == "length" for u in _turns(batch)]),
    }


# ---- what the agent does ---------------------------------------------------------------------------


def _acts(batch: Sequence[Trajectory]) -> dict[str, float]:
    found = _mishaps(list(_turns(batch)))
    repeats, early, late = [], [], []
    for t in batch:
        seen: set[tuple[str, str]] = set()
        for turn in t.turns:
            if seen:
                repeats.append((turn.action, turn.observation) in seen)
            seen.add((turn.action, turn.observation))
        if len(t.turns) >= _LATE_TURNS:
            touched = touches(t)
            half = len(touched) // 2
            early += touched[:half]
            late += touched[half:]
    if repeats:
        found["batch.repeats"] = _share(repeats)
    if early and late:
        found["batch.touches_early"], found["batch.touches_late"] = _share(early), _share(late)
    return found


def _mishaps(turns: Sequence[Turn]) -> dict[str, float]:
    """Share of turns that went wrong, and of those the environment names a reason for, by reason."""
    if not any("tools" in turn.info or "mishap" in turn.info for turn in turns):
        return {}
    found = {"batch.mishaps": _share([is_mishap(turn) for turn in turns])}
    reasons = Counter(turn.info.get("mishap") for turn in turns)
    return found | {
        f"{REASON}{reason}": count / len(turns)
        for reason, count in reasons.items()
        if isinstance(reason, str)
    }


def is_mishap(turn: Turn) -> bool:
    """The environment says so; of one that says nothing: no call could be read, or one was refused.

    A call that would have changed nothing is no mishap.
    """
    if "mishap" in turn.info:
        return bool(turn.info["mishap"])
    tools = turn.info.get("tools")
    if not tools:
        return True
    pattern = _REFUSED if len(tools) == 1 else _ONE_REFUSED
    return pattern.search(turn.observation) is not None


def touches(trajectory: Trajectory) -> list[bool]:
    """Of each turn that says anything: whether it names something that the request names.

    What counts are the values of its calls' arguments; where no call can be read, the text itself. A call
    without arguments, such as a submission, says nothing either way.
    """
    request = set(_WORD.findall(trajectory.prompt))
    said = [set(_WORD.findall(_arguments(turn.action))) for turn in trajectory.turns]
    return [bool(words & request) for words in said if words]


def _arguments(action: str) -> str:
    calls = [call for call in parse_action(action).calls if call.arguments is not None]
    if not calls:
        return action
    return " ".join(str(value) for call in calls for value in (call.arguments or {}).values())


# ---- tests and credit ------------------------------------------------------------------------------


def _tests(batch: Sequence[Trajectory]) -> dict[str, float]:
    visible, tampered = [], []
    for t in batch:
        counts = [turn.info for turn in t.turns if "tests_total" in turn.info]
        if counts:
            visible.append(counts[-1].get("tests_passed", 0) >= counts[-1]["tests_total"])
        grade = _fact(t, "grade")
        changed = isinstance(grade, dict) and bool(grade.get("tampered"))
        tampered.append(changed or any(turn.info.get("tests_changed") for turn in t.turns))
    found = {"batch.tampered": _share(tampered)}
    if visible:
        found["batch.visible_solved"] = _share(visible)
    return found


def _credit(batch: Sequence[Trajectory]) -> dict[str, float]:
    paid = [[abs(turn.reward) for turn in t.turns] for t in batch if t.turns]
    total = sum(map(sum, paid))
    found = {"batch.turns": float(np.mean([len(t.turns) for t in batch]))}
    if total > _EQUAL:
        found["batch.last_reward"] = sum(rewards[-1] for rewards in paid) / total
    return found


# ---- seconds ---------------------------------------------------------------------------------------


def _seconds(batch: Sequence[Trajectory]) -> dict[str, float]:
    timed = [t for t in batch if t.metrics.get("duration_s", 0.0) > 0]
    if not timed:
        return {}
    durations = np.asarray([t.metrics["duration_s"] for t in timed])
    total = float(durations.sum())
    graded = [turn for t in timed for turn in t.turns[-1:] if "grade" in turn.info]
    # Grading at a budget is outside of any turn: it is in what is left over, with the reset.
    grading = sum(turn.step_s for turn in graded if "truncation_reason" not in turn.info)
    generating = sum(turn.generate_s for t in timed for turn in t.turns)
    stepping = sum(turn.step_s for t in timed for turn in t.turns) - grading
    return {
        "batch.generate_share": generating / total,
        "batch.tool_share": stepping / total,
        "batch.grading_share": grading / total,
        "batch.other_share": max(0.0, total - generating - stepping - grading) / total,
        "batch.straggler_ratio": float(np.percentile(durations, 99) / np.median(durations)),
        **_prefill(timed),
    }


def _prefill(batch: Sequence[Trajectory]) -> dict[str, float]:
    """Share of the seconds of later turns that goes with the length of the context.

    With keys and values kept between turns, a turn costs what it samples; where they are computed again,
    what it reads. Least squares of seconds on both tells them apart, as far as they explain the seconds
    at all.
    """
    rows = [row for t in batch for row in _costs(t)]
    if len(rows) < _MIN_FIT:
        return {}
    table = np.asarray(rows)
    seconds, sampled, context = table.T
    design = np.stack([np.ones_like(sampled), sampled, context], axis=1)
    weights, _, rank, _ = np.linalg.lstsq(design, seconds, rcond=None)
    scatter = float(seconds.var())
    if rank < 3 or scatter <= 0 or seconds.mean() <= 0:
        return {}
    explained = 1 - float((seconds - design @ weights).var()) / scatter
    if explained < _GOOD_FIT:
        return {}
    share = float(weights[2] * context.mean() / seconds.mean())
    return {"batch.prefill_share": min(max(share, 0.0), 1.0)}


def _costs(trajectory: Trajectory) -> Iterator[tuple[float, int, int]]:
    """Seconds, sampled tokens and tokens read, of each turn after the first."""
    stream = trajectory.tokens
    if stream is None:
        return
    for number, turn in enumerate(trajectory.turns):
        own = np.flatnonzero(stream.sampled & (stream.turns == number))
        if number and len(own):
            yield turn.generate_s, len(own), int(own[0])


# ---- small things ----------------------------------------------------------------------------------


def _turns(batch: Sequence[Trajectory]) -> Iterator[Turn]:
    return (turn for t in batch for turn in t.turns)


def _fact(trajectory: Trajectory, name: str) -> Any:
    return trajectory.turns[-1].info.get(name) if trajectory.turns else None


def _share(values: Sequence[bool]) -> float:
    return float(np.mean(values)) if len(values) else 0.0
