from duration_format import as_clock, in_units, roughly


def test_just_below_units():
    assert in_units(3599) == "59m 59s"
    assert in_units(86399) == "23h 59m 59s"


def test_gaps_between_units():
    assert in_units(86401) == "1d 1s"
    assert in_units(90000) == "1d 1h"
    assert in_units(86460, 1) == "1d"


def test_keep_none_or_many():
    assert in_units(5000, 0) == "0s"
    assert in_units(5000, 9) == "1h 23m 20s"
    assert in_units(93784, 3) == "1d 2h 3m"


def test_negative_values():
    assert in_units(-1) == "-1s"
    assert in_units(-86461) == "-1d 1m 1s"


def test_clock():
    assert as_clock(9) == "0:09"
    assert as_clock(600) == "10:00"
    assert as_clock(7322) == "2:02:02"
    assert as_clock(36000) == "10:00:00"


def test_rough_values():
    assert roughly(5399) == "about 1h"
    assert roughly(5400) == "about 2h"
    assert roughly(100000) == "about 1d"
    assert roughly(130000) == "about 2d"


def test_rough_small():
    assert roughly(2) == "about 2s"
    assert roughly(150) == "about 3m"
    assert roughly(149) == "about 2m"
    assert roughly(-100) == "no time"
