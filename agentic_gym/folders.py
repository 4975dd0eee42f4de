"""Output folders, refused by name and before any work where they cannot be made."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from agentic_gym.errors import ConfigError


def make_folder(path: Path, key: str) -> Path:
    """Makes a folder to write into, with those above it; one that is there is kept as it is.

    Args:
        path: of the folder.
        key: the setting that names it, for the message.

    Raises:
        ConfigError: it cannot be made, is no folder, or cannot be written into.
    """
    with _explained(path, key):
        path.mkdir(parents=True, exist_ok=True)
        _try_to_write(path)
    return path


def check_folder(path: Path, key: str) -> None:
    """Refuses as :func:`make_folder` would, and leaves nothing behind."""
    with _explained(path, key):
        with suppress(FileNotFoundError):
            path.stat()  # a name that cannot be is refused here
        place = next(place for place in (path, *path.absolute().parents) if os.path.exists(place))
        _try_to_write(place)


def _try_to_write(place: Path) -> None:
    """os.access says yes to root everywhere, so something is made, and gone again."""
    with tempfile.TemporaryDirectory(dir=place):
        pass


@contextmanager
def _explained(path: Path, key: str) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError) as error:  # a ValueError: no path at all, one with a NUL say
        taken = next((place for place in (path, *path.parents) if _is_file(place)), None)
        why = f"{taken} is no folder" if taken is not None else _reason(error)
        raise ConfigError(
            f"{key}={str(path)!r} cannot be made or written into ({why}): "
            f"give {key} a folder that is new or yours"
        ) from error


def _reason(error: OSError | ValueError) -> str:
    return (isinstance(error, OSError) and error.strerror) or str(error)


def _is_file(path: Path) -> bool:
    try:
        return path.exists() and not path.is_dir()
    except (OSError, ValueError):
        return False
