import pytest
from longest_common import common_prefix, common_subsequence
from longest_common import common_substring


def test_prefix_of_paths():
    paths = ["/usr/lib/a", "/usr/lib/b", "/usr/local"]
    assert common_prefix(paths) == "/usr/l"
    assert common_prefix(paths[:2]) == "/usr/lib/"


def test_prefix_differs_in_last_word():
    assert common_prefix(["aaa", "aaa", "aab", "aaa"]) == "aa"
    assert common_prefix(["aaa", "aaa", "b"]) == ""


def test_prefix_short_cases():
    assert common_prefix([""]) == ""
    assert common_prefix(("x", "x")) == "x"
    with pytest.raises(ValueError):
        common_prefix(())


def test_substring_grows_later():
    assert common_substring("ab abc abcd", "xxabcdxx") == "abcd"
    assert common_substring("banana", "ananas") == "anana"
    assert common_substring("aXbYcd", "cd") == "cd"


def test_substring_single_letter():
    assert common_substring("q", "aqa") == "q"
    assert common_substring("xq", "q") == "q"


def test_substring_whole():
    assert common_substring("same", "same") == "same"
    assert common_substring("abab", "babab") == "abab"


def test_subsequence_longer():
    assert len(common_subsequence("AGGTAB", "GXTXAYB")) == 4
    assert common_subsequence("AGGTAB", "GXTXAYB") == "GTAB"
    assert common_subsequence("human", "chimpanzee") == "hman"


def test_subsequence_repeats():
    assert common_subsequence("mississippi", "ssss") == "ssss"
    assert common_subsequence("abcabc", "bb") == "bb"
