"""The verdicts of validation, on grades made by hand; a run with real grades is in integration."""

from agentic_gym.envs.swe.grading import Grade
from agentic_gym.envs.swe.validation import gold_problems, no_edit_problems
from agentic_gym.types import Outcome


def test_a_sound_task() -> None:
    assert not list(gold_problems(Grade(Outcome.SOLVED, "all pass")))
    failed = Grade(Outcome.FAILED, "empty patch", {"t::a": "failed"}, {"t::b": "passed"})
    assert not list(no_edit_problems(failed))


def test_gold_that_does_not_solve() -> None:
    for outcome in (Outcome.FAILED, Outcome.SUSPECTED_HACK):
        (problem,) = gold_problems(Grade(outcome, "why"))
        assert outcome.value in problem
        assert "why" in problem


def test_no_edit_that_solves_or_looks_like_a_hack() -> None:
    for outcome in (Outcome.SOLVED, Outcome.SUSPECTED_HACK):
        (problem,) = no_edit_problems(Grade(outcome, "why", {"t::a": "failed"}))
        assert outcome.value in problem


def test_where_the_base_hangs_only_the_outcome_counts() -> None:
    grade = Grade(Outcome.FAILED, "too long", {"t::a": "passed"}, {"t::b": "missing"})
    assert not list(no_edit_problems(grade, hangs=True))
    solved = Grade(Outcome.SOLVED, "all pass")
    assert len(list(no_edit_problems(solved, hangs=True))) == 1


def test_recorded_outcomes_must_hold_on_the_base() -> None:
    grade = Grade(
        Outcome.FAILED,
        "empty patch",
        {"t::a": "failed", "t::b": "passed"},
        {"t::c": "passed", "t::d": "missing"},
    )
    passing, failing = no_edit_problems(grade)
    assert "t::b" in passing
    assert "t::a" not in passing
    assert "t::d" in failing
    assert "t::c" not in failing
