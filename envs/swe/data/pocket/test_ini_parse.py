import pytest
from ini_parse import ini_parse, parse_value


def test_sections():
    text = "[a]\nx = one\n[b]\ny = two\nz=three"
    assert ini_parse(text) == {
        "a": {"x": "one"},
        "b": {"y": "two", "z": "three"},
    }


def test_default_section():
    assert ini_parse("x = one") == {"main": {"x": "one"}}
    assert ini_parse("x = one", "top") == {"top": {"x": "one"}}


def test_nothing():
    assert ini_parse("") == {}
    assert ini_parse("[empty]") == {"empty": {}}


def test_comments_and_blank_lines():
    text = "# note\n\n; other = 1\n  \nx = a # b\n"
    assert ini_parse(text) == {"main": {"x": "a # b"}}


def test_section_again():
    text = "[a]\nx = p\n[b]\n[ a ]\ny = q"
    assert ini_parse(text) == {"a": {"x": "p", "y": "q"}, "b": {}}


def test_keys_and_values_are_trimmed():
    assert ini_parse("  Big Key  =  v w  ") == {"main": {"big key": "v w"}}
    assert ini_parse("a = b = c") == {"main": {"a": "b = c"}}


def test_line_without_equals():
    with pytest.raises(ValueError, match="line 3 has"):
        ini_parse("[a]\nx = 1\noops")
    with pytest.raises(ValueError, match="line 1 has"):
        ini_parse("[a")
    with pytest.raises(ValueError, match="line 1 has"):
        ini_parse("a]")


def test_booleans():
    assert [parse_value(t) for t in ("yes", "True", "ON")] == [True] * 3
    assert [parse_value(t) for t in ("no", "False", "OFF")] == [False] * 3


def test_numbers():
    assert parse_value("42") == 42
    assert parse_value("-7") == -7
    assert parse_value("1.5") == "1.5"
    assert parse_value("-") == "-"


def test_quotes():
    assert parse_value('"42"') == "42"
    assert parse_value('""') == ""
    assert parse_value('"') == '"'
    assert parse_value('"a') == '"a' and parse_value('a"') == 'a"'


def test_typed_options():
    text = "n = 3\non = no\ns = \"no\"\ne ="
    options = {"n": 3, "on": False, "s": "no", "e": ""}
    assert ini_parse(text) == {"main": options}
