import pytest
from lru_cache import LRU


def test_sequence_of_uses():
    cache = LRU(3)
    for key in "xyz":
        cache.put(key, key.upper())
    assert cache.get("y") == "Y"
    assert cache.get("x") == "X"
    assert cache.put("w", "W") == "z"
    assert list(cache.entries) == ["y", "x", "w"]


def test_full_cache_updates_in_place():
    cache = LRU(1)
    cache.put("k", 1)
    assert cache.put("k", 2) is None
    assert cache.get("k") == 2


def test_none_can_be_stored():
    cache = LRU(2)
    cache.put("k", None)
    assert cache.get("k", "default") is None
    assert cache.hits == 1 and cache.misses == 0


def test_a_miss_stores_nothing():
    cache = LRU(2)
    cache.get("ghost", 1)
    assert cache.entries == {}
    assert cache.misses == 1


def test_negative_capacity():
    with pytest.raises(ValueError):
        LRU(-3)


def test_eight_by_default():
    cache = LRU()
    for n in range(8):
        cache.put(n, n * n)
    assert cache.get(0) == 0
    assert cache.put("new", 1) == 1
    assert cache.capacity == 8


def test_ratio_of_uses():
    cache = LRU(2)
    cache.put(1, 1)
    for key in (1, 2, 3, 4, 1):
        cache.get(key)
    assert cache.ratio() == pytest.approx(0.4)


def test_every_key_in_turn():
    cache = LRU(2)
    assert [cache.put(n % 3, n) for n in range(6)] == [None, None, 0, 1, 2, 0]
