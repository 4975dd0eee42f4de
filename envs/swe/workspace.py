"""The agent's side of a sandbox: paths as agents write them, and errors that tell them what to do.

What the agent does wrong is a :class:`~agentic_gym.errors.ToolCallError`; a dead sandbox stays
:class:`~agentic_gym.errors.SandboxDead`.
"""

from __future__ import annotations

import difflib
import posixpath
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from agentic_gym.errors import SandboxDead, SandboxError, ToolCallError
from agentic_gym.sandbox.base import Sandbox, SandboxBackend, SandboxSpec

_MAX_UNDO = 50
_MAX_ARGUMENT_CHARS = 4_096
_LISTED = 20


@dataclass(frozen=True, slots=True)
class _Undo:
    """The state before an edit; ``content`` is None where the edit made the file."""

    path: str
    content: bytes | None
    fraction: float


class Workspace:
    """One sandbox that lives over many episodes, seen through an agent's tools.

    Args:
        backend: makes the sandbox when it is first needed, and again when it has died.
    """

    def __init__(self, backend: SandboxBackend) -> None:
        self._backend = backend
        self._sandbox: Sandbox | None = None
        self._root = ""
        self._history: list[_Undo] = []

    @property
    def sandbox(self) -> Sandbox:
        """The living sandbox.

        Raises:
            SandboxDead: there is none.
        """
        if self._sandbox is None:
            raise SandboxDead("the sandbox was closed: call reset() for a new one")
        return self._sandbox

    def begin(self, files: Mapping[str, bytes]) -> None:
        """Starts over with a base tree. Raises ``SandboxError`` if no sandbox can be made."""
        self._history = []
        if self._sandbox is not None:
            try:
                self._sandbox.reset(files)
                return
            except (SandboxError, OSError):  # dead, or in a state that a reset does not mend
                self.close()
        self._sandbox = self._backend.start(SandboxSpec(files=files))
        self._root = self._sandbox.exec("pwd").output.strip()

    def close(self) -> None:
        """Ends the sandbox; idempotent."""
        sandbox, self._sandbox = self._sandbox, None
        if sandbox is not None:
            sandbox.close()

    def read(self, path: str) -> bytes:
        """Reads a file."""
        name = relative(path)
        try:
            return self.sandbox.read_file(name)
        except FileNotFoundError:
            close = difflib.get_close_matches(name, self.sandbox.list_files(), n=1, cutoff=0.5)
            hint = f" Did you mean {close[0]}?" if close else ""
            raise ToolCallError(f"there is no file {name!r}.{hint}") from None
        except IsADirectoryError:
            names = self.sandbox.list_files()
            inside = [n for n in names if name == "." or n.startswith(name + "/")]
            listed = ", ".join(inside[:_LISTED]) + (" …" if len(inside) > _LISTED else "")
            raise ToolCallError(f"{name!r} is a folder. It holds: {listed}") from None
        except OSError as error:
            raise ToolCallError(f"cannot read {name!r}: {error}") from None

    def exists(self, path: str) -> bool:
        """Whether something has this path, readable or not."""
        try:
            self.sandbox.read_file(relative(path))
        except FileNotFoundError:
            return False
        except OSError:
            return True
        return True

    def holds(self, files: Mapping[str, bytes], *, alone: Callable[[str], bool]) -> bool:
        """Whether these files are there, byte for byte, and no other for which ``alone`` is true."""
        try:
            kept = all(self.sandbox.read_file(path) == files[path] for path in files)
        except OSError:
            return False
        return kept and not any(
            alone(path) and path not in files for path in self.sandbox.list_files()
        )

    def write(self, path: str, content: bytes, *, before: bytes | None, fraction: float) -> None:
        """Writes a file and remembers what was there.

        Args:
            path: as the agent wrote it.
            content: new bytes.
            before: old bytes, or None if the file is new.
            fraction: of visible tests that passed before, given back by :meth:`undo`.
        """
        name = relative(path)
        try:
            self.sandbox.write_file(name, content)
        except OSError as error:
            raise ToolCallError(f"cannot write {name!r}: {error}") from None
        self._history = [*self._history, _Undo(name, before, fraction)][-_MAX_UNDO:]

    def undo(self) -> tuple[str, float]:
        """Takes back the last write; returns its path and the fraction that it had been given."""
        if not self._history:
            raise ToolCallError("there is no edit to take back")
        last = self._history.pop()
        if last.content is None:
            self.sandbox.exec(f"command rm -f -- {shlex.quote(f'{self._root}/{last.path}')}")
            return last.path, last.fraction
        try:
            self.sandbox.write_file(last.path, last.content)
        except OSError as error:  # a command has put something else there
            raise ToolCallError(f"cannot take back the edit of {last.path!r}: {error}") from None
        return last.path, last.fraction

    def search(self, pattern: str, path: str) -> str:
        """Lines that match an extended regular expression, as ``path:line:text``.

        It runs inside: an expression that takes for ever costs its own time limit, not the host's.

        Raises:
            ToolCallError: the path leads out of the workspace, or the search took too long.
        """
        name = posixpath.normpath(relative(path))
        if name.startswith("/") or name.split("/", 1)[0] == "..":
            raise ToolCallError(
                f"path={path!r} is outside of the repository: give a path within it"
            )
        where = shlex.quote(name if name == "." else f"./{name}")
        grep = "command grep -rnIE --exclude-dir=.git --exclude-dir=__pycache__"
        grep = f"{grep} -e {shlex.quote(plain(pattern, 'pattern'))} -- {where}"
        result = self.sandbox.exec(f"(cd {shlex.quote(self._root)} && {grep})", timeout_s=20.0)
        if result.timed_out:
            raise ToolCallError(
                "the search took longer than 20 s: give a simpler pattern or a path"
            )
        lines = [line.removeprefix("./") for line in result.output.splitlines()]
        # The order in which grep walks a folder is that of the file system.
        return "\n".join(sorted(lines, key=lambda line: line.split(":", 1)[0]))


def relative(path: str) -> str:
    """A path as the sandbox takes it.

    >>> relative("/workspace/src/a.py"), relative("./a.py"), relative("src/")
    ('src/a.py', 'a.py', 'src')
    >>> relative("/workspace/"), relative("."), relative("//")
    ('.', '.', '/')

    Raises:
        ToolCallError: it holds a NUL or is very long.
    """
    name = plain(path, "path")
    if name == "/workspace" or name.startswith("/workspace/"):
        name = name.removeprefix("/workspace").lstrip("/")
    elif name.startswith("/"):
        return name.rstrip("/") or "/"
    while name.startswith("./"):
        name = name[2:].lstrip("/")
    return name.rstrip("/") or "."


def plain(text: str, name: str, limit: int | None = _MAX_ARGUMENT_CHARS) -> str:
    """The text, if a command line can carry it. Raises ``ToolCallError``."""
    if "\0" in text:
        raise ToolCallError(f"{name} holds a NUL character: leave it out")
    if limit is not None and len(text) > limit:
        raise ToolCallError(f"{name} has {len(text)} characters; at most {limit} are taken")
    return text
