import pytest
from slugify import slugify, unique_slug


def test_simple_words():
    assert slugify("Hello World") == "hello-world"
    assert slugify("One, Two & Three!") == "one-two-three"


def test_separator():
    assert slugify("a b c", "_") == "a_b_c"
    assert slugify("a b", "--") == "a--b"


def test_apostrophe_does_not_split():
    assert slugify("Don't stop") == "dont-stop"
    assert slugify("'quoted' text") == "quoted-text"


def test_non_ascii_splits():
    assert slugify("caf\u00e9s open") == "caf-s-open"
    assert slugify("10 \u00bd cups") == "10-cups"


def test_limit_drops_whole_words():
    assert slugify("alpha beta gamma", "-", 10) == "alpha-beta"
    assert slugify("alpha beta gamma", "-", 9) == "alpha"
    assert slugify("alpha toolongword b", "-", 8) == "alpha"


def test_long_first_word_is_cut():
    assert slugify("incomprehensible", limit=6) == "incomp"
    assert slugify("x" * 50) == "x" * 40


def test_empty():
    assert slugify("") == ""
    assert slugify(" ?! ") == ""


def test_unique_when_free():
    assert unique_slug("My Post", []) == "my-post"
    assert unique_slug("My Post", ["other"]) == "my-post"


def test_unique_counts_up():
    assert unique_slug("My Post", ["my-post"]) == "my-post-2"
    taken = ["my-post", "my-post-2", "my-post-3"]
    assert unique_slug("My Post", taken) == "my-post-4"


def test_unique_gives_up():
    taken = ["a", "a-2", "a-3"]
    assert unique_slug("a", taken, 3) == "a-4"
    with pytest.raises(ValueError):
        unique_slug("a", taken, 2)


def test_unique_tries_99_numbers():
    taken = ["c"] + [f"c-{number}" for number in range(2, 100)]
    assert unique_slug("c", taken) == "c-100"
    with pytest.raises(ValueError):
        unique_slug("c", [*taken, "c-100"])
