"""What is written can be read back, whatever it is."""

from __future__ import annotations

import string
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from agentic_gym.config import StrictConfig, dump_config, read_yaml

# A small alphabet of troublemakers: line breaks of every kind, YAML's own signs, control characters.
ALPHABET = (
    string.punctuation + "aE07 \t\n\r\x00\x07\x7f\x85\xa0é\u2028\u2029\ufeff\ufffe🙂\U0010ffff"
)

text = st.text(ALPHABET, max_size=12) | st.from_regex(
    r"[-+~.0-9eExo_:]{1,6}|[nN]ull|[tT]rue|no|on", fullmatch=True
)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=8,
)


class Anything(StrictConfig):
    """One of each kind."""

    name: str
    number: float
    whole: int
    options: dict[str, Any]
    maybe: str | float | None


@settings(deadline=None, derandomize=True, max_examples=100)
@given(
    text,
    st.floats(),
    st.integers(),
    st.dictionaries(text, values, max_size=4),
    st.none() | text | st.floats(),
)
def test_dump_and_load_give_the_same_configuration(
    name: str, number: float, whole: int, options: dict[str, Any], maybe: str | float | None
) -> None:
    config = Anything(name=name, number=number, whole=whole, options=options, maybe=maybe)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "config.yaml"
        dump_config(config, path)
        assert repr(read_yaml(Anything, path)) == repr(config)
