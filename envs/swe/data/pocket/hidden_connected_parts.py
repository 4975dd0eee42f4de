import pytest
from connected_parts import connected_parts, is_connected, weak_links


def test_even_and_odd():
    links = [(n, n + 2) for n in range(7)]
    parts = connected_parts(range(9), links)
    assert parts == [[0, 2, 4, 6, 8], [1, 3, 5, 7]]


def test_star():
    links = [("hub", x) for x in "abc"]
    nodes = ["a", "b", "c", "hub", "lost"]
    assert connected_parts(nodes, links) == [["a", "b", "c", "hub"], ["lost"]]
    assert weak_links(nodes, links) == links


def test_size_before_name():
    parts = connected_parts([1, 2, 3, 8, 9], [(9, 8)])
    assert parts == [[8, 9], [1], [2], [3]]


def test_merging_of_two_groups():
    links = [(1, 2), (2, 3), (7, 8), (8, 9), (9, 1)]
    assert connected_parts([9, 8, 7, 3, 2, 1], links) == [[1, 2, 3, 7, 8, 9]]


def test_link_to_nowhere():
    with pytest.raises(ValueError):
        is_connected(["a"], [("a", "b")])
    with pytest.raises(ValueError):
        connected_parts([], [(1, 1)])


def test_single_node():
    assert is_connected([7], [])
    assert not is_connected([7, 8], [])
    assert not is_connected([1, 2, 3, 4], [(1, 2), (3, 4)])


def test_bridge_between_two_rings():
    left = [(1, 2), (2, 3), (1, 3)]
    right = [(4, 5), (5, 6), (4, 6)]
    links = left + [(3, 4)] + right
    assert weak_links(range(1, 7), links) == [(3, 4)]
    assert weak_links(range(1, 7), left + right) == []
