"""Output folders, refused by name and before any work where they cannot be made."""

from __future__ import annotations

import tempfile
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
    try:
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path):  # os.access says yes to root everywhere
            pass
    except (OSError, ValueError) as error:  # a ValueError: no path at all, one with a NUL say
        taken = next((place for place in (path, *path.parents) if _is_file(place)), None)
        why = f"{taken} is no folder" if taken is not None else _reason(error)
        raise ConfigError(
            f"{key}={str(path)!r} cannot be made or written into ({why}): "
            f"give {key} a folder that is new or yours"
        ) from error
    return path


def _reason(error: OSError | ValueError) -> str:
    return (isinstance(error, OSError) and error.strerror) or str(error)


def _is_file(path: Path) -> bool:
    try:
        return path.exists() and not path.is_dir()
    except (OSError, ValueError):
        return False
