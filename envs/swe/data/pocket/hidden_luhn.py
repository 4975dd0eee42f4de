from luhn import check_digit, is_valid, luhn_sum


def test_sum_of_nines():
    assert luhn_sum("9") == 9
    assert luhn_sum("99") == 18
    assert luhn_sum("999") == 27


def test_sum_positions():
    assert luhn_sum("3000") == 6
    assert luhn_sum("300") == 3
    assert luhn_sum("6000") == 3
    assert luhn_sum("8765") == 22


def test_appended_digit_is_valid():
    for payload in ("5", "42", "987", "10203040", "55555"):
        assert is_valid(payload + check_digit(payload))


def test_only_one_digit_fits():
    for payload in ("63", "7001"):
        fits = [d for d in "0123456789" if is_valid(payload + d)]
        assert fits == [check_digit(payload)]


def test_swapped_neighbours_are_caught():
    assert is_valid("5500005555555559")
    assert not is_valid("5500005555555595")
    assert is_valid("378282246310005")
    assert not is_valid("738282246310005")


def test_separators_only():
    assert is_valid(" - ") is False
    assert is_valid("1-8") is True
    assert is_valid(" 5 ") is False


def test_signs_and_letters():
    for number in ("+18", "1.8", "1_8", "a18", "\u00b2\u00b2"):
        assert is_valid(number) is False
