from __future__ import annotations

import time

import pytest

from agentic_gym.envs.swe.patches import apply_patch, filter_patch, normalise, parse_patch
from agentic_gym.errors import PatchError

BASE = {"a.py": b"a=1\nb=2\nc=3\n", "d/e.txt": b"one\ntwo\n"}
EDIT = (
    b"diff --git a/a.py b/a.py\n--- a/a.py\n+++ b/a.py\n@@ -1,3 +1,3 @@\n a=1\n-b=2\n+b=5\n c=3\n"
)


@pytest.mark.parametrize("patch", [None, "", "\n", b"", b" \n\t\n"])
def test_empty_patches_change_nothing(patch: bytes | str | None) -> None:
    assert parse_patch(patch) == ()
    assert normalise(patch) == b""


def test_edit() -> None:
    assert apply_patch(BASE, parse_patch(EDIT)) == {**BASE, "a.py": b"a=1\nb=5\nc=3\n"}


def test_the_last_newline_of_the_patch_may_be_lost() -> None:
    assert parse_patch(EDIT.removesuffix(b"\n")) == parse_patch(EDIT)


def test_crlf_is_kept_byte_for_byte() -> None:
    patch = b"--- a/w.txt\n+++ b/w.txt\n@@ -1,2 +1,2 @@\n-a=1\r\n+a=9\r\n b=2\r\n"
    files = {"w.txt": b"a=1\r\nb=2\r\n"}
    assert apply_patch(files, parse_patch(patch)) == {"w.txt": b"a=9\r\nb=2\r\n"}


def test_missing_final_newline_on_either_side() -> None:
    patch = (
        b"--- a/n\n+++ b/n\n@@ -1,2 +1,2 @@\n x\n-y\n\\ No newline at end of file\n+z\n"
        b"\\ No newline at end of file\n"
    )
    assert apply_patch({"n": b"x\ny"}, parse_patch(patch)) == {"n": b"x\nz"}
    added = b"--- a/n\n+++ b/n\n@@ -1 +1 @@\n-y\n\\ No newline at end of file\n+y\n"
    assert apply_patch({"n": b"y"}, parse_patch(added)) == {"n": b"y\n"}


def test_new_deleted_and_empty_files() -> None:
    patch = (
        b"diff --git a/new.py b/new.py\nnew file mode 100644\nindex 000..111\n--- /dev/null\n+++ b/new.py\n"
        b"@@ -0,0 +1 @@\n+x = 1\n"
        b"diff --git a/d/e.txt b/d/e.txt\ndeleted file mode 100644\n--- a/d/e.txt\n+++ /dev/null\n"
        b"@@ -1,2 +0,0 @@\n-one\n-two\n"
        b"diff --git a/empty b/empty\nnew file mode 100644\nindex 000..e69\n"
    )
    expected = {"a.py": BASE["a.py"], "new.py": b"x = 1\n", "empty": b""}
    assert apply_patch(BASE, parse_patch(patch)) == expected


def test_rename_with_and_without_change() -> None:
    pure = b"diff --git a/d/e.txt b/f.txt\nsimilarity index 100%\nrename from d/e.txt\nrename to f.txt\n"
    assert apply_patch(BASE, parse_patch(pure)) == {"a.py": BASE["a.py"], "f.txt": b"one\ntwo\n"}
    changed = pure + b"--- a/d/e.txt\n+++ b/f.txt\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n"
    assert apply_patch(BASE, parse_patch(changed))["f.txt"] == b"one\n2\n"
    copied = b"diff --git a/a.py b/z.py\nsimilarity index 100%\ncopy from a.py\ncopy to z.py\n"
    assert apply_patch(BASE, parse_patch(copied)) == {**BASE, "z.py": BASE["a.py"]}


@pytest.mark.parametrize(
    ("header", "path"),
    [
        (b'--- "a/\\303\\251 \\"x\\".py"\n+++ "b/\\303\\251 \\"x\\".py"\n', 'é "x".py'),
        (b"--- a/two words.py\t\n+++ b/two words.py\t\n", "two words.py"),
        (b"--- a/t.py\t2024-01-01 00:00:00\n+++ b/t.py\t2024-01-01 00:00:01\n", "t.py"),
        (b"--- plain.py\n+++ plain.py\n", "plain.py"),
        (b'--- "a/tab\\there"\n+++ "b/tab\\there"\n', "tab\there"),
    ],
)
def test_paths(header: bytes, path: str) -> None:
    patch = header + b"@@ -1 +1 @@\n-x\n+y\n"
    assert apply_patch({path: b"x\n"}, parse_patch(patch)) == {path: b"y\n"}


def test_quoted_paths_in_the_git_header_alone() -> None:
    patch = b'diff --git "a/\\303\\251" "b/\\303\\251"\nnew file mode 100644\n'
    assert parse_patch(patch)[0].new_path == "é"
    mode = b"diff --git a/x y b/x y\nold mode 100644\nnew mode 100755\n"
    assert apply_patch({"x y": b"1"}, parse_patch(mode)) == {"x y": b"1"}


def test_binary_stanza_beside_a_text_hunk() -> None:
    patch = (
        b"diff --git a/out.png b/out.png\nnew file mode 100644\nindex 0..1\n"
        b"Binary files /dev/null and b/out.png differ\n" + EDIT
    )
    kept, refused, unsupported = filter_patch(parse_patch(patch), lambda _: False)
    assert (refused, unsupported) == ((), ("out.png",))
    assert apply_patch(BASE, kept)["a.py"] == b"a=1\nb=5\nc=3\n"


def test_links_are_not_applied() -> None:
    patch = (
        b"diff --git a/l b/l\nnew file mode 120000\n--- /dev/null\n+++ b/l\n"
        b"@@ -0,0 +1 @@\n+/etc/passwd\n\\ No newline at end of file\n"
    )
    assert filter_patch(parse_patch(patch), lambda _: False) == ((), (), ("l",))
    with pytest.raises(PatchError, match="regular files"):
        apply_patch({}, parse_patch(patch))


def test_protected_paths_are_dropped_also_at_either_end_of_a_rename() -> None:
    patch = (
        b"diff --git a/tests/t.py b/u.py\nrename from tests/t.py\nrename to u.py\n"
        b"diff --git a/a.py b/tests/a.py\nrename from a.py\nrename to tests/a.py\n" + EDIT
    )
    kept, refused, _ = filter_patch(parse_patch(patch), lambda path: path.startswith("tests/"))
    assert refused == ("tests/t.py", "tests/a.py")
    assert [one.paths for one in kept] == [("a.py",)]


def test_shifted_hunks_apply_where_their_lines_stand() -> None:
    files = {"a.py": b"# new\n# lines\n" + BASE["a.py"]}
    assert apply_patch(files, parse_patch(EDIT))["a.py"] == b"# new\n# lines\na=1\nb=5\nc=3\n"


def test_removed_lines_that_look_like_headers() -> None:
    patch = b"--- a/q\n+++ b/q\n@@ -1,2 +1,2 @@\n--- a\n+++ b\n x\n"
    assert apply_patch({"q": b"-- a\nx\n"}, parse_patch(patch)) == {"q": b"++ b\nx\n"}


def test_blank_context_lines_without_their_blank() -> None:
    patch = b"--- a/q\n+++ b/q\n@@ -1,3 +1,3 @@\n x\n\n-y\n+z\n"
    assert apply_patch({"q": b"x\n\ny\n"}, parse_patch(patch)) == {"q": b"x\n\nz\n"}


@pytest.mark.parametrize(
    ("patch", "message"),
    [
        (b"hello\n", "not a unified diff"),
        (b"--- a/a.py\n+++ b/a.py\n@@ -1,3 +1,3 @@\n a=1\n", "in the middle of hunk"),
        (b"--- a/a.py\n+++ b/a.py\n@@ nonsense @@\n", "malformed hunk header"),
        (b"--- a/a.py\n+++ b/a.py\n@@ -1,2 +1,2 @@\n a=1\n?b\n", "unexpected line"),
        (b"--- a/../x\n+++ b/../x\n@@ -1 +1 @@\n-a\n+b\n", "clean path"),
        (b"--- /etc/passwd\n+++ /etc/passwd\n@@ -1 +1 @@\n-a\n+b\n", "clean path"),
        (b"--- a/a.py\n+++ b/a.py\n@@ -1 +1 @@\n-q\n+r\n", "hunk 1 does not apply"),
        (b"--- a/none\n+++ b/none\n@@ -1 +1 @@\n-q\n+r\n", "does not exist"),
        (b"--- /dev/null\n+++ b/a.py\n@@ -0,0 +1 @@\n+r\n", "it exists"),
        (b"diff --git a/a.py b/d/e.txt\nrename from a.py\nrename to d/e.txt\n", "it exists"),
        (b'--- "a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n', "unterminated"),
    ],
)
def test_what_cannot_be_applied_says_why(patch: bytes, message: str) -> None:
    with pytest.raises(PatchError, match=message):
        apply_patch(BASE, parse_patch(patch))


def test_the_given_tree_is_left_alone() -> None:
    files = dict(BASE)
    apply_patch(files, parse_patch(EDIT))
    assert files == BASE


def test_of_two_places_the_nearest_is_taken() -> None:
    base = b"x\ny\nx\ny\ny\nx\n"
    for start, changed in [(2, 1), (4, 3), (5, 6), (9, 6)]:
        patch = b"--- a/f\n+++ b/f\n@@ -%d +%d @@\n-x\n+z\n" % (start, start)
        lines = base.split(b"\n")
        lines[changed - 1] = b"z"
        assert apply_patch({"f": base}, parse_patch(patch)) == {"f": b"\n".join(lines)}


def far_hunks(count: int) -> bytes:
    """Every hunk of one line names the other end of a file of 20,000 lines."""
    hunks = (b"@@ -%d +1 @@\n-%d\n+x\n" % (1 if i % 2 else 20_000, i) for i in range(count))
    return b"--- a/f\n+++ b/f\n" + b"".join(hunks)


def test_hunks_far_off_apply_but_only_so_many() -> None:
    base = b"".join(b"%d\n" % number for number in range(20_000))
    done = apply_patch({"f": base}, parse_patch(far_hunks(20)))
    assert done["f"] == b"x\n" * 20 + base[base.index(b"20\n") :]
    begin = time.process_time()
    with pytest.raises(PatchError, match="too many hunks stand far"):
        apply_patch({"f": base}, parse_patch(far_hunks(2_000)))
    assert time.process_time() - begin < 2
