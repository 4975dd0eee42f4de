"""Files of the workspace, reached without ever leaving it.

A path is resolved first (links that stay inside are fine) and then walked again from a descriptor of the
workspace, one component at a time and following nothing, so that a link put in place between the two
steps is refused. A lexical check of the path alone passes both ``..`` behind a link and a link to a file
that does not exist yet.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator, Mapping

READ_LIMIT = 32 * 2**20  # of one file: the host holds it in memory
TEXT_LIMIT = 2 * 2**20  # a larger file is reported as changed, without its content
TOTAL_LIMIT = 64 * 2**20  # of all contents of one diff
_IGNORED = {".git", "__pycache__", ".pytest_cache"}
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def write_new_tree(root: str, tree: Mapping[str, bytes]) -> None:
    """Writes files below ``root``, a folder that nobody else can reach."""
    made = {root}
    for path, content in tree.items():
        target = f"{root}/{path}"
        folder = os.path.dirname(target)
        if folder not in made:
            os.makedirs(folder, exist_ok=True)
            made.add(folder)
        fd = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
        try:
            _write_all(fd, content)
        finally:
            os.close(fd)


def read(root: str, path: str) -> bytes:
    """Reads a regular file.

    Raises:
        FileNotFoundError, IsADirectoryError: as usual.
        PermissionError: the path leads out of ``root``, or to something that is no file.
        OSError: the file is larger than 32 MiB (``EFBIG``).
    """
    parts = _resolve(root, path)
    if not parts:
        raise IsADirectoryError(path)
    folder = _walk(root, parts[:-1], path, create=False)
    try:
        fd = _open_regular(folder, parts[-1], os.O_RDONLY, path)
    finally:
        os.close(folder)
    try:
        size = os.fstat(fd).st_size
        if size > READ_LIMIT:
            raise OSError(errno.EFBIG, f"{path} has {size} bytes; at most {READ_LIMIT} are read")
        return _read_all(fd)
    finally:
        os.close(fd)


def write(root: str, path: str, content: bytes) -> None:
    """Writes a regular file, making its folders. Raises as :func:`read`, and ``OSError`` when full."""
    parts = _resolve(root, path)
    if not parts:
        raise IsADirectoryError(path)
    folder = _walk(root, parts[:-1], path, create=True)
    try:
        fd = _open_regular(folder, parts[-1], os.O_WRONLY | os.O_CREAT, path)
    finally:
        os.close(folder)
    try:
        os.ftruncate(fd, 0)
        _write_all(fd, content)
    finally:
        os.close(fd)


def walk(root: str, ignored: set[str]) -> Iterator[tuple[str, os.stat_result]]:
    """All regular files and links below ``root`` (relative), skipping names in ``ignored``."""
    pending = [""]
    while pending:
        prefix = pending.pop()
        try:
            entries = list(os.scandir(f"{root}/{prefix}"))
        except OSError:  # gone, or a path beyond the system's limit
            continue
        for entry in entries:
            if entry.name in ignored:
                continue
            path = prefix + entry.name
            try:
                if entry.is_dir(follow_symlinks=False):
                    pending.append(path + "/")
                    continue
                info = entry.stat(follow_symlinks=False)
            except OSError:
                continue
            if stat.S_ISREG(info.st_mode) or stat.S_ISLNK(info.st_mode):
                yield path, info


def listing(root: str) -> list[str]:
    """Every regular file and link, sorted, without what lies in a ``.git`` folder."""
    return sorted(path for path, _ in walk(root, {".git"}))


def changes(root: str, base: str) -> tuple[list[dict[str, object]], list[bytes]]:
    """What differs from the base tree.

    Returns:
        Entries ``{path, mode, blob}``, sorted: ``mode`` as git writes it or None for a deleted file,
        ``blob`` an index into the second list or None where the content is too large to send.
    """
    before = {path: info.st_size for path, info in walk(base, _IGNORED)}
    entries: list[dict[str, object]] = []
    blobs: list[bytes] = []
    total = 0
    seen = set()
    for path, info in walk(root, _IGNORED):
        seen.add(path)
        link = stat.S_ISLNK(info.st_mode)
        mode = "120000" if link else "100755" if info.st_mode & 0o100 else "100644"
        content: bytes | None = None
        try:
            if link:
                content = os.readlink(os.fsencode(f"{root}/{path}"))
            elif info.st_size <= TEXT_LIMIT or before.get(path) == info.st_size:
                content = _read_path(f"{root}/{path}")
                same_size = mode == "100644" and before.get(path) == info.st_size
                if same_size and content == _read_path(f"{base}/{path}"):
                    continue
                if len(content) > TEXT_LIMIT:
                    content = None
        except OSError:  # replaced while we looked: it counts as changed
            content = None
        if content is not None and total + len(content) <= TOTAL_LIMIT:
            total += len(content)
            entries.append({"path": path, "mode": mode, "blob": len(blobs)})
            blobs.append(content)
        else:
            entries.append({"path": path, "mode": mode, "blob": None})
    entries += [{"path": path, "mode": None, "blob": None} for path in before if path not in seen]
    return sorted(entries, key=lambda entry: str(entry["path"])), blobs


def _resolve(root: str, path: str) -> list[str]:
    """Components of the real path below ``root``, the last of which need not exist."""
    if "\0" in path:
        raise FileNotFoundError("a path cannot hold a NUL byte")
    real_root = os.path.realpath(root)
    real = os.path.realpath(os.path.join(real_root, path))
    if real == real_root:
        return []
    if not real.startswith(real_root + "/"):
        raise PermissionError(f"{path} leads out of the workspace")
    if path.endswith("/"):
        raise IsADirectoryError(path)
    return real[len(real_root) + 1 :].split("/")


def _walk(root: str, parts: list[str], path: str, *, create: bool) -> int:
    """A descriptor of the folder ``parts`` below ``root``, following no link."""
    folder = os.open(os.path.realpath(root), _FOLDER)
    for part in parts:
        try:
            inner = _enter(folder, part, create)
        except NotADirectoryError:
            raise FileNotFoundError(f"{path}: {part} is not a folder") from None
        except OSError as error:
            raise _plain_error(error, path) from None
        finally:
            os.close(folder)
        folder = inner
    return folder


def _enter(folder: int, part: str, create: bool) -> int:
    try:
        return os.open(part, _FOLDER, dir_fd=folder)
    except FileNotFoundError:
        if not create:
            raise
    try:
        os.mkdir(part, 0o755, dir_fd=folder)
    except FileExistsError:
        pass
    return os.open(part, _FOLDER, dir_fd=folder)


def _open_regular(folder: int, name: str, flags: int, path: str) -> int:
    # Without O_NONBLOCK, a fifo put here by the agent would block the supervisor for ever.
    safe = flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        fd = os.open(name, safe, 0o644, dir_fd=folder)
    except OSError as error:
        raise _plain_error(error, path) from None
    mode = os.fstat(fd).st_mode
    if not stat.S_ISREG(mode):
        os.close(fd)
        raise (IsADirectoryError if stat.S_ISDIR(mode) else PermissionError)(path)
    return fd


def _plain_error(error: OSError, path: str) -> OSError:
    if isinstance(error, (FileNotFoundError, IsADirectoryError)):
        return type(error)(path)
    if isinstance(error, NotADirectoryError):
        return FileNotFoundError(path)
    if error.strerror and "symbolic" in error.strerror:
        return PermissionError(f"{path} changed into a link while it was opened")
    return OSError(error.errno, f"{path}: {error.strerror}")


def _read_path(path: str) -> bytes:
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        return _read_all(fd)
    finally:
        os.close(fd)


def _read_all(fd: int) -> bytes:
    chunks: list[bytes] = []
    while True:
        chunk = os.read(fd, 2**20)
        if not chunk:
            return b"".join(chunks)
        chunks.append(chunk)


def _write_all(fd: int, content: bytes) -> None:
    view = memoryview(content)
    while view:
        view = view[os.write(fd, view) :]
