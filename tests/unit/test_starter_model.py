"""The bundled starter: small, loadable, and made from train tasks only."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

from agentic_gym.config import read_yaml
from agentic_gym.trainers.assembly import STARTER
from agentic_gym.trainers.models import count_parameters, load_policy


def test_it_loads_and_is_small() -> None:
    model, tokenizer = load_policy(STARTER)
    assert model.config.model_type == "qwen3"
    assert count_parameters(model) < 4_000_000
    assert len(tokenizer) == model.config.vocab_size
    assert sum(path.stat().st_size for path in STARTER.iterdir()) < 10 * 2**20


def test_its_recipe_is_that_of_the_script() -> None:
    path = Path(__file__).parents[2] / "examples" / "make_starter.py"
    spec = importlib.util.spec_from_file_location("make_starter", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    recipe = read_yaml(module.StarterConfig, STARTER / "recipe.yaml")
    default = module.StarterConfig(output_dir=recipe.output_dir)
    assert recipe == default
