"""A run that is taken up again: which policy trains, which is served, and whose folder it is."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from rich.console import Console
from safetensors.torch import load_file
from transformers import Qwen3Config, Qwen3ForCausalLM

import agentic_gym
from agentic_gym.errors import ConfigError
from agentic_gym.store import RunStore
from agentic_gym.testing import GuessEnv
from agentic_gym.trainers.assembly import RELAY_FOLDER, Assembly
from agentic_gym.trainers.pipeline import Pipeline, take_switches
from agentic_gym.trainers.preflight import preflight
from agentic_gym.trainers.run_config import (
    EnvSection,
    EvalSection,
    PPOSection,
    RolloutSection,
    TrainConfig,
)
from agentic_gym.trainers.source import RecordedSource
from agentic_gym.trainers.tokenizer import train_tokenizer
from agentic_gym.types import Outcome, SamplingParams, TokenStream, Trajectory, Turn

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("one_thread")]


class Guesses(GuessEnv):
    """An environment with tasks, of which the split "none" has none."""

    def __init__(self, split: str = "all") -> None:
        super().__init__()
        self.tasks = [SimpleNamespace(task_id=f"t{i}") for i in range(4 * (split == "all"))]


ENV = "tests/assembly-v0"
agentic_gym.register(ENV, Guesses)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    tokenizer = train_tokenizer(["Find the number. higher lower"], vocab_size=280)
    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=len(tokenizer), hidden_size=16, intermediate_size=16, num_hidden_layers=2,
        num_attention_heads=2, num_key_value_heads=1, head_dim=8, tie_word_embeddings=True,
        max_position_embeddings=256,
    )  # fmt: skip
    Qwen3ForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def configure(model: Path, output_dir: Path, **options: Any) -> TrainConfig:
    ppo = {"updates": 2, "minibatch_size": 4, "value_warmup_updates": 0, "save_every": 1}
    return TrainConfig(
        model=str(model),
        output_dir=output_dir,
        env=EnvSection(id=ENV, max_turns=2),
        rollout=RolloutSection(
            concurrency=4,
            max_tokens_per_turn=4,
            max_tokens_per_episode=256,
            show_tools=False,
            **options.pop("rollout", {}),
        ),
        ppo=PPOSection(**{**ppo, **options.pop("ppo", {})}),
        **options,
    )


def batch(size: int = 4) -> list[Trajectory]:
    rng = np.random.default_rng(0)
    sampled = np.arange(12) >= 6
    return [
        Trajectory(
            f"t{i}", "t0", "g", i, "p", (Turn("a", "o", float(i % 2)),),
            TokenStream(
                rng.integers(0, 200, 12).astype(np.int32),
                sampled,
                np.where(sampled, np.float32(-5.0), np.float32(0.0)),
                np.where(sampled, 0, -1).astype(np.int32),
                np.where(sampled, 0, -1).astype(np.int32),
            ),
            Outcome.FAILED, True, False,
        )
        for i in range(size)
    ]  # fmt: skip


@pytest.mark.parametrize(
    "ppo", [{"lora_rank": 2}, {"kl_coef": 0.1}, {"lora_rank": 2, "kl_coef": 0.1}, {}],
    ids=["lora", "kl", "lora and kl", "full"],
)  # fmt: skip
def test_a_resumed_run_has_the_policy_of_its_checkpoint_and_the_reference_of_its_start(
    model: Path, tmp_path: Path, ppo: dict[str, Any]
) -> None:
    config = configure(model, tmp_path, ppo={**ppo, "learning_rate": 0.02})
    folder = tmp_path / "checkpoints"
    start = load_file(model / "model.safetensors")

    def begin(store: RunStore) -> Assembly:
        assembly = Assembly(config, store, Console(quiet=True))
        assembly.prepare()
        return assembly

    with RunStore(tmp_path) as store:
        first = begin(store)
        trainer = first.make_trainer(RecordedSource([batch()]), folder)
        trainer.train()
        first.close()
        trained = load_file(folder / "checkpoint-1" / "model.safetensors")
        assert any(not torch.equal(trained[name], start[name]) for name in trained)

        again = begin(store)
        resumed = again.make_trainer(RecordedSource([batch(), batch()]), folder)
        resumed.load_files(folder / "checkpoint-1")
        weights = resumed.policy.weights()
        for name, tensor in trained.items():
            torch.testing.assert_close(weights[name], tensor, atol=0, rtol=0)
        reference = resumed.updater.reference
        if reference is not None:
            ids = torch.arange(10)[None]
            held = reference.adapter_off or torch.no_grad
            plain = Qwen3ForCausalLM.from_pretrained(model)
            with torch.no_grad(), held():
                torch.testing.assert_close(reference.model(ids).logits, plain(ids).logits)
        completion = asyncio.run(
            again.engine.generate([1, 2, 3], SamplingParams(4, seed=0), request_id="r")
        )
        expected = resumed.policy.logprobs([1, 2, 3], completion.token_ids)
        assert completion.logprobs == pytest.approx(expected, abs=1e-4)
        again.close()


def test_a_preflight_tries_the_policys_backward_pass_and_writes_nothing(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[bool] = []
    make_trainer = Assembly.make_trainer

    def watched(assembly: Assembly, source: Any, folder: Path) -> Any:
        trainer = make_trainer(assembly, source, folder)
        body = next(p for n, p in trainer.model.named_parameters() if "layers.0" in n)
        body.register_hook(lambda gradient: seen.append(bool(gradient.abs().sum() > 0)))
        return trainer

    monkeypatch.setattr(Assembly, "make_trainer", watched)
    config = configure(model, tmp_path / "never", ppo={"value_warmup_updates": 1})
    preflight(config, console=Console(quiet=True))
    assert any(seen)
    assert not (tmp_path / "never").exists()


@pytest.mark.parametrize(
    ("ppo", "options", "words"),
    [
        ({}, {}, r"minibatch_size=4 must be at least ppo.episodes_per_update=64"),
        ({"minibatch_size": 64}, {}, "needs ppo_epochs=1, not 2"),
        ({"minibatch_size": 64, "ppo_epochs": 1}, {}, "needs whiten_advantages=False"),
        (
            {},
            {"schedule": "bounded_async"},
            r"'bounded_async' hands a batch over as soon .*ppo\.stream",
        ),
        (
            {"stream": False},
            {"schedule_options": {"stage": True}},
            "'stage', which the run says in",
        ),
        ({"stream": False, "extra": {"gama": 1}}, {}, "ppo.extra: .*gama"),
    ],
)
def test_settings_that_do_not_fit_are_refused_before_a_folder_is_taken(
    model: Path, tmp_path: Path, ppo: dict[str, Any], options: dict[str, Any], words: str
) -> None:
    config = configure(model, tmp_path / "never", ppo={"stream": True, **ppo}, **options)
    for attempt in (Pipeline, preflight):
        with pytest.raises(ConfigError, match=words):
            attempt(config, console=Console(quiet=True))
    assert not (tmp_path / "never").exists()


def test_a_whole_run_begins_with_its_gradients_early(model: Path, tmp_path: Path) -> None:
    ppo = {"episodes_per_update": 4, "ppo_epochs": 1, "stream": True}
    extra = {"whiten_advantages": False}
    config = configure(model, tmp_path, ppo={**ppo, "group_size": 1, "extra": extra})
    preflight(config, console=Console(quiet=True))
    Pipeline(config, console=Console(quiet=True)).run()
    with RunStore(tmp_path) as store:
        shares = [share for _, share in store.metrics("streamed_share")]
        assert len(shares) == 2
        assert all(0 <= share < 1 for share in shares)
        assert store.check_conservation().trained == 8
        for trajectory in store.finished():
            credit = store.credit(trajectory.trajectory_id)
            assert credit is not None
            assert trajectory.tokens is not None
            assert len(credit.advantages) == int(trajectory.tokens.sampled[1:].sum())
    assert "<h2>Credit</h2>" in (tmp_path / "report.html").read_text()


def test_a_preflight_of_a_run_without_ppo_tries_no_update_and_says_so(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    preflight(configure(model, tmp_path / "never", ppo={"updates": 0}))
    said = capsys.readouterr().err
    assert "no update is tried: ppo.updates is 0" in said
    assert "update 1/1" not in said


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"baselines": {"best": "nowhere.at_all:agents"}}, "nowhere.at_all:agents"),
        ({"evaluations": {"far": EvalSection(options={"split": "none"})}}, "'far' has no task"),
    ],
)
def test_a_preflight_refuses_what_would_fail_after_an_hour(
    model: Path, tmp_path: Path, options: dict[str, Any], words: str
) -> None:
    with pytest.raises(ConfigError, match=words):
        preflight(configure(model, tmp_path / "never", **options), console=Console(quiet=True))


def test_a_whole_run_is_moved_and_taken_up_under_its_name(model: Path, tmp_path: Path) -> None:
    ppo = {"updates": 1, "episodes_per_update": 4, "group_size": 2}
    first, second = tmp_path / "first", tmp_path / "second"
    options: dict[str, Any] = {
        "ppo": ppo, "name": "guesses", "evaluations": {"all": EvalSection(samples=1, num_tasks=2)},
    }  # fmt: skip
    options["rollout"] = {"replicas": 2, "relays": 2}
    Pipeline(configure(model, first, **options), console=Console(quiet=True)).run()
    with RunStore(first) as store:
        assert len(store.metrics("relay_push_s")) == 1
    assert not (first / RELAY_FOLDER).exists()
    first.rename(second)
    moved = configure(model, second, **options)
    result = Pipeline(moved, resume=True, console=Console(quiet=True)).run()
    assert "<h1>guesses</h1>" in result.report.read_text()
    with RunStore(second) as store:
        assert store.check_conservation().trained == 4
    other = configure(model, second, **{**options, "seed": 1})
    with pytest.raises(ConfigError, match=r"different: seed: 0 before, 1 now\)"):
        Pipeline(other, resume=True, console=Console(quiet=True))


def test_switches_are_taken_from_among_the_flags() -> None:
    for words in (["--config", "a.yaml"], ["--config=a.yaml"]):
        switches, rest = take_switches(["--resume", *words, "--seed", "1"])
        assert (switches.config, switches.resume, switches.dry_run) == ("a.yaml", True, False)
        assert rest == ["--seed", "1"]
    for wrong in (["--config"], ["--config", "--resume"], ["--config="]):
        with pytest.raises(ConfigError, match="--config needs a file"):
            take_switches(wrong)
