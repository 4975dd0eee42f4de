import pytest
from semver_compare import is_compatible, parse_version, semver_compare


def test_parse():
    assert parse_version("1.20.3") == ([1, 20, 3], [])
    assert parse_version("1.0.0-rc.1") == ([1, 0, 0], ["rc", "1"])
    assert parse_version("0.0.0-a-b+7.x") == ([0, 0, 0], ["a-b"])


def test_parse_refuses():
    for text in ("1.2", "1.2.3.4", "a.b.c", "", "1..2"):
        with pytest.raises(ValueError):
            parse_version(text)


def test_equal():
    assert semver_compare("1.2.3", "1.2.3") == 0
    assert semver_compare("1.2.3+a", "1.2.3+b") == 0
    assert semver_compare("1.2.3-x.1", "1.2.3-x.1") == 0


def test_numbers_not_text():
    assert semver_compare("1.9.0", "1.10.0") == -1
    assert semver_compare("10.0.0", "9.9.9") == 1


def test_each_place_counts():
    assert semver_compare("1.2.3", "1.2.4") == -1
    assert semver_compare("1.3.0", "1.2.9") == 1
    assert semver_compare("2.0.0", "1.9.9") == 1


def test_prerelease_is_older():
    assert semver_compare("1.0.0-rc", "1.0.0") == -1
    assert semver_compare("1.0.0", "1.0.0-rc") == 1
    assert semver_compare("1.0.1-rc", "1.0.0") == 1


def test_order_of_marks():
    order = ["2", "11", "alpha", "alpha.1", "alpha.beta", "beta.2", "beta.11"]
    for older, newer in zip(order, order[1:]):
        assert semver_compare("1.0.0-" + older, "1.0.0-" + newer) == -1
        assert semver_compare("1.0.0-" + newer, "1.0.0-" + older) == 1


def test_compatible():
    assert is_compatible("1.4.2", "1.4.0") is True
    assert is_compatible("1.4.0", "1.4.0") is True
    assert is_compatible("1.3.9", "1.4.0") is False
    assert is_compatible("2.0.0", "1.4.0") is False


def test_compatible_zero():
    assert is_compatible("0.3.5", "0.3.1") is True
    assert is_compatible("0.4.0", "0.3.1") is False
    assert is_compatible("1.7.0", "1.3.1") is True


def test_compatible_prerelease():
    assert is_compatible("1.0.0-rc", "1.0.0") is False
    assert is_compatible("1.0.0", "1.0.0-rc") is True
