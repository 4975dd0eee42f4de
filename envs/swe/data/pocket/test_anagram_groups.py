from anagram_groups import anagram_groups, can_spell, is_anagram, signature


def test_signature():
    assert signature("Banana") == "aaabnn"
    assert signature("it's 2 late!") == "aeilstt"
    assert signature("") == ""


def test_groups():
    words = ["tea", "dog", "eat", "god", "ate", "cat"]
    assert anagram_groups(words) == [["tea", "eat", "ate"], ["dog", "god"]]


def test_largest_first():
    words = ["ab", "cde", "ba", "dec", "edc"]
    assert anagram_groups(words) == [["cde", "dec", "edc"], ["ab", "ba"]]


def test_repeated_word_counts_once():
    assert anagram_groups(["tea", "tea"]) == []
    assert anagram_groups(["tea", "eat", "tea"]) == [["tea", "eat"]]


def test_least():
    words = ["tea", "eat", "ate", "on", "no", "x"]
    assert anagram_groups(words, 3) == [["tea", "eat", "ate"]]
    assert anagram_groups(words, 1)[2] == ["x"]


def test_no_words():
    assert anagram_groups([]) == []


def test_is_anagram():
    assert is_anagram("Listen", "silent") is True
    assert is_anagram("Dormitory", "dirty room") is True
    assert is_anagram("apple", "papel!") is True
    assert is_anagram("apple", "pale") is False


def test_same_word_is_no_anagram():
    assert is_anagram("tea", "Tea") is False
    assert is_anagram("TEA", "tea") is False
    assert is_anagram("tea", "te a") is True


def test_can_spell():
    assert can_spell("tea", "great") is True
    assert can_spell("letter", "telr") is False
    assert can_spell("Letter", "r tt e e L") is True


def test_can_spell_edges():
    assert can_spell("", "") is True
    assert can_spell("a", "") is False
    assert can_spell("", "abc") is True
    assert can_spell("xyz", "x") is False
