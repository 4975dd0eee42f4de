"""Test files that the code under test cannot read.

For a hardened run the files named in pytest's arguments are emptied on disk before anything of the
workspace is imported; the import system of that run finds each text once, in memory. Without this, code
under test could search the workspace for the values that the tests expect. What is in memory can still be
reached by code that knows this module. The texts are put back when every process of the run is gone.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from importlib.machinery import SourceFileLoader

from agentic_gym.sandbox.inside import files


class Sealed:
    """Takes the Python files among pytest's arguments off the disk.

    Assertion rewriting reads files by itself, so it has to be off.

    Args:
        root: the workspace.
        args: pytest's arguments; paths and node ids are relative to the workspace.
    """

    def __init__(self, root: str, args: Sequence[str]) -> None:
        self._root = root
        self._texts: dict[str, bytes] = {}
        for arg in args:
            path = arg.split("::", 1)[0]
            if path.endswith(".py") and path not in self._texts:
                try:
                    self._texts[path] = files.read(root, path)
                    files.write(root, path, b"")
                except OSError:
                    self._texts.pop(path, None)  # no file of the workspace: pytest will say so

    def serve_imports(self) -> None:
        """Lets this process import each file once more."""
        _serve({os.path.realpath(os.path.join(self._root, p)): t for p, t in self._texts.items()})

    def put_back(self) -> None:
        """Writes the files again."""
        for path, text in self._texts.items():
            try:
                files.write(self._root, path, text)
            except OSError:
                pass  # the run has put something else there, or filled the disk


def _serve(texts: Mapping[str, bytes]) -> None:
    left = dict(texts)
    read = SourceFileLoader.get_data

    def get_data(self: SourceFileLoader, path: str) -> bytes:
        text = left.pop(os.path.realpath(path), None)
        return read(self, path) if text is None else text

    SourceFileLoader.get_data = get_data  # type: ignore[method-assign, assignment]
