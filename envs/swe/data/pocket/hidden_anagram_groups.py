from anagram_groups import anagram_groups, can_spell, is_anagram, signature


def test_signature_of_phrases():
    assert signature("The Eyes") == "eeehsty"
    assert signature("A-1 b_2") == "ab"
    assert signature("zZyY") == "yyzz"


def test_case_and_marks_in_groups():
    words = ["Stop", "pots", "O.P.T.S", "spot", "other"]
    assert anagram_groups(words) == [["Stop", "pots", "O.P.T.S", "spot"]]


def test_equal_sizes_stay_in_order():
    words = ["won", "arc", "now", "car"]
    assert anagram_groups(words) == [["won", "now"], ["arc", "car"]]


def test_letters_must_agree_in_number():
    assert anagram_groups(["aab", "abb", "ab", "bba"]) == [["abb", "bba"]]


def test_at_least_four():
    words = ["abc", "acb", "bac", "bca", "de", "ed", "de"]
    assert anagram_groups(words, 4) == [["abc", "acb", "bac", "bca"]]
    assert anagram_groups(words, 5) == []
    assert anagram_groups(["q"], 1) == [["q"]]


def test_phrase_anagrams():
    assert is_anagram("The eyes", "They see")
    assert not is_anagram("The eyes", "They saw")
    assert not is_anagram("They See", "they see")
    assert not is_anagram("aab", "ab")


def test_spelling_uses_letters_once():
    assert can_spell("noon", "onion")
    assert not can_spell("noon", "moon")
    assert not can_spell("zoo", "zo")
    assert can_spell("ZOO", "oozing")


def test_spelling_ignores_marks():
    assert can_spell("a.b!", "BA")
    assert not can_spell("abc", "b a")
    assert not can_spell("bca", "ca")
