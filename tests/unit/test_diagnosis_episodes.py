"""Figures of a batch, on trajectories small enough to count by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from agentic_gym.trainers.diagnosis.episodes import figures, is_mishap, touches
from agentic_gym.trainers.diagnosis.synthetic import call
from agentic_gym.types import Outcome, TokenStream, Trajectory, Turn


def turn(action: str = "a", observation: str = "o", reward: float = 0.0, **rest: Any) -> Turn:
    info = rest.pop("info", {})
    return Turn(action, observation, reward, info=info, **rest)


def episode(
    *turns: Turn,
    group: str = "g",
    outcome: Outcome = Outcome.FAILED,
    prompt: str = "",
    tokens: TokenStream | None = None,
    **metrics: float,
) -> Trajectory:
    return Trajectory(
        "t", group, group, 0, prompt, turns, tokens, outcome, True, False, metrics=metrics
    )  # fmt: skip


def test_groups_are_told_by_what_their_members_did() -> None:
    solved, failed = Outcome.SOLVED, Outcome.FAILED
    batch = [
        episode(turn(reward=1.0), group="a", outcome=solved),
        episode(turn(reward=1.0), group="a", outcome=solved),
        episode(turn(reward=0.2), group="b", outcome=failed),
        episode(turn(reward=0.1), group="b", outcome=failed),
        episode(turn(reward=0.0), group="c", outcome=failed),
        episode(turn(reward=1.0), group="c", outcome=solved),
        episode(turn(reward=0.0), group="alone", outcome=failed),
    ]
    found = figures(batch)
    assert found["batch.tasks"] == 4
    assert found["batch.groups_equal"] == pytest.approx(1 / 3)
    assert found["batch.groups_solved"] == pytest.approx(1 / 3)
    assert found["batch.groups_failed"] == pytest.approx(1 / 3)
    assert found["batch.solved"] == pytest.approx(3 / 7)
    assert not {name for name in figures(batch[6:]) if "groups" in name}
    assert figures([]) == {}


def test_endings_are_told_by_their_reason() -> None:
    reasons = ["turn limit of 6", "tokens", "time limit of 9 s", None, "token budget of 9"]
    batch = [episode(turn(info={"truncation_reason": reason})) for reason in reasons]
    found = figures(batch)
    ends = [found[f"batch.out_of_{what}"] for what in ("turns", "tokens", "time")]
    assert ends == pytest.approx([0.2, 0.4, 0.2])
    batch = [episode(turn(finish_reason="length"), turn(), turn(), turn())]
    assert figures(batch)["batch.cut_completions"] == 0.25
    assert figures([episode()])["batch.out_of_turns"] == 0


def test_a_repeat_has_the_same_answer() -> None:
    batch = [episode(turn("a", "1"), turn("a", "2"), turn("b", "1"), turn("a", "1"))]
    assert figures(batch)["batch.repeats"] == pytest.approx(1 / 3)
    assert "batch.repeats" not in figures([episode(turn())])


def test_mishaps_are_counted_where_the_environment_says_which_tools_ran() -> None:
    tools = {"tools": ["view"]}
    batch = [
        episode(
            turn(info=tools), turn(observation="no call"), turn(observation="Error: x", info=tools)
        )
    ]
    assert figures(batch)["batch.mishaps"] == pytest.approx(2 / 3)
    two = turn(observation="[1 view]\nfine\n[2 edit]\nError: no", info={"tools": ["view", "edit"]})
    assert figures([episode(turn(info=tools), two)])["batch.mishaps"] == 0.5
    assert "batch.mishaps" not in figures([episode(turn(), turn())])


def test_what_the_environment_says_of_a_mishap_counts_before_any_guess() -> None:
    said: list[dict[str, Any]] = [
        {"tools": ["edit"], "mishap": None},
        {"tools": ["edit"], "mishap": "broken_tests"},
        {"mishap": "no_call"},
        {"tools": ["edit"], "mishap": "broken_tests"},
        {"tools": ["edit"], "mishap": True},  # of somebody else's environment
        {"tools": ["edit"], "mishap": False},
    ]
    error = "Error: said a file"  # which is an answer, where nothing went wrong
    found = figures([episode(*(turn(observation=error, info=info) for info in said))])
    assert found["batch.mishaps"] == pytest.approx(4 / 6)
    reasons = {name: share for name, share in found.items() if name.startswith("batch.mishap.")}
    assert reasons == pytest.approx(
        {"batch.mishap.broken_tests": 2 / 6, "batch.mishap.no_call": 1 / 6}
    )
    assert figures([episode(turn(info={"mishap": None}))])["batch.mishaps"] == 0
    old = figures([episode(turn(info={"tools": ["edit"]}), turn(info={"mishap": "refused"}))])
    assert old["batch.mishaps"] == 0.5


@pytest.mark.parametrize(
    ("tools", "observation", "mishap"),
    [
        (["edit"], "Error: there is no file", True),
        (["edit"], "Error: the new text equals the old: nothing would change", False),
        (["edit"], "1 passed\nError: said a test", False),
        (["edit"], "[1 edit]\nError: said a file", False),
        (["edit", "undo"], "[1 edit]\ndone\n[2 undo]\nError: there is no edit", True),
        (["edit", "undo"], "[1 edit]\nError: the same: nothing would change\n[2 undo]\nok", False),
        (["edit", "undo"], "[1 edit]\ndone\nError: said a test\n[2 undo]\nok", False),
        ([], "no call", True),
    ],
)
def test_a_mishap_is_a_call_that_was_refused(
    tools: list[str], observation: str, mishap: bool
) -> None:
    assert is_mishap(turn(observation=observation, info={"tools": tools})) == mishap


def test_touching_the_request_is_naming_what_it_names() -> None:
    acts = [
        call("view", path="shop/cart.py"),
        call("edit", path="other.py", new="total_price"),
        call("edit", path="other.py", new="zzz"),
        call("submit"),
        "I think of the cart",
        "I think of nothing",
    ]
    t = episode(*map(turn, acts), prompt="fix total_price in shop/cart.py: tool edit view")
    assert touches(t) == [True, True, False, True, False]
    found = figures([t])
    shares = [found["batch.touches_early"], found["batch.touches_late"]]
    assert shares == pytest.approx([1.0, 1 / 3])
    assert "batch.touches_late" not in figures([episode(*map(turn, acts[:3]))])


def test_tests_and_tampering() -> None:
    passed, failed = (
        {"tests_passed": 3, "tests_total": 3},
        {"tests_passed": 2, "tests_total": 3},
    )
    batch = [
        episode(turn(info=failed), turn(info=passed), turn()),
        episode(turn(info=passed), turn(info=failed)),
        episode(turn(info={"tests_changed": True}), turn()),
        episode(turn(info={"grade": {"tampered": ["conftest.py"]}})),
        episode(turn(info={"grade": {"tampered": []}})),
    ]
    found = figures(batch)
    assert found["batch.visible_solved"] == 0.5
    assert found["batch.tampered"] == pytest.approx(0.4)
    assert "batch.visible_solved" not in figures(batch[3:])


def test_seconds_are_split_without_rest() -> None:
    graded: dict[str, Any] = {"grade": {}}
    ended = episode(
        turn(generate_s=4.0, step_s=1.0),
        turn(generate_s=1.0, step_s=2.0, info=graded),
        duration_s=10.0,
    )
    truncated = episode(
        turn(generate_s=5.0, step_s=3.0, info={**graded, "truncation_reason": "time"}),
        duration_s=10.0,
    )
    found = figures([ended, truncated])
    names = ("generate", "tool", "grading", "other")
    shares = [found[f"batch.{name}_share"] for name in names]
    assert shares == pytest.approx([0.5, 0.2, 0.1, 0.2])
    assert found["batch.straggler_ratio"] == 1.0
    assert "batch.tool_share" not in figures([episode(turn(generate_s=1.0))])


def stream(context: int, counts: list[int]) -> TokenStream:
    turns = [np.full(context, -1)] + [np.full(2 * n, k) for k, n in enumerate(counts)]
    sampled = [np.zeros(context, bool)] + [np.arange(2 * n) < n for n in counts]
    mask = np.concatenate(sampled)
    zeros = np.zeros(len(mask))
    return TokenStream(
        zeros.astype(np.int32),
        mask,
        zeros.astype(np.float32),
        zeros.astype(np.int32),
        np.concatenate(turns).astype(np.int32),
    )


@pytest.mark.parametrize(("a_sampled", "a_read", "share"), [(0.01, 0.0, 0.0), (0.001, 0.01, 0.98)])
def test_prefill_is_told_from_sampling(a_sampled: float, a_read: float, share: float) -> None:
    rng = np.random.default_rng(0)
    batch = []
    for _ in range(20):
        counts = rng.integers(10, 60, 4).tolist()
        reads = [100 + 2 * sum(counts[:k]) for k in range(4)]
        turns = [
            turn(generate_s=0.01 + a_sampled * n + a_read * m)
            for n, m in zip(counts, reads, strict=True)
        ]
        batch.append(episode(*turns, tokens=stream(100, counts), duration_s=60.0))
    assert figures(batch)["batch.prefill_share"] == pytest.approx(share, abs=0.02)
    noise = [
        episode(
            *(turn(generate_s=float(rng.exponential())) for _ in t.turns),
            tokens=t.tokens,
            duration_s=60.0,
        )
        for t in batch
    ]
    assert "batch.prefill_share" not in figures(noise)
    assert "batch.prefill_share" not in figures(batch[:3])


def test_where_the_reward_falls() -> None:
    batch = [
        episode(turn(reward=-0.1), turn(reward=0.9)),
        episode(turn(reward=0.5), turn(reward=-0.5)),
    ]
    found = figures(batch)
    assert [found["batch.last_reward"], found["batch.turns"]] == pytest.approx([0.7, 2])
    assert "batch.last_reward" not in figures([episode(turn())])
