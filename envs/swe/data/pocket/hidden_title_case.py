from title_case import capital, title_case


def test_capital_letters_and_digits():
    assert capital("q") == "Q"
    assert capital("3d") == "3d"
    assert capital("mCdonald") == "Mcdonald"


def test_capital_many_hyphens():
    assert capital("state-of-the-art") == "State-Of-The-Art"
    assert capital("-dash-") == "-Dash-"
    assert capital("A-b-CD") == "A-B-CD"


def test_small_in_every_inner_place():
    assert title_case("walk by the sea on foot") == "Walk by the Sea on Foot"
    assert title_case("UP IN the air") == "UP in the Air"


def test_last_small_word():
    assert title_case("what are you waiting for") == "What Are You Waiting For"
    assert title_case("log on") == "Log On"


def test_colon_twice():
    text = "part one: in the dark: on the road"
    assert title_case(text) == "Part One: In the Dark: On the Road"


def test_no_small_words_given():
    assert title_case("end of the day", ()) == "End Of The Day"


def test_tabs_and_newlines():
    assert title_case("salt\tand\npepper") == "Salt and Pepper"
