import pytest
from topo_sort import depth, topo_sort


def test_two_roots():
    assert topo_sort({"x": ["b", "a"]}) == ["a", "b", "x"]


def test_layers_come_in_order():
    needs = {"app": ["lib", "log"], "lib": ["core"], "log": []}
    assert topo_sort(needs) == ["core", "log", "lib", "app"]


def test_cycle_behind_a_root():
    with pytest.raises(ValueError):
        topo_sort({"a": [], "b": ["a", "c"], "c": ["b"]})


def test_depth_takes_the_longest():
    needs = {"d": ["a", "c"], "c": ["b"], "b": ["a"]}
    assert depth(needs, "d") == 3


def test_depth_unknown():
    assert depth({}, "q") == 0


def test_numbers():
    assert topo_sort({3: [1, 2], 2: [1]}) == [1, 2, 3]
