"""The parts that run inside, tried outside: frames, bounded output, results, paths."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentic_gym.sandbox.inside import files
from agentic_gym.sandbox.inside.capture import HeadTail
from agentic_gym.sandbox.inside.results import Results, sender
from agentic_gym.sandbox.inside.sealed import Sealed
from agentic_gym.sandbox.inside.wire import Channel, ChannelClosed, ChannelTimeout

KEY = b"k" * 16


@pytest.fixture
def channels() -> Iterator[tuple[Channel, Channel]]:
    a_r, a_w = os.pipe()
    b_r, b_w = os.pipe()
    ours, theirs = Channel(a_r, b_w), Channel(b_r, a_w)
    yield ours, theirs
    for fd in (a_r, a_w, b_r, b_w):
        try:
            os.close(fd)
        except OSError:
            pass


def test_frames_carry_any_bytes(channels: tuple[Channel, Channel]) -> None:
    ours, theirs = channels
    blobs = [b"", bytes(range(256)) * 4096, b"\n"]
    sending = threading.Thread(target=ours.send, args=({"path": "\udcff\n"}, blobs))
    sending.start()
    assert theirs.receive(timeout_s=10) == ({"path": "\udcff\n"}, blobs)
    sending.join()


def test_a_silent_or_gone_peer_is_told(channels: tuple[Channel, Channel]) -> None:
    ours, theirs = channels
    with pytest.raises(ChannelTimeout):
        ours.receive(timeout_s=0.01)
    with pytest.raises(ChannelTimeout):
        ours.send({}, [b"x" * 2**20], timeout_s=0.01)
    theirs.close()
    with pytest.raises(ChannelClosed):
        ours.receive(timeout_s=1)
    with pytest.raises(ChannelClosed):
        ours.send({}, [])


_SHORT_BODY = b"\0" * 8


@pytest.mark.parametrize(
    "garbage", [b"\xff" * 12, b"\0\0\0\2" + _SHORT_BODY + b"[]", b"\0\0\0\1" + _SHORT_BODY + b"{"]
)
def test_garbage_is_no_frame(channels: tuple[Channel, Channel], garbage: bytes) -> None:
    ours, theirs = channels
    os.write(theirs.write_fd, garbage)
    with pytest.raises(ChannelClosed):
        ours.receive(timeout_s=1)


@pytest.mark.parametrize("step", [1, 7, 1000])
def test_head_and_tail(step: int) -> None:
    data = bytes(number % 251 for number in range(1000))
    kept = HeadTail(100)
    for start in range(0, len(data), step):
        kept.add(data[start : start + step])
    assert kept.total == 1000
    assert kept.value() == data[:50] + b"\n[... 900 bytes omitted ...]\n" + data[-50:]


def test_short_output_is_whole() -> None:
    kept = HeadTail(100)
    kept.add(b"x" * 60)
    kept.add(b"y" * 40)
    assert kept.value() == b"x" * 60 + b"y" * 40


def _sent(*records: list[object], key: bytes = KEY) -> bytes:
    read_fd, write_fd = os.pipe()
    send = sender(write_fd, key)
    for record in records:
        send(record)
    os.close(write_fd)
    with open(read_fd, "rb") as file:
        return file.read()


def test_results_in_any_pieces() -> None:
    data = _sent(["test", "t::a", "passed"], ["test", "t::b", "failed"], ["end", 1])
    for step in (1, 5, len(data)):
        results = Results(KEY)
        for start in range(0, len(data), step):
            results.add(data[start : start + step])
        results.close(1)
        assert results.outcomes == {"t::a": "passed", "t::b": "failed"}
        assert (results.exit_code, results.duplicates) == (1, [])


def test_results_seen_twice_are_told_and_the_first_counts() -> None:
    results = Results(KEY)
    results.add(_sent(["test", "t::a", "failed"], ["test", "t::a", "passed"], ["end", 1]))
    assert results.outcomes == {"t::a": "failed"}
    assert results.duplicates == ["t::a"]


@pytest.mark.parametrize(
    "record",
    [
        [],
        {},
        7,
        ["test"],
        ["test", 1, "passed"],
        ["test", "t::b", {}],
        ["test", "t::b", "won"],
        ["test", ["t::b"], "passed"],
        ["collect", "t.py", None],
        ["end", "0"],
        ["other", "t::b", "passed"],
    ],
    ids=repr,
)
def test_records_of_another_form_end_the_report_even_with_the_key(record: object) -> None:
    results = Results(KEY)
    results.add(_sent(["test", "t::a", "passed"], record, ["test", "t::c", "passed"], ["end", 0]))  # type: ignore[arg-type]
    results.close(0)
    assert results.outcomes == {"t::a": "passed"}
    assert results.exit_code is None


@pytest.mark.parametrize("text", [b"{", b"[" * 100_000, b"\xff"])
def test_records_that_are_no_json_end_the_report(text: bytes) -> None:
    results = Results(KEY)
    results.add(KEY + len(text).to_bytes(4, "big") + text)
    results.close(0)
    assert results.exit_code is None


def test_a_report_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentic_gym.sandbox.inside.results._MAX_BYTES", 1000)
    results = Results(KEY)
    for _ in range(100):
        results.add(KEY + b"\xff\xff\xff\xff" + b"x" * 80)
    results.close(0)
    assert len(results._buffer) <= 1000
    assert results.exit_code is None


@pytest.mark.parametrize(
    "forged", [b"x" * 200, _sent(["test", "t::b", "passed"], key=b"z" * 16), KEY]
)
def test_what_has_no_key_ends_the_report(forged: bytes) -> None:
    results = Results(KEY)
    results.add(_sent(["test", "t::a", "passed"], ["end", 0]) + forged)
    results.close(0)
    assert results.outcomes == {"t::a": "passed"}
    assert results.exit_code is None


def test_the_status_must_be_that_of_the_process() -> None:
    for process_exit in (1, None):
        results = Results(KEY)
        results.add(_sent(["test", "t::a", "passed"], ["end", 0]))
        results.close(process_exit)
        assert results.exit_code is None


def test_a_fork_of_the_reporter_is_silent() -> None:
    read_fd, write_fd = os.pipe()
    send = sender(write_fd, KEY)
    pid = os.fork()
    if pid == 0:
        send(["test", "t::a", "passed"])
        os._exit(0)
    os.waitpid(pid, 0)
    os.close(write_fd)
    with open(read_fd, "rb") as file:
        assert file.read() == b""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    inner = tmp_path / "workspace"
    inner.mkdir()
    (inner / "f").write_bytes(b"text")
    (inner / "d").mkdir()
    (inner / "out").symlink_to(tmp_path)
    (inner / "dangling").symlink_to(tmp_path / "not there yet")
    (inner / "in").symlink_to(inner / "f")
    (inner / "loop").symlink_to("loop")
    return inner


@pytest.mark.parametrize("path", ["out/x", "dangling", "../x", "d/../../x", "/etc/passwd", "out"])
def test_ways_out_are_refused(root: Path, path: str) -> None:
    with pytest.raises(PermissionError):
        files.write(str(root), path, b"x")
    with pytest.raises(PermissionError):
        files.read(str(root), path)
    assert sorted(entry.name for entry in root.parent.iterdir()) == ["workspace"]


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("no", FileNotFoundError),
        ("f/below", FileNotFoundError),
        ("d", IsADirectoryError),
        ("", IsADirectoryError),
        (".", IsADirectoryError),
        ("a\0b", FileNotFoundError),
        ("loop", OSError),
        ("x" * 300, OSError),
    ],
)
def test_other_paths_fail_as_usual(root: Path, path: str, kind: type[OSError]) -> None:
    with pytest.raises(kind):
        files.read(str(root), path)


def test_links_that_stay_inside_are_followed(root: Path) -> None:
    files.write(str(root), "in", b"new")
    assert (root / "f").read_bytes() == b"new"
    assert files.read(str(root), str(root / "d" / ".." / "in")) == b"new"


def test_changes_of_every_kind(tmp_path: Path) -> None:
    base, root = tmp_path / "base", tmp_path / "root"
    for folder in (base, root):
        folder.mkdir()
        files.write_new_tree(
            str(folder), {"same": b"1", "edited": b"12", "gone": b"", "mode": b"", "link": b"x"}
        )
    (root / "edited").write_bytes(b"21")
    (root / "gone").unlink()
    (root / "mode").chmod(0o755)
    (root / "link").unlink()
    (root / "link").symlink_to("same")
    (root / "huge").write_bytes(b"x" * (files.TEXT_LIMIT + 1))
    os.mkfifo(root / "fifo")
    for ignored in (".git", "__pycache__", "d/.pytest_cache"):
        (root / ignored).mkdir(parents=True)
        (root / ignored / "x").touch()
    entries, blobs = files.changes(str(root), str(base))
    assert [(e["path"], e["mode"]) for e in entries] == [
        ("edited", "100644"),
        ("gone", None),
        ("huge", "100644"),
        ("link", "120000"),
        ("mode", "100755"),
    ]
    contents = [None if e["blob"] is None else blobs[int(str(e["blob"]))] for e in entries]
    assert contents == [b"21", None, None, b"same", b""]


def test_sealed_files_are_empty_until_put_back(tmp_path: Path) -> None:
    (tmp_path / "test_a.py").write_bytes(b"A = 1\n")
    sealed = Sealed(str(tmp_path), ["-q", "test_a.py::test_x", "test_a.py", "test_b.py", "../x.py"])
    assert (tmp_path / "test_a.py").read_bytes() == b""
    sealed.put_back()
    assert (tmp_path / "test_a.py").read_bytes() == b"A = 1\n"
