"""Weights as one file, with what proves that an engine serves them."""

from __future__ import annotations

import dataclasses
import json
import os
from pathlib import Path

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from agentic_gym.errors import CheckpointError
from agentic_gym.trainers.publisher import References, Weights


def write_weights(path: Path, weights: Weights) -> None:
    """Writes weights, whole or not at all; the folder is made if there is none."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    tensors = {name: tensor.contiguous() for name, tensor in weights.tensors.items()}
    references = weights.references
    fields = None if references is None else dataclasses.asdict(references)
    save_file(tensors, partial, metadata={"references": json.dumps(fields)})
    os.replace(partial, path)


def read_weights(path: Path, version: int) -> Weights | None:
    """Weights of a version; None if the file is not there.

    Raises:
        CheckpointError: it cannot be read.
    """
    try:
        with safe_open(path, framework="pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            fields = json.loads((file.metadata() or {})["references"])
    except FileNotFoundError:
        return None
    except (SafetensorError, KeyError, ValueError, OSError) as error:
        raise CheckpointError(f"{path} cannot be read ({error})") from error
    return Weights(version, tensors, None if fields is None else _references(fields))


def _references(fields: dict[str, object]) -> References:
    version, *sequences = (fields[name] for name in ("version", "prompts", "tokens", "logprobs"))
    return References(version, *(tuple(tuple(row) for row in rows) for rows in sequences))  # type: ignore
