"""Diffs against git itself: what we write, ``git apply`` turns back into the edited tree."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentic_gym.sandbox.diffing import Change, Mode, tree_diff

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is the judge here")

_LINES = st.lists(
    st.sampled_from(
        [b"a\n", b"b\n", b"c\r\n", b"\n", b" x\n", b"-m\n", b"+p\n", b"\\\n", b"\xff\n"]
    ),
    max_size=30,
)
_TEXT = st.tuples(_LINES, st.sampled_from([b"", b"end", b"end\r"])).map(
    lambda t: b"".join(t[0]) + t[1]
)
_NAMES = st.sampled_from(
    [
        "a",
        "b c",
        "tab\there",
        "d/e.py",
        "d/f g/h",
        'quo"te',
        "back\\slash",
        "ümlaut",
        "n\udcff",
        "-x",
    ]
)
_MODES: st.SearchStrategy[Mode | None] = st.sampled_from(["100644", "100644", "100755", None])


@settings(deadline=None, derandomize=True, max_examples=60)
@given(
    base=st.dictionaries(_NAMES, _TEXT, max_size=4),
    edits=st.dictionaries(_NAMES, st.tuples(_MODES, _TEXT), max_size=4),
)
def test_git_applies_what_we_write(
    base: dict[str, bytes], edits: dict[str, tuple[Mode | None, bytes]]
) -> None:
    edited: dict[str, tuple[Mode, bytes]] = {path: ("100644", text) for path, text in base.items()}
    changes = []
    for path, (mode, text) in sorted(edits.items()):
        if mode is None:
            edited.pop(path, None)
            changes.append(Change(path, None, None))
        else:
            edited[path] = (mode, text)
            changes.append(Change(path, mode, text))
    patch = tree_diff(base, changes)
    with tempfile.TemporaryDirectory() as folder:
        for path, text in base.items():
            target = Path(folder, path)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(text)
        if patch:
            _git_apply(folder, patch)
        assert _tree(folder) == edited


def _git_apply(folder: str, patch: bytes) -> None:
    command = ["git", "apply", "--whitespace=nowarn", "-"]
    env = {"PATH": os.environ["PATH"], "GIT_CEILING_DIRECTORIES": str(Path(folder).parent)}
    ended = subprocess.run(
        command, input=patch, cwd=folder, env=env, capture_output=True, check=False
    )
    assert ended.returncode == 0, (ended.stderr, patch)


def _tree(folder: str) -> dict[str, tuple[Mode, bytes]]:
    found: dict[str, tuple[Mode, bytes]] = {}
    for parent, _, names in os.walk(folder):
        for name in names:
            path = Path(parent, name)
            executable = path.stat().st_mode & stat.S_IXUSR
            relative = str(path.relative_to(folder))
            found[relative] = ("100755" if executable else "100644", path.read_bytes())
    return found


@settings(deadline=None, derandomize=True, max_examples=25)
@given(old=_TEXT, new=_TEXT)
def test_the_same_as_git_diff_but_for_the_choice_of_lines(old: bytes, new: bytes) -> None:
    """Headers and quoting agree byte for byte; hunks agree in what they remove and add in all."""
    with tempfile.TemporaryDirectory() as folder:
        for side, text in (("a", old), ("b", new)):
            Path(folder, side).mkdir()
            Path(folder, side, "x y").write_bytes(text)
        command = ["git", "diff", "--no-index", "--no-color", "--text", "a/x y", "b/x y"]
        theirs = subprocess.run(command, cwd=folder, capture_output=True, check=False).stdout
    ours = tree_diff({"x y": old}, [Change("x y", "100644", new)])
    their_head, _, their_hunks = theirs.partition(b"@@")
    our_head, _, our_hunks = ours.partition(b"@@")
    assert our_head == their_head.replace(b"a/a/", b"a/").replace(b"b/b/", b"b/")
    assert _surplus(our_hunks) == _surplus(their_hunks)


def _surplus(hunks: bytes) -> int:
    lines = hunks.split(b"\n")
    return sum(line[:1] == b"+" for line in lines) - sum(line[:1] == b"-" for line in lines)
