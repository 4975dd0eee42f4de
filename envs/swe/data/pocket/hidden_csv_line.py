import pytest
from csv_line import build_line, parse_line


def test_numbers():
    assert parse_line("2024,17,-3.5") == ["2024", "17", "-3.5"]


def test_all_quoted():
    assert parse_line('"a","b,","",",c"') == ["a", "b,", "", ",c"]


def test_quotes_in_the_middle():
    assert parse_line('x,"5"" pipe",y') == ["x", '5" pipe', "y"]
    assert parse_line('"""","a"') == ['"', "a"]
    assert parse_line('"a"",""b"') == ['a","b']


def test_only_commas():
    assert parse_line(",,") == ["", "", ""]
    assert parse_line("||", "|") == ["", "", ""]


def test_open_quote():
    for line in ('"', '"a,b', 'a,b,"', '"""'):
        with pytest.raises(EOFError):
            parse_line(line)


def test_stray_quote():
    with pytest.raises(ValueError):
        parse_line('x,5",y')
    with pytest.raises(ValueError):
        parse_line(' "a"')


def test_build_mixed():
    assert build_line([3, "a,b", 'c"', ""]) == '3,"a,b","c""",'
    assert build_line(["a|b", "c,d"], "|") == '"a|b"|c,d'


def test_there_and_back():
    rows = ["", ",", '"', '","', "plain", ' " , " ']
    assert parse_line(build_line(rows)) == rows
    assert parse_line(build_line(rows, "\t"), "\t") == rows
