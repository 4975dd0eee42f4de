import pytest
from isbn import check_char, is_isbn, to_isbn13


def test_check10():
    assert check_char("030640615") == "2"
    assert check_char("100000000") == "1"
    assert check_char("000000001") == "9"


def test_check10_x_and_zero():
    assert check_char("080442957") == "X"
    assert check_char("000000000") == "0"


def test_check13():
    assert check_char("978030640615") == "7"
    assert check_char("100000000000") == "9"
    assert check_char("010000000000") == "7"
    assert check_char("000000000000") == "0"


def test_valid_ten():
    assert is_isbn("0306406152") is True
    assert is_isbn("0-306-40615-2") is True
    assert is_isbn("080442957x") is True


def test_valid_thirteen():
    assert is_isbn("9780306406157") is True
    assert is_isbn("978-0-306-40615-7") is True


def test_wrong_check():
    assert is_isbn("0306406153") is False
    assert is_isbn("9780306406158") is False
    assert is_isbn("0306406512") is False


def test_wrong_shape():
    assert is_isbn("") is False
    assert is_isbn("30640615") is False
    assert is_isbn("0306 40615 2") is False
    assert is_isbn("00000000000") is False


def test_other_digits():
    assert is_isbn("\u0660" * 9 + "0") is False
    assert is_isbn("03064O6152") is False


def test_convert():
    assert to_isbn13("0306406152") == "9780306406157"
    assert to_isbn13("0-8044-2957-x") == "9780804429573"


def test_convert_refuses():
    with pytest.raises(ValueError):
        to_isbn13("0306406153")
    with pytest.raises(ValueError):
        to_isbn13("9780306406157")


def test_check_length():
    with pytest.raises(ValueError):
        check_char("12345678")
    with pytest.raises(ValueError):
        check_char("9780306406157")
