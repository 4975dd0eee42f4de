import pytest
from connected_parts import connected_parts, is_connected, weak_links


def test_no_links():
    assert connected_parts([2, 1], []) == [[1], [2]]
    assert connected_parts([], []) == []


def test_two_parts():
    parts = connected_parts([1, 2, 3, 4, 5], [(1, 2), (5, 4), (4, 3)])
    assert parts == [[3, 4, 5], [1, 2]]


def test_parts_are_joined_by_a_late_link():
    links = [(1, 2), (3, 4), (2, 3)]
    assert connected_parts([1, 2, 3, 4], links) == [[1, 2, 3, 4]]


def test_same_size_in_order():
    parts = connected_parts("dcba", [("d", "c"), ("b", "a")])
    assert parts == [["a", "b"], ["c", "d"]]


def test_unknown_node():
    with pytest.raises(ValueError):
        connected_parts([1, 2], [(1, 3)])
    with pytest.raises(ValueError):
        connected_parts([1, 2], [(3, 1)])


def test_is_connected():
    assert is_connected([1, 2, 3], [(1, 2), (3, 2)]) is True
    assert is_connected([1, 2, 3], [(1, 2)]) is False
    assert is_connected([], []) is True


def test_weak_links_of_a_chain():
    chain = [(1, 2), (2, 3)]
    assert weak_links([1, 2, 3], chain) == chain


def test_ring_has_no_weak_link():
    assert weak_links([1, 2, 3], [(1, 2), (2, 3), (3, 1)]) == []


def test_weak_link_at_a_ring():
    links = [(4, 3), (1, 2), (2, 3), (3, 1), (4, 5)]
    assert weak_links([1, 2, 3, 4, 5], links) == [(4, 3), (4, 5)]


def test_self_and_double_links():
    assert connected_parts([1, 2], [(1, 1)]) == [[1], [2]]
    assert weak_links([1, 2], [(1, 2), (1, 2), (2, 2)]) == []
