import pytest
from flatten_deep import flatten_deep, flatten_keys, nesting


def test_empty_parts_vanish():
    assert flatten_deep([[], [[]], (), 0]) == [0]


def test_order_of_mixed_nesting():
    nested = [["a", ("b",)], "c", [[["d"]], "e"]]
    assert flatten_deep(nested) == ["a", "b", "c", "d", "e"]


def test_depth_of_pairs():
    pairs = [(1, (2, 3)), [(4,)]]
    assert flatten_deep(pairs, 1) == [1, (2, 3), (4,)]
    assert flatten_deep(pairs, 3) == [1, 2, 3, 4]
    assert flatten_deep(pairs, 0) == [(1, (2, 3)), [(4,)]]


def test_depth_minus_two():
    with pytest.raises(ValueError):
        flatten_deep([], -2)


def test_input_not_changed():
    nested = [[1], [2]]
    flatten_deep(nested).append(3)
    assert nested == [[1], [2]]


def test_nesting_takes_the_deepest():
    assert nesting([[1], [[[2]]], [3]]) == 4
    assert nesting(()) == 1
    assert nesting({"a": [1]}) == 0


def test_keys_after_a_branch():
    tree = {"x": {"y": 1}, "z": 2, "w": {"v": {"u": None}}}
    expected = {"x.y": 1, "z": 2, "w.v.u": None}
    assert flatten_keys(tree) == expected


def test_keys_with_lists_inside():
    tree = {"a": {"b": [1, {"c": 2}]}}
    assert flatten_keys(tree, "__") == {"a__b": [1, {"c": 2}]}
    assert flatten_keys({"a": {"b": 0}}, ":", "p:q") == {"p:q:a:b": 0}
