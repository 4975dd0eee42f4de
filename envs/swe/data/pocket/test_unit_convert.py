import pytest
from unit_convert import best_unit, temperature, unit_convert


def test_length():
    assert unit_convert(2.5, "m", "cm") == 250
    assert unit_convert(1500, "m", "km") == 1.5
    assert unit_convert(30, "mm", "cm") == 3
    assert unit_convert(1, "km", "mm") == 1000000


def test_weight():
    assert unit_convert(2, "kg", "g") == 2000
    assert unit_convert(10, "lb", "g") == pytest.approx(4536)
    assert unit_convert(1, "lb", "oz") == pytest.approx(16)
    assert unit_convert(567, "g", "oz") == pytest.approx(20)


def test_time():
    assert unit_convert(90, "min", "h") == 1.5
    assert unit_convert(2, "d", "h") == 48
    assert unit_convert(3, "min", "s") == 180


def test_same_unit():
    assert unit_convert(7, "cm", "cm") == 7


def test_other_kind():
    with pytest.raises(ValueError, match="kg into m"):
        unit_convert(1, "kg", "m")
    with pytest.raises(ValueError, match="s into parsec"):
        unit_convert(1, "s", "parsec")


def test_celsius():
    assert temperature(100, "C", "F") == 212
    assert temperature(0, "C", "K") == 273.15
    assert temperature(37, "C", "C") == 37


def test_fahrenheit():
    assert temperature(212, "F", "C") == 100
    assert temperature(-40, "F", "C") == -40
    assert temperature(32, "F", "K") == 273.15


def test_kelvin():
    assert temperature(0, "K", "C") == -273.15
    assert temperature(283.15, "K", "F") == pytest.approx(50)


def test_absolute_zero():
    assert temperature(-273.15, "C", "K") == 0
    with pytest.raises(ValueError):
        temperature(-273.2, "C", "F")
    with pytest.raises(ValueError):
        temperature(-1, "K", "C")


def test_best_unit():
    assert best_unit(2500, "m") == "km"
    assert best_unit(999, "m") == "m"
    assert best_unit(50, "mm") == "cm"
    assert best_unit(7200, "s") == "h"


def test_best_unit_exactly_one():
    assert best_unit(1000, "m") == "km"
    assert best_unit(60, "s") == "min"
    assert best_unit(1, "cm") == "cm"


def test_best_unit_below_one():
    assert best_unit(0.5, "m") == "cm"
    assert best_unit(0.25, "d") == "h"
    assert best_unit(0.5, "mm") == "mm"
    assert best_unit(5, "light year") == "light year"
