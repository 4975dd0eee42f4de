import pytest
from query_string import add_field, build_query, parse_query


def test_search_page():
    found = parse_query("?q=red+shoes&page=3&size=42&size=43")
    assert found == {
        "q": ["red shoes"],
        "page": ["3"],
        "size": ["42", "43"],
    }


def test_escaped_names():
    assert parse_query("a%26b=1&c+d=%3D") == {"a&b": ["1"], "c d": ["="]}


def test_empty_pieces():
    assert parse_query("&") == {}
    assert parse_query("?&=x") == {"": ["x"]}
    assert parse_query("x==") == {"x": ["="]}


def test_too_many():
    with pytest.raises(ValueError):
        parse_query("a=1", 0)
    with pytest.raises(ValueError):
        parse_query("&".join(f"k{n}=v" for n in range(51)))
    assert len(parse_query("&".join(f"k{n}=v" for n in range(50)))) == 50


def test_build_order():
    assert build_query({"z": 1, "m": "", "a": False}) == "a=False&m=&z=1"


def test_build_skips():
    assert build_query({"x": None}) == ""
    assert build_query({"x": [], "y": ["b", None, "a"]}) == "y=b&y=a"


def test_there_and_back():
    values = {"name": ["O'Neil & sons"], "path": ["/a/b?c", "+"]}
    assert parse_query(build_query(values)) == values


def test_add_more_fields():
    once = add_field("page", "k/1", "a b")
    assert once == "page?k%2F1=a%20b"
    assert add_field(once, "n", [1, 2]) == "page?k%2F1=a%20b&n=1&n=2"
