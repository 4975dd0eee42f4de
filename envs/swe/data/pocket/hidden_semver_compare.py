import pytest
from semver_compare import is_compatible, parse_version, semver_compare


def test_parse_parts():
    assert parse_version("10.0.7-alpha.beta.2") == (
        [10, 0, 7],
        ["alpha", "beta", "2"],
    )
    assert parse_version("3.2.1+build-5") == ([3, 2, 1], [])
    assert parse_version("3.2.1-x+y") == ([3, 2, 1], ["x"])


def test_bad_versions():
    for text in ("1", "1.2.x", "1.-2.3", "1.2.3.0", "-1.0.0"):
        with pytest.raises(ValueError):
            parse_version(text)
    with pytest.raises(ValueError):
        semver_compare("1.0.0", "1.0")


def test_sorting_a_history():
    history = ["0.9.0", "0.10.0", "1.0.0-a", "1.0.0", "1.0.1", "1.2.0"]
    for i, one in enumerate(history):
        for j, two in enumerate(history):
            assert semver_compare(one, two) == (i > j) - (i < j)


def test_number_marks():
    assert semver_compare("2.0.0-9", "2.0.0-10") == -1
    assert semver_compare("2.0.0-z", "2.0.0-9") == 1
    assert semver_compare("2.0.0-rc.2", "2.0.0-rc.1") == 1


def test_longer_mark_list_is_newer():
    assert semver_compare("1.1.1-a.b", "1.1.1-a.b.0") == -1
    assert semver_compare("1.1.1-b", "1.1.1-a.z.9") == 1


def test_build_is_ignored():
    assert semver_compare("4.0.0-a+1", "4.0.0-a+2") == 0
    assert semver_compare("4.0.0+zzz", "4.0.1") == -1


def test_compatible_range():
    assert is_compatible("3.12.0", "3.2.8")
    assert not is_compatible("3.2.7", "3.2.8")
    assert not is_compatible("4.0.0", "3.2.8")
    assert not is_compatible("2.9.9", "3.2.8")


def test_compatible_before_one():
    assert is_compatible("0.0.9", "0.0.3")
    assert not is_compatible("1.0.0", "0.9.0")
    assert not is_compatible("0.2.0", "0.1.9")
    assert not is_compatible("0.5.0-b", "0.5.0")
