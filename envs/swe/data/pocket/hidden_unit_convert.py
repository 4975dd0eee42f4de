import pytest
from unit_convert import best_unit, temperature, unit_convert


def test_small_lengths():
    assert unit_convert(5, "cm", "mm") == 50
    assert unit_convert(5, "mm", "m") == 0.005
    assert unit_convert(0.25, "km", "m") == 250


def test_pounds():
    assert unit_convert(5, "kg", "lb") == pytest.approx(11.0229, abs=0.001)
    assert unit_convert(4, "oz", "g") == pytest.approx(113.4)
    assert unit_convert(2, "lb", "kg") == pytest.approx(0.9072)


def test_days():
    assert unit_convert(1, "d", "s") == 86400
    assert unit_convert(36, "h", "d") == 1.5
    assert unit_convert(2, "h", "min") == 120


def test_unknown_units():
    with pytest.raises(ValueError, match="cannot turn ft into m"):
        unit_convert(1, "ft", "m")
    with pytest.raises(ValueError):
        unit_convert(1, "h", "g")


def test_temperatures_there_and_back():
    for degrees in (-40, 0, 36.6, 1000):
        for scale in "CFK":
            other = temperature(degrees, "C", scale)
            back = temperature(other, scale, "C")
            assert back == pytest.approx(degrees)


def test_known_temperatures():
    assert temperature(50, "F", "C") == 10
    assert temperature(-10, "C", "F") == 14
    assert temperature(300, "K", "K") == pytest.approx(300)
    assert temperature(68, "F", "F") == pytest.approx(68)


def test_too_cold():
    with pytest.raises(ValueError):
        temperature(-460, "F", "C")
    with pytest.raises(ValueError):
        temperature(-0.5, "K", "K")
    assert temperature(-459, "F", "K") == pytest.approx(0.372, abs=0.001)


def test_best_of_weights():
    assert best_unit(20, "oz") == "lb"
    assert best_unit(500, "g") == "lb"
    assert best_unit(3, "lb") == "kg"
    assert best_unit(0.1, "kg") == "oz"


def test_best_of_times():
    assert best_unit(3600, "s") == "h"
    assert best_unit(3599, "s") == "min"
    assert best_unit(1440, "min") == "d"
    assert best_unit(0.5, "h") == "min"
