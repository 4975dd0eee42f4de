"""Choosing what is imitated: nothing leaks, nothing is lost, and no order matters."""

from __future__ import annotations

import random
from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from agentic_gym.trainers.explored import NEAR_DUPLICATE, choose
from agentic_gym.trainers.selection.filters import similarity, sketch
from agentic_gym.types import Outcome, Trajectory, Turn

TASKS = ("a", "b", "c", "d")
word = st.sampled_from(["edit", "x = 1", "submit", "one two three four five six", "\ud800"])
trajectories = st.builds(
    lambda number, task, seed, actions, outcome: Trajectory(
        f"{number}",  # of another run the id may be the same
        task,
        "g",
        seed,
        "",
        tuple(Turn(action, "", 0.0) for action in actions),
        None,
        outcome,
        True,
        False,
    ),
    st.integers(0, 2),
    st.sampled_from(TASKS),
    st.integers(0, 1),
    st.lists(word, max_size=3),
    st.sampled_from([*Outcome, Outcome.SOLVED, Outcome.SOLVED]),
)
shares = st.sampled_from([0.0, 0.2, 0.5, 0.8, 1.0])
bands = st.tuples(shares, shares).map(lambda ends: (min(ends), max(ends)))


@settings(deadline=None, derandomize=True, max_examples=100)
@given(
    st.lists(trajectories, max_size=12),
    st.randoms(use_true_random=False),
    st.lists(st.sampled_from(TASKS), max_size=4, unique=True),
    bands,
    st.integers(1, 3),
    st.integers(0, 3),
)
def test_any_episodes(
    played: list[Trajectory],
    rng: random.Random,
    tasks: list[str],
    band: tuple[float, float],
    per_task: int,
    max_tasks: int,
) -> None:
    shuffled = rng.sample(played, len(played))
    choice = choose(played, tasks, band=band, per_task=per_task, max_tasks=max_tasks)
    assert choice == choose(shuffled, tasks, band=band, per_task=per_task, max_tasks=max_tasks)
    assert choice.tries == len(played) == len(choice.chosen) + sum(choice.left_out.values())

    solved = {
        (t.task_id, tuple(turn.action for turn in t.turns))
        for t in played
        if t.outcome is Outcome.SOLVED
    }
    kept = [(one.task_id, one.actions) for one in choice.chosen]
    assert set(kept) <= solved
    assert len(set(kept)) == len(kept), "no equal episodes of a task"
    number = Counter(task for task, _ in kept)
    assert set(number) <= set(tasks), "no task that does not train"
    assert max(number.values(), default=0) <= per_task
    assert len(number) <= (max_tasks or len(TASKS))
    assert list(number) == [task for task in tasks if task in number], "in the order of the tasks"
    for task in number:
        tries = [t for t in played if t.task_id == task and t.outcome is not Outcome.INFRA_ERROR]
        share = sum(t.outcome is Outcome.SOLVED for t in tries) / len(tries)
        assert band[0] <= share <= band[1]
        marks = [sketch(turns_of(actions)) for name, actions in kept if name == task]
        pairs = [(one, other) for n, one in enumerate(marks) for other in marks[:n]]
        assert all(similarity(one, other) < NEAR_DUPLICATE for one, other in pairs)


def turns_of(actions: tuple[str, ...]) -> Trajectory:
    turns = tuple(Turn(action, "", 0.0) for action in actions)
    return Trajectory("", "", "", 0, "", turns, None, Outcome.SOLVED, True, False)
