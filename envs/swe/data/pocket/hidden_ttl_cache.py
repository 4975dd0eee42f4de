import pytest
from ttl_cache import TTLCache


def test_falsy_values_are_values():
    cache = TTLCache(5)
    cache.put("k", 0, 1)
    assert cache.get("k", 2, "default") == 0
    assert cache.get("k", 6, "default") == "default"


def test_fractions_of_seconds():
    cache = TTLCache(0.25)
    cache.put("k", "v", 1.5)
    assert cache.get("k", 1.625) == "v"
    assert cache.left("k", 1.625) == 0.125
    assert cache.get("k", 1.75) is None


def test_zero_life_is_gone_at_once():
    cache = TTLCache(5)
    cache.put("k", "v", 7, 0)
    assert cache.get("k", 7) is None
    assert cache.purge(7) == 1


def test_shorter_second_life():
    cache = TTLCache(50)
    cache.put("k", 1, 0)
    cache.put("k", 2, 10, 5)
    assert cache.left("k", 11) == 4
    assert cache.get("k", 15) is None


def test_put_purges_others():
    cache = TTLCache(3)
    cache.put("a", 1, 0)
    cache.put("b", 1, 2)
    cache.put("c", 1, 4)
    assert sorted(cache.store) == ["b", "c"]
    assert cache.purge(100) == 2
    assert cache.purge(100) == 0


def test_limit_of_three():
    cache = TTLCache(3, 3)
    for n in range(3):
        cache.put(n, n, n)
    with pytest.raises(OverflowError):
        cache.put("x", 0, 2.5)
    cache.put("x", 0, 3)
    assert cache.get("x", 5) == 0


def test_settings_are_checked():
    with pytest.raises(ValueError):
        TTLCache(-0.5)
    with pytest.raises(ValueError):
        TTLCache(1, -1)
    with pytest.raises(ValueError):
        TTLCache(limit=0)


def test_default_life_and_limit():
    cache = TTLCache()
    cache.put("k", 1, 1000)
    assert cache.get("k", 1059) == 1
    assert cache.get("k", 1060) is None
    assert cache.limit == 100
