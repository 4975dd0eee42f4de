"""The example, whole and very small: what a new user runs first."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch
from transformers import AutoModelForCausalLM

from agentic_gym.errors import ConfigError
from agentic_gym.store import RunStore

pytestmark = pytest.mark.slow

EXAMPLES = Path(__file__).parents[2] / "examples"


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("runs") / "smoke"
    assert load("train_swe").main(["--smoke", "--output-dir", str(folder), "--seed", "3"]) == 0
    return folder


def test_the_run_folder_is_complete(finished: Path) -> None:
    assert (finished / "config.yaml").is_file()
    page = (finished / "report.html").read_text()
    assert "heldout_bugs" in page
    with RunStore(finished, readonly=True) as store:
        names = store.evals()
        assert {"before/heldout_bugs/sampled", "after/heldout_bugs/greedy"} <= set(names)
        counts = store.check_conservation()
        assert counts.trained == 16
        assert counts.in_flight == counts.buffered == 0
        assert [step for step, _ in store.metrics("policy_loss")] == [1, 2]
        assert set(store.get_state("phase_s")) >= {"prepare", "train", "evaluate_after"}


def test_the_checkpoint_loads_without_a_wrong_key(finished: Path) -> None:
    _, facts = AutoModelForCausalLM.from_pretrained(
        finished / "checkpoints" / "checkpoint-2", output_loading_info=True
    )
    assert not facts["missing_keys"]
    assert not facts["unexpected_keys"]


def test_a_finished_run_is_not_overwritten_and_can_be_resumed(finished: Path) -> None:
    example = load("train_swe")
    flags = ["--smoke", "--output-dir", str(finished), "--seed", "3"]
    with pytest.raises(ConfigError, match="already holds a run"):
        example.main(flags)
    with RunStore(finished, readonly=True) as store:
        before = store.counts()
    assert example.main([*flags, "--resume"]) == 0
    with RunStore(finished, readonly=True) as store:
        assert store.counts() == before


def test_another_configuration_cannot_take_up_the_run(finished: Path) -> None:
    flags = ["--smoke", "--output-dir", str(finished), "--seed", "4", "--resume"]
    with pytest.raises(ConfigError, match=r"different: seed"):
        load("train_swe").main(flags)


def test_an_unknown_flag_is_refused_with_a_suggestion() -> None:
    with pytest.raises(ConfigError, match=r"Did you mean '--ppo\.updates'"):
        load("train_swe").main(["--ppo.update", "3"])


def test_the_dry_run_writes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    torch.set_num_threads(1)
    folder = tmp_path / "never"
    assert load("train_swe").main(["--smoke", "--dry-run", "--output-dir", str(folder)]) == 0
    assert not folder.exists()
    assert "ready" in capsys.readouterr().err


def test_the_checkpoint_can_be_evaluated(finished: Path, tmp_path: Path) -> None:
    out = tmp_path / "eval"
    flags = ["--num-tasks", "2", "--max-turns", "2", "--output-dir", str(out)]
    agents = [str(finished / "checkpoints" / "checkpoint-2"), "gold", "noop"]
    assert load("evaluate_swe").main([*agents, *flags]) == 0
    results = {
        folder.name: json.loads((folder / "eval.json").read_text()) for folder in out.iterdir()
    }
    assert results["gold"]["success"]["value"] == 1.0
    assert results["noop"]["success"]["value"] == 0.0
    assert len(results) == 3
