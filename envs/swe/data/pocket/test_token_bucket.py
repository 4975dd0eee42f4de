import pytest
from token_bucket import TokenBucket


def test_starts_full():
    bucket = TokenBucket(3, 1)
    assert [bucket.take(0) for _ in range(4)] == [True, True, True, False]


def test_refills_with_time():
    bucket = TokenBucket(2, 0.5)
    bucket.take(0, 2)
    assert bucket.take(1) is False
    assert bucket.take(2) is True
    assert bucket.tokens == 0


def test_never_above_size():
    bucket = TokenBucket(4, 10)
    bucket.take(0, 1)
    bucket.refill(100)
    assert bucket.tokens == 4


def test_rate_counts():
    bucket = TokenBucket(10, 3)
    assert bucket.take(0, 10)
    bucket.refill(2)
    assert bucket.tokens == 6
    assert bucket.seen == 2


def test_refused_take_keeps_tokens():
    bucket = TokenBucket(5, 1)
    assert bucket.take(0, 6) is False
    assert bucket.tokens == 5


def test_start_time():
    bucket = TokenBucket(5, 1, 100)
    assert bucket.take(100, 5)
    assert not bucket.take(102, 3)
    assert bucket.take(103, 3)


def test_time_runs_forward():
    bucket = TokenBucket(5, 1)
    bucket.refill(4)
    with pytest.raises(ValueError):
        bucket.take(3)
    assert bucket.take(4)


def test_wait():
    bucket = TokenBucket(6, 2)
    bucket.take(0, 6)
    assert bucket.wait(0) == 0.5
    assert bucket.wait(0, 6) == 3
    assert bucket.wait(1, 4) == 1
    assert bucket.wait(2, 4) == 0


def test_wait_when_plenty():
    bucket = TokenBucket(6, 2)
    assert bucket.wait(0, 2) == 0


def test_wait_too_much():
    bucket = TokenBucket(6, 2)
    assert bucket.wait(0, 6) == 0
    with pytest.raises(OverflowError):
        bucket.wait(0, 6.5)


def test_bad_settings():
    for size, rate in [(0, 1), (1, 0), (-1, 1), (1, -1)]:
        with pytest.raises(ValueError):
            TokenBucket(size, rate)
    assert TokenBucket(0.5, 0.5).tokens == 0.5
