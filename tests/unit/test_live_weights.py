"""Weights kept for a restart."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from agentic_gym.errors import CheckpointError
from agentic_gym.trainers.live_weights import LiveWeights
from agentic_gym.trainers.publisher import References, Weights
from agentic_gym.trainers.weights_file import read_weights, write_weights


def made(version: int) -> Weights:
    references = References(version, ((0,), (3, 1)), ((1, 2), (4,)), ((-0.25, -1.5), (-2.0,)))
    grid = torch.arange(6.0).reshape(2, 3) + version
    tensors = {"half": torch.full((2,), version, dtype=torch.bfloat16), "turned": grid.t()}
    return Weights(version, tensors, references)


def test_what_is_kept_comes_back_equal(tmp_path: Path) -> None:
    live = LiveWeights(tmp_path / "live")
    assert live.load(3) is None
    assert live.versions == set()
    live.keep(made(3))
    back = live.load(3)
    assert back is not None
    assert (back.version, back.references) == (3, made(3).references)
    for name, tensor in made(3).tensors.items():
        assert back.tensors[name].dtype == tensor.dtype
        assert torch.equal(back.tensors[name], tensor)


def test_only_wanted_versions_stay(tmp_path: Path) -> None:
    live = LiveWeights(tmp_path)
    for version in (1, 2, 10):
        live.keep(made(version))
    (tmp_path / "version-4.partial").write_bytes(b"half")  # a kill came while it was written
    (tmp_path / "notes.txt").write_text("somebody's")
    assert live.versions == {1, 2, 10}
    live.prune({2, 7})
    assert live.versions == {2}
    assert (tmp_path / "notes.txt").exists()


@pytest.mark.parametrize("content", [b"", b"garbage that is no header", b"\xff" * 64])
def test_a_damaged_file_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "version-2.safetensors").write_bytes(content)
    with pytest.raises(CheckpointError, match=r"version-2\.safetensors cannot be read.*Delete it"):
        LiveWeights(tmp_path).load(2)


def test_a_file_of_somebody_else_is_named(tmp_path: Path) -> None:
    from safetensors.torch import save_file

    save_file({"w": torch.zeros(1)}, tmp_path / "version-2.safetensors")
    with pytest.raises(CheckpointError, match="cannot be read"):
        LiveWeights(tmp_path).load(2)


def test_weights_without_references_can_be_written_too(tmp_path: Path) -> None:
    path = tmp_path / "new" / "version-1.safetensors"
    write_weights(path, Weights(1, {"w": torch.ones(2)}))
    back = read_weights(path, 1)
    assert back is not None
    assert (back.version, back.references) == (1, None)
    assert torch.equal(back.tensors["w"], torch.ones(2))
    assert [file.name for file in path.parent.iterdir()] == [path.name]
