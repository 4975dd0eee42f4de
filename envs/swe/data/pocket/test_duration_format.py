from duration_format import as_clock, in_units, roughly


def test_single_units():
    assert in_units(1) == "1s"
    assert in_units(60) == "1m"
    assert in_units(3600) == "1h"
    assert in_units(86400) == "1d"


def test_several_units():
    assert in_units(3605) == "1h 5s"
    assert in_units(187265) == "2d 4h 1m 5s"
    assert in_units(59) == "59s"


def test_zero_and_negative():
    assert in_units(0) == "0s"
    assert in_units(-90) == "-1m 30s"
    assert in_units(-3661, 2) == "-1h 1m"


def test_keep():
    assert in_units(187265, 2) == "2d 4h"
    assert in_units(187265, 1) == "2d"
    assert in_units(3605, 2) == "1h 5s"


def test_clock_minutes():
    assert as_clock(0) == "0:00"
    assert as_clock(65) == "1:05"
    assert as_clock(3599) == "59:59"


def test_clock_hours():
    assert as_clock(3600) == "1:00:00"
    assert as_clock(3725) == "1:02:05"
    assert as_clock(90061) == "25:01:01"


def test_roughly():
    assert roughly(1) == "about 1s"
    assert roughly(59) == "about 59s"
    assert roughly(60) == "about 1m"
    assert roughly(7000) == "about 2h"


def test_roughly_rounding():
    assert roughly(89) == "about 1m"
    assert roughly(90) == "about 2m"
    assert roughly(86400 * 3 - 1) == "about 3d"


def test_roughly_nothing():
    assert roughly(0) == "no time"
    assert roughly(-5) == "no time"
