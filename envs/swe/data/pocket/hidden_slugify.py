import pytest
from slugify import slugify, unique_slug


def test_punctuation_runs_collapse():
    assert slugify("  Red -- Green__Blue  ") == "red-green-blue"
    assert slugify("v1.20 (beta)") == "v1-20-beta"


def test_apostrophe_inside_word():
    assert slugify("It's Bob's o'clock", "+") == "its+bobs+oclock"


def test_limit_counts_separator():
    assert slugify("ab cd ef", "::", 6) == "ab::cd"
    assert slugify("ab cd ef", "::", 5) == "ab"
    assert slugify("abcdef gh", limit=3) == "abc"


def test_default_limit():
    assert slugify("a" * 20 + " " + "b" * 19) == "a" * 20 + "-" + "b" * 19
    assert slugify("a" * 20 + " " + "b" * 20) == "a" * 20


def test_other_alphabets_vanish():
    assert slugify("\u03b1\u03b2\u03b3 abc \u0664") == "abc"
    assert slugify("\u03b1\u03b2\u03b3") == ""


def test_unique_fills_gap():
    taken = ["news", "news-3"]
    assert unique_slug("NEWS!", taken) == "news-2"
    assert unique_slug("news", ["news", "news-2"]) == "news-3"


def test_unique_ignores_unrelated():
    assert unique_slug("Tea Time", ["tea", "time"]) == "tea-time"


def test_unique_default_tries():
    taken = ["b"] + [f"b-{number}" for number in range(2, 100)]
    assert unique_slug("B", taken) == "b-100"
    with pytest.raises(ValueError):
        unique_slug("B", taken + ["b-100"])
