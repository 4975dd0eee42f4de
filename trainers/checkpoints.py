"""Checkpoint folders that are either complete or absent.

A checkpoint is written beside its final place, flushed to disk and renamed: a folder called
``checkpoint-<version>`` is always whole. Older ones are removed only after that. A marker file inside
the folder was rejected: every reader would have to know it.
"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

from agentic_gym.errors import CheckpointError

_NAME = re.compile(r"checkpoint-(\d+)")
STAGING = ".staging"
"""Where a checkpoint is written before it counts."""


def version_of(folder: Path) -> int:
    """The weight version in a checkpoint's name.

    Raises:
        CheckpointError: the folder is not called ``checkpoint-<version>`` or does not exist.
    """
    match = _NAME.fullmatch(folder.name)
    if match is None or not folder.is_dir():
        raise CheckpointError(
            f"{folder} is no checkpoint: give a folder called checkpoint-<version>, or the folder "
            "that holds them"
        )
    return int(match[1])


def list_checkpoints(parent: Path) -> list[Path]:
    """Complete checkpoints, oldest version first."""
    if not parent.is_dir():
        return []
    found = [path for path in parent.iterdir() if _NAME.fullmatch(path.name) and path.is_dir()]
    return sorted(found, key=version_of)


def newest(parent: Path) -> Path | None:
    """The complete checkpoint of the highest version, or None."""
    found = list_checkpoints(parent)
    return found[-1] if found else None


def stage(parent: Path) -> Path:
    """An empty folder beside the checkpoints, to write ``checkpoint-<version>`` into."""
    staging = parent / STAGING
    shutil.rmtree(staging, ignore_errors=True)
    staging.mkdir(parents=True)
    return staging


def commit(written: Path, *, keep: int | None = None) -> Path:
    """Makes a staged checkpoint one that counts: a kill at any instant leaves it whole or absent.

    Args:
        written: ``checkpoint-<version>`` in the folder that :func:`stage` gave.
        keep: how many checkpoints stay; None for all. The new one always stays.

    Returns:
        The final path.
    """
    staging, parent = written.parent, written.parent.parent
    _flush(written)
    final = parent / written.name
    if final.exists():
        # Only a run that was resumed from an older checkpoint by hand writes a version again.
        final.rename(staging / f"old-{final.name}")
    written.rename(final)
    _flush_entry(parent)
    shutil.rmtree(staging)
    if keep is not None:
        others = [path for path in list_checkpoints(parent) if path != final]
        for path in others[: max(len(others) + 1 - keep, 0)]:
            _remove(path)
    return final


def _remove(folder: Path) -> None:
    """Renames first, so that a kill while deleting leaves no half checkpoint under its name."""
    doomed = folder.parent / STAGING / folder.name
    doomed.parent.mkdir(exist_ok=True)
    folder.rename(doomed)
    shutil.rmtree(doomed.parent)


def _flush(folder: Path) -> None:
    for base, _, names in os.walk(folder):
        for name in names:
            _flush_entry(Path(base) / name)
        _flush_entry(Path(base))


def _flush_entry(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
