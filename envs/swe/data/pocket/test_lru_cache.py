import pytest
from lru_cache import LRU


def test_put_and_get():
    cache = LRU(2)
    assert cache.put("a", 1) is None
    assert cache.get("a") == 1


def test_missing_key():
    cache = LRU(2)
    assert cache.get("a") is None
    assert cache.get("a", 7) == 7


def test_oldest_is_dropped():
    cache = LRU(2)
    cache.put("a", 1)
    assert cache.put("b", 2) is None
    assert cache.put("c", 3) == "a"
    assert list(cache.entries) == ["b", "c"]


def test_get_counts_as_use():
    cache = LRU(2)
    cache.put("a", 1)
    cache.put("b", 2)
    cache.get("a")
    assert cache.put("c", 3) == "b"
    assert cache.entries == {"a": 1, "c": 3}


def test_put_again_counts_as_use():
    cache = LRU(2)
    cache.put("a", 1)
    cache.put("b", 2)
    assert cache.put("a", 9) is None
    assert list(cache.entries.items()) == [("b", 2), ("a", 9)]


def test_capacity():
    with pytest.raises(ValueError):
        LRU(0)
    cache = LRU(1)
    cache.put("a", 1)
    assert cache.put("b", 2) == "a"
    assert cache.entries == {"b": 2}


def test_default_capacity():
    cache = LRU()
    dropped = [cache.put(n, n) for n in range(10)]
    assert dropped == [None] * 8 + [0, 1]
    assert len(cache.entries) == 8


def test_counters():
    cache = LRU(3)
    cache.put("a", 1)
    for key in "abaa":
        cache.get(key)
    assert (cache.hits, cache.misses) == (3, 1)
    assert cache.ratio() == 0.75


def test_ratio_unused():
    assert LRU(1).ratio() == 0.0


def test_ratio_of_misses_only():
    cache = LRU(1)
    cache.get(1)
    assert cache.ratio() == 0.0
    cache.put(1, 1)
    cache.get(1)
    assert cache.ratio() == 0.5
