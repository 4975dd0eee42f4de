from __future__ import annotations

import itertools

import numpy as np
import pytest

from agentic_gym.errors import ConfigError
from agentic_gym.trainers.selection.base import GroupResult, TaskFacts
from agentic_gym.trainers.selection.curriculum import CurriculumTasks

TASKS = [TaskFacts(f"t{i:02d}") for i in range(20)]


def tell(tasks: CurriculumTasks, update: int, rate: float, count: int = 20) -> None:
    tasks.observe(update, [GroupResult(i, f"t{i:02d}", round(20 * rate), 20) for i in range(count)])


def test_the_band_moves_from_easy_to_hard_by_the_rule() -> None:
    tasks = CurriculumTasks(TASKS, max_step=1.0, discount=0.01)
    assert tasks.band == (0.4, 0.9)
    tell(tasks, 1, 0.2)
    assert tasks.band == (0.4, 0.9)  # below begin_at
    tell(tasks, 2, 0.5)
    mean = tasks.metrics()["selection_posterior_mean"]
    assert mean == pytest.approx(0.5, abs=0.02)
    assert tasks.progress == pytest.approx((mean - 0.3) / 0.4)
    assert tasks.band == pytest.approx((0.4 - 0.3 * tasks.progress, 0.9 - 0.3 * tasks.progress))
    tell(tasks, 3, 0.95)
    assert tasks.band == pytest.approx((0.1, 0.6))


def test_it_never_moves_back_and_never_jumps() -> None:
    tasks = CurriculumTasks(TASKS, max_step=0.1, discount=0.1)
    progress = []
    for update, rate in enumerate([1.0, 1.0, 0.0, 0.0, 1.0, 0.0, *[1.0] * 20]):
        tell(tasks, update, rate)
        progress.append(tasks.progress)
    steps = np.diff([0.0, *progress])
    assert ((steps >= 0) & (steps <= 0.1 + 1e-12)).all()
    assert progress[2] == progress[3] == progress[1]
    assert progress[-1] == 1.0


def test_it_waits_until_enough_tasks_are_known() -> None:
    """Before, the mean posterior is the prior's ½, which lies above begin_at."""
    tasks = CurriculumTasks(TASKS)
    tell(tasks, 1, 1.0, count=4)
    assert tasks.progress == 0
    tell(tasks, 2, 1.0, count=6)
    assert tasks.progress > 0


def test_draws_follow_the_band() -> None:
    """Tasks of 0.7 are drawn first; when the policy has got better, those that were too hard are."""
    easy, hard = [TaskFacts(f"e{i}") for i in range(20)], [TaskFacts(f"h{i}") for i in range(20)]
    tasks = CurriculumTasks([*easy, *hard], explore=0.0, spacing=0, max_step=1.0, discount=0.05)

    def told(update: int, easy_rate: float, hard_rate: float) -> int:
        pairs = [(t, easy_rate) for t in easy] + [(t, hard_rate) for t in hard]
        tasks.observe(
            update,
            [GroupResult(i, t.task_id, round(rate * 40), 40) for i, (t, rate) in enumerate(pairs)],
        )
        return sum(tasks.next_task().startswith("h") for _ in range(60))

    assert told(1, 0.5, 0.05) < 5
    assert told(2, 0.97, 0.4) > 50


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"start_low": 0.05}, "from easy to hard"),
        ({"start_high": 0.5}, "from easy to hard"),
        ({"start_low": 0.95}, r"start_low=0.95 and start_high=0.9"),
        ({"begin_at": 0.8}, r"begin_at=0.8, end_at=0.7"),
        ({"max_step": 0.0}, r"max_step=0.0"),
    ],
)
def test_numbers_out_of_range_are_refused(options: dict[str, float], match: str) -> None:
    with pytest.raises(ConfigError, match=match):
        CurriculumTasks(TASKS, **options)


def test_progress_is_saved() -> None:
    first, second = CurriculumTasks(TASKS), CurriculumTasks(TASKS)
    for update in itertools.count(1):
        tell(first, update, 0.9)
        if first.progress > 0.2:
            break
    second.load_state_dict(first.state_dict())
    assert second.band == first.band
    assert second.metrics()["selection_progress"] == first.progress
