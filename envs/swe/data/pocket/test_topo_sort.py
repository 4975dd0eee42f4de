import pytest
from topo_sort import depth, topo_sort


def test_empty():
    assert topo_sort({}) == []


def test_chain():
    assert topo_sort({"c": ["b"], "b": ["a"], "a": []}) == ["a", "b", "c"]


def test_names_only_in_needs():
    assert topo_sort({"b": ["a"]}) == ["a", "b"]


def test_ties_are_sorted():
    assert topo_sort({"z": [], "m": [], "a": []}) == ["a", "m", "z"]


def test_diamond():
    needs = {"d": ["b", "c"], "b": ["a"], "c": ["a"]}
    assert topo_sort(needs) == ["a", "b", "c", "d"]


def test_cycle():
    with pytest.raises(ValueError):
        topo_sort({"a": ["b"], "b": ["a"]})


def test_self_cycle():
    with pytest.raises(ValueError):
        topo_sort({"a": ["a"]})


def test_depth():
    needs = {"c": ["b"], "b": ["a"]}
    assert depth(needs, "a") == 0
    assert depth(needs, "c") == 2


def test_input_is_kept():
    needs = {"b": ["a"]}
    topo_sort(needs)
    assert needs == {"b": ["a"]}
