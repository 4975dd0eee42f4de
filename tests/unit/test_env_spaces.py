"""The space of text, also in shared memory."""

import copy
import multiprocessing
import pickle
from typing import Any

import pytest
from gymnasium.vector.utils import (
    create_shared_memory,
    read_from_shared_memory,
    write_to_shared_memory,
)

from agentic_gym.errors import ConfigError, EnvContractError
from agentic_gym.spaces import UnicodeText


def test_membership() -> None:
    space = UnicodeText(4)
    for text in ("", "abcd", "\x00\ud800🙂\n"):
        assert text in space
    for other in ("abcde", b"ab", 3, None):
        assert other not in space


def test_samples_are_members_and_follow_the_seed() -> None:
    space, twin = UnicodeText(10, seed=7), UnicodeText(10, seed=7)
    samples = [space.sample() for _ in range(200)]
    assert samples == [twin.sample() for _ in range(200)]
    assert all(sample in space for sample in samples)
    assert len({len(sample) for sample in samples}) > 5
    with pytest.raises(ConfigError, match="no mask"):
        space.sample(mask=1)


def test_equality_pickling_and_json() -> None:
    space = UnicodeText(4)
    assert space == UnicodeText(4) != UnicodeText(5)
    assert pickle.loads(pickle.dumps(space)) == copy.deepcopy(space) == space
    assert space.from_jsonable(space.to_jsonable(["a", "é"])) == ["a", "é"]
    assert repr(space) == "UnicodeText(4)"


@pytest.mark.parametrize("length", [0, -1, 2.5, "4"])
def test_lengths_are_positive_integers(length: object) -> None:
    with pytest.raises(ConfigError, match="positive integer"):
        UnicodeText(length)  # type: ignore[arg-type]


def test_shared_memory_is_a_live_view_and_copies_are_plain() -> None:
    space = UnicodeText(5)
    memory: Any = create_shared_memory(space, 3, multiprocessing)
    view: Any = read_from_shared_memory(space, memory, 3)
    assert copy.deepcopy(view) == ("", "", "")
    for index, text in enumerate(("a\x00b", "\ud800🙂語", "12345")):
        write_to_shared_memory(space, index, text, memory)  # type: ignore[arg-type]
    assert copy.deepcopy(view) == ("a\x00b", "\ud800🙂語", "12345")
    assert type(copy.deepcopy(view)) is tuple
    write_to_shared_memory(space, 1, "x", memory)  # type: ignore[arg-type]
    assert list(view) == ["a\x00b", "x", "12345"]
    assert (view[-1], view[1:]) == ("12345", ("x", "12345"))
    assert repr(view) == repr(tuple(view))
    with pytest.raises(IndexError):
        view[3]


def test_text_that_does_not_fit_never_reaches_the_next_row() -> None:
    space = UnicodeText(2)
    memory: Any = create_shared_memory(space, 2, multiprocessing)
    with pytest.raises(EnvContractError, match=r"not within UnicodeText\(2\): str of length 3"):
        write_to_shared_memory(space, 0, "abc", memory)  # type: ignore[arg-type]
    assert list(read_from_shared_memory(space, memory, 2)) == ["", ""]
