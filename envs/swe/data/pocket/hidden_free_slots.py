import pytest
from free_slots import clock, first_fit, free_slots


def test_back_to_back_meetings():
    busy = [(600, 700), (700, 800)]
    assert free_slots(busy) == [(540, 600), (800, 1020)]


def test_short_gap_is_skipped():
    assert free_slots([(540, 600), (614, 1020)]) == []
    assert free_slots([(540, 600), (615, 1020)]) == [(600, 615)]


def test_inner_meeting_keeps_outer_end():
    busy = [(100, 400), (150, 200)]
    assert free_slots(busy, 0, 500, 10) == [(0, 100), (400, 500)]


def test_late_meetings_are_cut():
    busy = [(300, 310), (50, 60)]
    assert free_slots(busy, 0, 200, 5) == [(0, 50), (60, 200)]


def test_day_must_not_be_empty():
    with pytest.raises(ValueError):
        free_slots([(1, 2)], 1020)
    with pytest.raises(ValueError):
        first_fit([], 5, 30, 20)


def test_first_fit_takes_the_earliest():
    busy = [(545, 550), (580, 900)]
    assert first_fit(busy, 5) == 540
    assert first_fit(busy, 30) == 550
    assert first_fit(busy, 31) == 900
    with pytest.raises(ValueError):
        first_fit(busy, 121)


def test_default_hours():
    assert free_slots([(0, 541)]) == [(541, 1020)]
    assert free_slots([(1019, 1500)]) == [(540, 1019)]


def test_clock_pads():
    assert clock(0) == "00:00"
    assert clock(1439) == "23:59"
    assert clock(607) == "10:07"
