from luhn import check_digit, is_valid, luhn_sum


def test_sum_single():
    assert luhn_sum("7") == 7
    assert luhn_sum("") == 0


def test_sum_doubles():
    assert luhn_sum("10") == 2
    assert luhn_sum("40") == 8
    assert luhn_sum("50") == 1
    assert luhn_sum("90") == 9


def test_sum_long():
    assert luhn_sum("1234") == 14
    assert luhn_sum("79927398713") == 70


def test_check_digit():
    assert check_digit("7992739871") == "3"
    assert check_digit("1") == "8"
    assert check_digit("0") == "0"
    assert check_digit("123") == "0"


def test_valid():
    assert is_valid("79927398713") is True
    assert is_valid("4111111111111111") is True


def test_not_valid():
    assert is_valid("79927398710") is False
    assert is_valid("4111111111111112") is False


def test_grouped():
    assert is_valid("4111 1111 1111 1111") is True
    assert is_valid("7992-739-8713") is True
    assert is_valid("4111 1111-11111112") is False


def test_too_short():
    assert is_valid("0") is False
    assert is_valid("0 ") is False
    assert is_valid("") is False
    assert is_valid("18") is True


def test_other_characters():
    assert is_valid("79927398713x") is False
    assert is_valid("\u0661\u0668") is False
