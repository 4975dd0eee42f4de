from __future__ import annotations

import time

import pytest

from agentic_gym.envs.swe.patches import apply_patch, parse_patch
from agentic_gym.sandbox import diffing
from agentic_gym.sandbox.diffing import Change, file_diff, tree_diff


def test_equal_trees_have_no_diff() -> None:
    assert tree_diff({"a": b"x"}, []) == b""
    assert file_diff("a", b"x", b"x") == b""
    assert tree_diff({}, [Change("a", None, None)]) == b""


def test_crlf_and_missing_newline_survive() -> None:
    assert file_diff("f", b"a=1\r\nb=2\r\nc", b"a=9\r\nb=2\r\nc").endswith(
        b"@@ -1,3 +1,3 @@\n-a=1\r\n+a=9\r\n b=2\r\n c\n\\ No newline at end of file\n"
    )


def test_a_lone_carriage_return_is_no_line_end() -> None:
    assert b"\n-a\rb\n+a\rc\n" in file_diff("f", b"a\rb\n", b"a\rc\n")


@pytest.mark.parametrize(
    ("change", "lines"),
    [
        (Change("n", "100644", b""), [b"new file mode 100644", b"index 0000000..e69de29"]),
        (Change("n", "100755", b""), [b"new file mode 100755", b"index 0000000..e69de29"]),
        (Change("e", None, None), [b"deleted file mode 100644", b"index e69de29..0000000"]),
        (Change("e", "100755", b""), [b"old mode 100644", b"new mode 100755"]),
        (
            Change("t", "100755", b"y\n"),
            [
                *(b"old mode 100644", b"new mode 100755", b"index 587be6b..975fbec"),
                *(b"--- a/t", b"+++ b/t", b"@@ -1 +1 @@", b"-x", b"+y"),
            ],
        ),
        (
            Change("t", "120000", b"e"),
            [
                *(b"deleted file mode 100644", b"index 587be6b..0000000"),
                *(b"--- a/t", b"+++ /dev/null", b"@@ -1 +0,0 @@", b"-x"),
                *(b"diff --git a/t b/t", b"new file mode 120000", b"index 0000000..9cbe6ea"),
                *(b"--- /dev/null", b"+++ b/t", b"@@ -0,0 +1 @@", b"+e"),
                b"\\ No newline at end of file",
            ],
        ),
        (
            Change("t", "100644", b"\0"),
            [b"index 587be6b..f76dd23 100644", b"Binary files a/t and b/t differ"],
        ),
        (Change("t", "100644", None), [b"Binary files a/t and b/t differ"]),
        (
            Change("n", "100644", None),
            [b"new file mode 100644", b"Binary files /dev/null and b/n differ"],
        ),
    ],
)
def test_stanzas(change: Change, lines: list[bytes]) -> None:
    diff = tree_diff({"e": b"", "t": b"x\n"}, [change])
    head = b"diff --git a/%s b/%s" % (change.path.encode(), change.path.encode())
    assert diff == b"\n".join([head, *lines, b""])


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ("plain.py", b"a/plain.py"),
        ("with space", b"a/with space"),
        ('q"b\\', b'"a/q\\"b\\\\"'),
        ("tab\tnl\n", b'"a/tab\\tnl\\n"'),
        ("é", b'"a/\\303\\251"'),
        ("\udcff\x01", b'"a/\\377\\001"'),
    ],
)
def test_paths_are_quoted_as_git_does(path: str, shown: bytes) -> None:
    diff = file_diff(path, b"", b"x\n")
    assert diff.startswith(b"diff --git " + shown + b" ")
    assert b"--- " + shown + (b"\t\n" if " " in path else b"\n") in diff


def test_far_changes_are_hunks_of_their_own() -> None:
    old = b"".join(b"%d\n" % number for number in range(40))
    near = old.replace(b"\n10\n", b"\nX\n").replace(b"\n17\n", b"\nY\n")
    far = old.replace(b"\n10\n", b"\nX\n").replace(b"\n18\n", b"\nY\n")
    assert file_diff("f", old, near).count(b"@@ -") == 1
    assert b"@@ -8,7 +8,7 @@\n" in file_diff("f", old, far)
    assert b"@@ -16,7 +16,7 @@\n" in file_diff("f", old, far)


def test_hostile_content_takes_bounded_time() -> None:
    begin = time.process_time()
    diff = file_diff("f", b"a\n" * 20_000 + b"b\n", b"c\n" + b"a\n" * 19_000 + b"d\n")
    assert time.process_time() - begin < 2
    assert diff.splitlines().count(b"-a") == 20_000


def test_far_changes_of_a_large_file_are_found_in_bounded_time() -> None:
    old = [b"line %d\n" % number for number in range(50_000)]
    new = [b"first\n", *old[1:25_000], b"middle\n", *old[25_001:-1], b"last\n"]
    begin = time.process_time()
    assert file_diff("f", b"".join(old), b"".join(new)).count(b"@@ -") == 3
    assert time.process_time() - begin < 2


def test_a_large_file_that_changed_throughout_takes_bounded_time() -> None:
    old, new = (b"".join(b"%d %s\n" % (n, side) for n in range(50_000)) for side in (b"a", b"b"))
    begin = time.process_time()
    assert b"@@ -1,50000 +1,50000 @@\n" in file_diff("f", old, new)
    assert time.process_time() - begin < 2


def test_a_diff_that_was_cut_short_is_longer_but_right(monkeypatch: pytest.MonkeyPatch) -> None:
    old = b"".join(b"%d\n" % number for number in range(400))
    new = b"".join(b"%d\n" % (number * (number % 8 > 0)) for number in range(400))
    whole = file_diff("f", old, new)
    monkeypatch.setattr(
        diffing, "_MAX_WORK", 4_000
    )  # every eighth line differs: this finds a tenth
    short = file_diff("f", old, new)
    assert len(whole) < len(short) < len(old + new) * 1.5
    for diff in (whole, short):
        assert apply_patch({"f": old}, parse_patch(diff)) == {"f": new}
