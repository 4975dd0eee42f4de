import pytest
from csv_line import build_line, parse_line


def test_plain():
    assert parse_line("a,b,c") == ["a", "b", "c"]
    assert parse_line("one") == ["one"]


def test_empty_fields():
    assert parse_line("") == [""]
    assert parse_line(",a,,") == ["", "a", "", ""]


def test_quoted_comma():
    assert parse_line('1,"x, y",2') == ["1", "x, y", "2"]
    assert parse_line('"",b') == ["", "b"]


def test_doubled_quote():
    assert parse_line('"say ""hi""",b') == ['say "hi"', "b"]
    assert parse_line('""""') == ['"']


def test_other_comma():
    assert parse_line('a;b,c;"d;e"', ";") == ["a", "b,c", "d;e"]


def test_missing_quote():
    with pytest.raises(EOFError):
        parse_line('a,"b')
    with pytest.raises(EOFError):
        parse_line('"a""')


def test_quote_inside():
    with pytest.raises(ValueError):
        parse_line('a"b"')


def test_spaces_stay():
    assert parse_line(" a , b") == [" a ", " b"]


def test_build():
    assert build_line(["a", "b"]) == "a,b"
    assert build_line([1, None, ""]) == "1,None,"
    assert build_line([]) == ""


def test_build_quotes():
    assert build_line(["x, y", "z"]) == '"x, y",z'
    assert build_line(['say "hi"']) == '"say ""hi"""'


def test_build_other_comma():
    assert build_line(["a,b", "c;d"], ";") == 'a,b;"c;d"'
