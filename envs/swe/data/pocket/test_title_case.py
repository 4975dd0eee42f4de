from title_case import capital, title_case


def test_capital_word():
    assert capital("hello") == "Hello"
    assert capital("hELLO") == "Hello"
    assert capital("") == ""


def test_capital_keeps_acronyms():
    assert capital("NASA") == "NASA"
    assert capital("UK") == "UK"


def test_capital_hyphen():
    assert capital("well-known") == "Well-Known"
    assert capital("US-made") == "US-Made"
    assert capital("x-ray") == "X-Ray"


def test_small_words_inside():
    assert title_case("the lord of the rings") == "The Lord of the Rings"
    assert title_case("war And peace") == "War and Peace"


def test_first_and_last_are_raised():
    assert title_case("a thing to look at") == "A Thing to Look At"
    assert title_case("of in") == "Of In"


def test_single_and_empty():
    assert title_case("the") == "The"
    assert title_case("") == ""


def test_word_after_colon():
    assert title_case("python: the basics") == "Python: The Basics"
    assert title_case("one: a of b") == "One: A of B"


def test_spaces_collapse():
    assert title_case("  two   words ") == "Two Words"


def test_own_small_words():
    assert title_case("cats or the dogs", ("or",)) == "Cats or The Dogs"


def test_each_default_small_word():
    middle = "a an and at by for in of on the to"
    assert title_case("x " + middle + " y") == "X " + middle + " Y"
