import pytest
from ttl_cache import TTLCache


def test_put_and_get():
    cache = TTLCache(10)
    cache.put("a", 1, 0)
    assert cache.get("a", 5) == 1
    assert cache.get("b", 5) is None
    assert cache.get("b", 5, "none") == "none"


def test_expires_at_the_end():
    cache = TTLCache(10)
    cache.put("a", 1, 100)
    assert cache.get("a", 109.9) == 1
    assert cache.get("a", 110) is None
    assert cache.get("a", 111, 0) == 0


def test_own_life():
    cache = TTLCache(10)
    cache.put("a", 1, 0, 3)
    cache.put("b", 2, 0, life=30)
    assert cache.get("a", 3) is None
    assert cache.get("b", 29) == 2


def test_put_again_renews():
    cache = TTLCache(10)
    cache.put("a", 1, 0)
    cache.put("a", 2, 8)
    assert cache.get("a", 17) == 2
    assert cache.left("a", 17) == 1


def test_left():
    cache = TTLCache(10)
    cache.put("a", 1, 5)
    assert cache.left("a", 5) == 10
    assert cache.left("a", 12) == 3
    assert cache.left("a", 40) == 0
    assert cache.left("zzz", 40) == 0


def test_purge():
    cache = TTLCache(10)
    cache.put("a", 1, 0)
    cache.put("b", 2, 4)
    cache.put("c", 3, 5)
    assert cache.purge(9) == 0
    assert cache.purge(14) == 2
    assert list(cache.store) == ["c"]


def test_full():
    cache = TTLCache(10, 2)
    cache.put("a", 1, 0)
    cache.put("b", 2, 0)
    with pytest.raises(OverflowError):
        cache.put("c", 3, 1)
    cache.put("b", 4, 1)
    assert cache.get("b", 2) == 4


def test_expired_entries_make_room():
    cache = TTLCache(10, 1)
    cache.put("a", 1, 0)
    cache.put("b", 2, 10)
    assert list(cache.store) == ["b"]


def test_bad_settings():
    for life, limit in [(0, 5), (-1, 5), (5, 0)]:
        with pytest.raises(ValueError):
            TTLCache(life, limit)
    assert TTLCache(0.5, 1).limit == 1


def test_defaults():
    cache = TTLCache()
    for n in range(100):
        cache.put(n, n, 0)
    assert cache.left(99, 0) == 60
    with pytest.raises(OverflowError):
        cache.put("more", 1, 59)
