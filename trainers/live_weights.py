"""Weights that replicas serve and the trainer has left behind, on disk.

Where a trajectory may have one version only, nothing but the weights that sampled its beginning can carry it
on after a restart. A checkpoint was rejected for this: it holds the optimiser as well, and those of most
versions are never written.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
from collections.abc import Collection
from pathlib import Path

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from agentic_gym.errors import CheckpointError
from agentic_gym.trainers.publisher import References, Weights

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
        self._folder.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(".partial")
        tensors = {name: tensor.contiguous() for name, tensor in weights.tensors.items()}
        references = json.dumps(dataclasses.asdict(weights.references))
        save_file(tensors, partial, metadata={"references": references})
        os.replace(partial, path)

    def load(self, version: int) -> Weights | None:
        """Weights of a version; None if they are not kept.

        Raises:
            CheckpointError: the file cannot be read.
        """
        path = self._path(version)
        if not path.exists():
            return None
        try:
            with safe_open(path, framework="pt") as file:
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
                fields = json.loads((file.metadata() or {})["references"])
        except (SafetensorError, KeyError, ValueError, OSError) as error:
            raise CheckpointError(
                f"{path} cannot be read ({error}). Delete it: episodes that its weights began then start "
                "anew, and nothing else is lost"
            ) from error
        return Weights(version, tensors, _references(fields))

    def prune(self, wanted: Collection[int]) -> None:
        """Deletes what is kept of other versions."""
        for version in self.versions - set(wanted):
            self._path(version).unlink(missing_ok=True)

    def _path(self, version: int) -> Path:
        return self._folder / f"version-{version}.safetensors"


def _references(fields: dict[str, object]) -> References:
    version, *sequences = (fields[name] for name in ("version", "prompts", "tokens", "logprobs"))
    return References(version, *(tuple(tuple(row) for row in rows) for rows in sequences))  # type: ignore
