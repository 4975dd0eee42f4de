"""Weights that replicas serve and the trainer has left behind, on disk.

Where a trajectory may have one version only, nothing but the weights that sampled its beginning can carry it
on after a restart. A checkpoint was rejected for this: it holds the optimiser as well, and those of most
versions are never written.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path

from agentic_gym.errors import CheckpointError
from agentic_gym.trainers.publisher import Weights
from agentic_gym.trainers.weights_file import read_weights, write_weights

_NAME = re.compile(r"version-(\d+)\.safetensors")


class LiveWeights:
    """One file a version, which also holds what proves that an engine serves it.

    Args:
        folder: of the files; made when the first is written.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @property
    def versions(self) -> set[int]:
        """Versions that are kept."""
        if not self._folder.is_dir():
            return set()
        found = (_NAME.fullmatch(path.name) for path in self._folder.iterdir())
        return {int(match[1]) for match in found if match}

    def keep(self, weights: Weights) -> None:
        """Writes these weights, whole or not at all; nothing if they are there."""
        path = self._path(weights.version)
        if path.exists() or weights.references is None:
            return
        write_weights(path, weights)

    def load(self, version: int) -> Weights | None:
        """Weights of a version; None if they are not kept.

        Raises:
            CheckpointError: the file cannot be read.
        """
        try:
            return read_weights(self._path(version), version)
        except CheckpointError as error:
            raise CheckpointError(
                f"{error}. Delete it: episodes that its weights began then start anew, and nothing else "
                "is lost"
            ) from error

    def prune(self, wanted: Collection[int]) -> None:
        """Deletes what is kept of other versions."""
        for version in self.versions - set(wanted):
            self._path(version).unlink(missing_ok=True)

    def _path(self, version: int) -> Path:
        return self._folder / f"version-{version}.safetensors"
