from __future__ import annotations

import xml.etree.ElementTree as ET

from agentic_gym.report.rounds import draw_round
from agentic_gym.types import Outcome, Trajectory, Turn


def episode(name: str, began_at: float | None, *turns: tuple[float, float, float]) -> Trajectory:
    made = tuple(Turn("a", "b", 0.0, generate_s=g, step_s=s, began_s=at) for at, g, s in turns)
    metrics = {} if began_at is None else {"began_at": began_at}
    return Trajectory(
        name, "t", "g", 0, "", made, None, Outcome.FAILED, True, False, metrics=metrics
    )


def test_turns_lie_where_they_were_in_time() -> None:
    drawn = draw_round(
        [
            episode("late", 104.0, (0.0, 2.0, 4.0)),
            episode("early", 100.0, (0.0, 1.0, 2.0), (5.0, 1.0, 4.0)),
        ],
        title="a < b",
    )
    assert drawn is not None
    root = ET.fromstring(drawn)
    titles = [element.text for element in root.iter("{http://www.w3.org/2000/svg}title")]
    assert titles == [
        "engine: 0.0 to 1.0 s",
        "environment: 1.0 to 3.0 s",
        "engine: 5.0 to 6.0 s",
        "environment: 6.0 to 10.0 s",
        "engine: 4.0 to 6.0 s",
        "environment: 6.0 to 10.0 s",
    ]
    texts = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert texts.index("early") < texts.index("late")
    assert "a < b" in texts


def test_episodes_that_nobody_timed_are_not_drawn() -> None:
    assert draw_round([], title="") is None
    assert draw_round([episode("old", None, (0.0, 1.0, 1.0))], title="") is None
    assert draw_round([episode("empty", 5.0)], title="") is None
    assert draw_round([episode("instant", 5.0, (0.0, 0.0, 0.0))], title="") is None
