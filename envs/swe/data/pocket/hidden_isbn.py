import pytest
from isbn import check_char, is_isbn, to_isbn13


def test_ten_positions():
    digits = [check_char("0" * at + "1" + "0" * (8 - at)) for at in range(9)]
    assert digits == ["1", "2", "3", "4", "5", "6", "7", "8", "9"]


def test_thirteen_weights():
    assert check_char("111111111111") == "6"
    assert check_char("200000000000") == "8"
    assert check_char("000000000003") == "1"


def test_more_books():
    assert is_isbn("0-19-852663-6") is True
    assert is_isbn("978-3-16-148410-0") is True
    assert is_isbn("3-16-148410-X") is True
    assert is_isbn("3-16-148410-0") is False


def test_every_wrong_last_digit():
    good = [end for end in "0123456789X" if is_isbn("019852663" + end)]
    assert good == ["6"]
    good = [end for end in "0123456789X" if is_isbn("978316148410" + end)]
    assert good == ["0"]


def test_lengths():
    for size in range(16):
        assert is_isbn("0" * size) is (size in (10, 13))


def test_conversion_is_valid():
    for text in ("0-19-852663-6", "316148410X", "0000000000"):
        assert is_isbn(to_isbn13(text))
    assert to_isbn13("316148410x") == "9783161484100"


def test_conversion_errors():
    for text in ("", "978-3-16-148410-0", "3161484101", "X161484100"):
        with pytest.raises(ValueError):
            to_isbn13(text)


def test_body_length():
    for size in (0, 8, 10, 11, 13):
        with pytest.raises(ValueError):
            check_char("1" * size)
