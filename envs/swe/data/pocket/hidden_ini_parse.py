import pytest
from ini_parse import ini_parse, parse_value

TEXT = """
; settings of the shop
Name = "The  Shop"
[ Hours ]
Open = 9
Close = -1

[hours.sunday]
OPEN = off
   # closed
[Hours]
close = 17
"""


def test_whole_file():
    assert ini_parse(TEXT, "shop") == {
        "shop": {"name": "The  Shop"},
        "Hours": {"open": 9, "close": 17},
        "hours.sunday": {"open": False},
    }


def test_equals_in_value():
    options = {"url": "a?b=c", "": "="}
    assert ini_parse("[s]\nurl = a?b=c\n==") == {"s": options}


def test_brackets_as_part_of_a_line():
    assert ini_parse("[x = 1") == {"main": {"[x": 1}}
    assert ini_parse("x = [1]") == {"main": {"x": "[1]"}}


def test_later_option_wins():
    assert ini_parse("a = 1\nA = 2") == {"main": {"a": 2}}


def test_errors_name_the_line():
    with pytest.raises(ValueError, match="line 4 has"):
        ini_parse("\n# c\n[s]\nvalue\n")
    with pytest.raises(ValueError, match="line 2 has"):
        ini_parse("a=1\n[s\n")


def test_more_booleans():
    assert parse_value("YES") is True
    assert parse_value("true") is True and parse_value("On") is True
    assert parse_value("No") is False
    assert parse_value("false") is False and parse_value("oFF") is False


def test_almost_numbers():
    assert parse_value("007") == 7
    assert parse_value("--7") == "--7"
    assert parse_value("7-") == "7-"
    assert parse_value("") == ""


def test_almost_quoted():
    assert parse_value('"a"b"') == 'a"b'
    assert parse_value('say "hi"') == 'say "hi"'
    assert parse_value('"hi" he said') == '"hi" he said'
    assert parse_value('"yes"') == "yes"
