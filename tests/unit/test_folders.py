"""Output folders: made where they can be, otherwise refused by key, value and reason."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from agentic_gym.errors import ConfigError
from agentic_gym.folders import check_folder, make_folder

BOTH = pytest.mark.parametrize("refuse", [make_folder, check_folder])
Refuse = Callable[[Path, str], object]


def test_a_folder_is_made_with_those_above_it_and_kept(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    assert make_folder(folder, "output_dir") == folder
    (folder / "kept").touch()
    make_folder(folder, "output_dir")
    assert (folder / "kept").exists()


@BOTH
@pytest.mark.parametrize("below", ["", "deeper", "deeper/still"])
def test_a_file_in_the_way_is_named(refuse: Refuse, tmp_path: Path, below: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match=r"output_dir='.*' cannot be made.*/file is no folder"):
        refuse(tmp_path / "file" / below, "output_dir")


@BOTH
@pytest.mark.parametrize("path", ["/proc/nope", "/proc/self/nope/deeper", "a\0b", "x" * 5000])
def test_what_the_system_refuses_is_a_config_error(refuse: Refuse, path: str) -> None:
    with pytest.raises(ConfigError, match=r"save_to='.*' cannot be made.*give save_to a folder"):
        refuse(Path(path), "save_to")


@BOTH
def test_a_folder_that_cannot_be_written_into_is_refused(refuse: Refuse) -> None:
    with pytest.raises(ConfigError, match=r"output_dir='/proc/self' cannot be .*written into"):
        refuse(Path("/proc/self"), "output_dir")


def test_looking_whether_it_can_be_written_into_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    make_folder(tmp_path, "output_dir")
    for folder in (Path("a/b"), tmp_path / "c", Path(), tmp_path):
        check_folder(folder, "output_dir")
    assert not list(tmp_path.iterdir())
