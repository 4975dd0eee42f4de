import pytest
from flatten_deep import flatten_deep, flatten_keys, nesting


def test_flat_stays():
    assert flatten_deep([1, 2, 3]) == [1, 2, 3]
    assert flatten_deep([]) == []


def test_all_levels():
    assert flatten_deep([1, [2, [3, [4]]], 5]) == [1, 2, 3, 4, 5]


def test_tuples_but_not_strings():
    assert flatten_deep([(1, 2), "ab", ["cd"]]) == [1, 2, "ab", "cd"]


def test_depth_limit():
    nested = [1, [2, [3, [4]]]]
    assert flatten_deep(nested, 0) == nested
    assert flatten_deep(nested, 1) == [1, 2, [3, [4]]]
    assert flatten_deep(nested, 2) == [1, 2, 3, [4]]


def test_negative_depth():
    with pytest.raises(ValueError):
        flatten_deep([1], -1)


def test_default_depth_is_fifty():
    tower = 7
    for _ in range(51):
        tower = [tower]
    assert flatten_deep(tower) == [7]
    assert flatten_deep([tower]) == [[7]]


def test_nesting():
    assert nesting([1, 2]) == 1
    assert nesting([]) == 1
    assert nesting([[[1]], [2]]) == 3
    assert nesting([1, (2, [3]), 4]) == 3


def test_nesting_of_plain_value():
    assert nesting(5) == 0
    assert nesting("abc") == 0


def test_keys():
    tree = {"a": 1, "b": {"c": 2, "d": {"e": 3}}}
    assert flatten_keys(tree) == {"a": 1, "b.c": 2, "b.d.e": 3}


def test_keys_separator():
    assert flatten_keys({"a": {"b": {"c": 1}}}, "/") == {"a/b/c": 1}


def test_keys_prefix():
    assert flatten_keys({"x": 1}, "-", "top") == {"top-x": 1}


def test_keys_keep_empty_dictionaries():
    assert flatten_keys({"a": {}, "b": {"c": {}}}) == {"a": {}, "b.c": {}}
    assert flatten_keys({}) == {}
