import pytest
from token_bucket import TokenBucket


def test_steady_use():
    bucket = TokenBucket(1, 1)
    times = [0, 0.5, 1, 1.5, 2, 4]
    assert [bucket.take(t) for t in times] == [
        True,
        False,
        True,
        False,
        True,
        True,
    ]


def test_burst_after_a_pause():
    bucket = TokenBucket(3, 2)
    assert bucket.take(0, 3)
    assert bucket.take(9, 3)
    assert not bucket.take(9, 0.5)


def test_fractions():
    bucket = TokenBucket(1, 0.25)
    bucket.take(0, 0.75)
    bucket.refill(1)
    assert bucket.tokens == 0.5
    bucket.refill(2)
    assert bucket.tokens == 0.75


def test_waiting_does_not_take():
    bucket = TokenBucket(4, 4)
    bucket.take(10, 4)
    assert bucket.wait(10, 2) == 0.5
    assert bucket.wait(10, 2) == 0.5
    assert bucket.take(10.5, 2)
    assert bucket.wait(10.5) == 0.25


def test_wait_limits():
    bucket = TokenBucket(2, 1)
    with pytest.raises(OverflowError):
        bucket.wait(0, 3)
    bucket.take(0, 2)
    assert bucket.wait(0, 2) == 2


def test_clock_going_back():
    bucket = TokenBucket(2, 1, 50)
    with pytest.raises(ValueError):
        bucket.refill(49)
    with pytest.raises(ValueError):
        bucket.wait(0)
    bucket.refill(50)
    assert bucket.tokens == 2


def test_settings_are_checked():
    with pytest.raises(ValueError):
        TokenBucket(-2, 5)
    with pytest.raises(ValueError):
        TokenBucket(2, -5)
    with pytest.raises(ValueError):
        TokenBucket(0, 5)
    with pytest.raises(ValueError):
        TokenBucket(2, 0)


def test_zero_amount():
    bucket = TokenBucket(2, 1)
    bucket.take(0, 2)
    assert bucket.take(0, 0)
    assert bucket.wait(0, 0) == 0
