import pytest
from query_string import add_field, build_query, parse_query


def test_parse_fields():
    assert parse_query("a=1&b=two") == {"a": ["1"], "b": ["two"]}


def test_question_mark():
    assert parse_query("?a=1") == {"a": ["1"]}
    assert parse_query("??a=1") == {"?a": ["1"]}


def test_nothing():
    assert parse_query("") == {}
    assert parse_query("?") == {}
    assert parse_query("&&a=1&") == {"a": ["1"]}


def test_repeated_name():
    assert parse_query("t=x&u=1&t=y") == {"t": ["x", "y"], "u": ["1"]}


def test_no_value():
    assert parse_query("flag&a=") == {"flag": [""], "a": [""]}
    assert parse_query("a=b=c") == {"a": ["b=c"]}


def test_escapes():
    assert parse_query("q=a+b%2Bc&n%20m=%C3%A9") == {
        "q": ["a b+c"],
        "n m": ["\u00e9"],
    }


def test_limit():
    assert len(parse_query("a=1&b=2", 2)) == 2
    with pytest.raises(ValueError):
        parse_query("a=1&b=2&c=3", 2)


def test_default_limit():
    assert parse_query("a=1&" * 50) == {"a": ["1"] * 50}
    with pytest.raises(ValueError):
        parse_query("a&" * 51)


def test_build():
    assert build_query({"b": 2, "a": "x y"}) == "a=x%20y&b=2"
    assert build_query({}) == ""


def test_build_lists():
    assert build_query({"t": ["x", "y"], "u": (1,)}) == "t=x&t=y&u=1"


def test_build_leaves_out_none():
    assert build_query({"a": None, "b": 0, "c": [None, 1]}) == "b=0&c=1"


def test_build_escapes():
    assert build_query({"a/b": "c&d=e/f"}) == "a%2Fb=c%26d%3De%2Ff"


def test_add_field():
    assert add_field("http://x.org/", "a", 1) == "http://x.org/?a=1"
    assert add_field("/p?a=1", "b", "&") == "/p?a=1&b=%26"
