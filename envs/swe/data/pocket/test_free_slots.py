import pytest
from free_slots import clock, first_fit, free_slots


def test_empty_day_is_one_slot():
    assert free_slots([]) == [(540, 1020)]
    assert free_slots([], 0, 60) == [(0, 60)]


def test_one_meeting_splits():
    assert free_slots([(600, 660)]) == [(540, 600), (660, 1020)]


def test_unsorted_and_overlapping():
    busy = [(700, 760), (560, 650), (600, 620)]
    assert free_slots(busy) == [(540, 560), (650, 700), (760, 1020)]


def test_shortest_is_fifteen():
    assert free_slots([(555, 1005)]) == [(540, 555), (1005, 1020)]
    assert free_slots([(554, 1006)]) == []


def test_meetings_outside_the_day():
    assert free_slots([(400, 500), (1100, 1200)]) == [(540, 1020)]
    assert free_slots([(500, 570)]) == [(570, 1020)]
    assert free_slots([(990, 1100)]) == [(540, 990)]


def test_full_day():
    assert free_slots([(500, 1100)]) == []
    assert free_slots([(540, 1020), (1100, 1200)]) == []


def test_bad_day():
    with pytest.raises(ValueError):
        free_slots([], 60, 60)
    with pytest.raises(ValueError):
        free_slots([], 70, 60)
    assert free_slots([], 60, 61, 1) == [(60, 61)]


def test_first_fit():
    busy = [(560, 600), (640, 700)]
    assert first_fit(busy, 20) == 540
    assert first_fit(busy, 40) == 600
    assert first_fit(busy, 41) == 700


def test_first_fit_default_day():
    assert first_fit([], 480) == 540
    with pytest.raises(ValueError):
        first_fit([], 481)


def test_first_fit_other_day():
    assert first_fit([(10, 20)], 30, 0, 50) == 20
    with pytest.raises(ValueError):
        first_fit([(10, 20)], 31, 0, 50)


def test_clock():
    assert clock(540) == "09:00"
    assert clock(725) == "12:05"
    assert clock(59) == "00:59"
