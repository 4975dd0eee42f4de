import pytest
from longest_common import common_prefix, common_subsequence
from longest_common import common_substring


def test_prefix():
    assert common_prefix(["flower", "flow", "flight"]) == "fl"
    assert common_prefix(["abc", "abd"]) == "ab"


def test_prefix_whole_word():
    assert common_prefix(["in", "inner", "inside"]) == "in"
    assert common_prefix(["inner", "in"]) == "in"
    assert common_prefix(["same", "same"]) == "same"


def test_prefix_none():
    assert common_prefix(["dog", "cat"]) == ""
    assert common_prefix(["dog", ""]) == ""
    assert common_prefix(["", "dog"]) == ""


def test_prefix_of_one_or_no_word():
    assert common_prefix(["alone"]) == "alone"
    with pytest.raises(ValueError):
        common_prefix([])


def test_prefix_not_sorted():
    assert common_prefix(["xa", "xa", "xb"]) == "x"


def test_substring():
    assert common_substring("blackbird", "redbirds") == "bird"
    assert common_substring("abc", "xabcx") == "abc"
    assert common_substring("xabcx", "abc") == "abc"


def test_substring_tie():
    assert common_substring("ab-cd", "cd+ab") == "ab"
    assert common_substring("xyz", "zx") == "x"


def test_substring_none():
    assert common_substring("abc", "xyz") == ""
    assert common_substring("", "abc") == ""
    assert common_substring("abc", "") == ""


def test_subsequence():
    assert common_subsequence("abcde", "ace") == "ace"
    assert common_subsequence("ace", "abcde") == "ace"
    assert common_subsequence("nematode", "empty") == "emt"


def test_subsequence_none():
    assert common_subsequence("abc", "xyz") == ""
    assert common_subsequence("", "abc") == ""
    assert common_subsequence("abc", "") == ""


def test_subsequence_is_not_a_substring():
    assert common_subsequence("a1b2c3", "xaybzc") == "abc"
    assert common_subsequence("aaa", "aa") == "aa"
    assert common_subsequence("axa", "ca") == "a"
