"""What one policy solved in real sandboxes starts the training of another."""

from __future__ import annotations

import io
import shutil
from pathlib import Path

import pytest
from rich.console import Console

from agentic_gym.envs.swe.eval_command import EvalConfig, run_eval
from agentic_gym.envs.swe.pocket import load_tasks
from agentic_gym.envs.swe.profile_command import ProfileConfig, run_profile
from agentic_gym.envs.swe.task import write_tasks
from agentic_gym.errors import ConfigError
from agentic_gym.store import RunStore
from agentic_gym.trainers.assembly import Assembly
from agentic_gym.trainers.gathering import Gathering
from agentic_gym.trainers.pipeline import Pipeline
from agentic_gym.trainers.preflight import preflight
from agentic_gym.trainers.run_config import (
    DemonstrationSection,
    EnvSection,
    PPOSection,
    RolloutSection,
    ShapeSection,
    TrainConfig,
)
from agentic_gym.trainers.warm_start import WarmStartConfig

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("one_thread")]


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A set of three tasks that train and one that is held out, a profile of it, and an evaluation.

    The profile solves every task twice, in one way; the evaluation solves none.
    """
    folder = tmp_path_factory.mktemp("small")
    tasks = [*load_tasks("pocket", "train")[:3], load_tasks("pocket", "heldout_bugs")[0]]
    write_tasks(tasks, folder / "set.jsonl")
    common = {"tasks": str(folder / "set.jsonl"), "split": "", "sandboxes": 1, "concurrency": 2}
    run_profile(ProfileConfig(agent="gold", samples=2, output_dir=folder / "profile", **common))
    run_eval(EvalConfig(agent="noop", output_dir=folder / "eval", **common))
    return folder


def configure(played: Path, output_dir: Path, **section: object) -> TrainConfig:
    runs = [str(played / "profile"), str(played / "eval")]
    return TrainConfig(
        output_dir=output_dir,
        model="scratch",
        shape=ShapeSection(
            hidden=32, layers=1, heads=2, kv_heads=1, head_dim=16, intermediate=32, vocab_size=400
        ),
        env=EnvSection(
            options={
                "tasks": str(played / "set.jsonl"),
                "tools": ["edit_lines", "undo", "submit"],
                "compact": True,
                "test_after_edit": True,
                "sandboxes": 2,
            },
            train_options={"split": "train"},
            max_turns=3,
        ),
        demonstrations=DemonstrationSection(runs=runs, **section),
        warm_start=WarmStartConfig(epochs=6.0, batch_tokens=2048, learning_rate=1e-2),
        rollout=RolloutSection(
            concurrency=2,
            show_tools=False,
            max_tokens_per_turn=8,
            max_tokens_per_episode=4096,
        ),
        ppo=PPOSection(updates=0),
    )


def numbers(folder: Path) -> dict[str, float]:
    with RunStore(folder, readonly=True) as store:
        return {
            name.removeprefix("demonstrations/"): store.metrics(name)[-1][1]
            for name in store.metric_names()
            if name.startswith("demonstrations/") and store.metrics(name)[-1][1]
        }


def test_a_model_is_warm_started_from_what_another_solved(played: Path, tmp_path: Path) -> None:
    mine = tmp_path / "played"
    shutil.copytree(played, mine)
    config = configure(mine, tmp_path / "large", band=(0.5, 0.8))
    said = io.StringIO()
    Pipeline(config, console=Console(file=said, width=300)).run()
    assert "12 tries, 3 chosen; left out: 3 of tasks that do not train here" in said.getvalue()
    assert "played again: 3 of 3 solved again" in said.getvalue()
    assert numbers(config.output_dir) == {
        "tries": 12, "chosen": 3, "replayed": 3,
        "left_out_other_task": 3, "left_out_unsolved": 3, "left_out_repeated": 3,
    }  # fmt: skip
    with RunStore(config.output_dir, readonly=True) as store:
        losses = [loss for _, loss in store.metrics("warm_start/loss")]
    assert len(losses) > 3
    assert losses[-1] < 0.9 * losses[0]
    # A run whose start is made needs the others no more.
    shutil.rmtree(mine / "profile")
    Pipeline(config, resume=True, console=Console(quiet=True)).run()


def test_both_sources_are_imitated_if_both_are_given(played: Path, tmp_path: Path) -> None:
    policy = "agentic_gym.envs.swe.demonstrations:demonstrator"
    config = configure(played, tmp_path, policy=policy, per_task=1, max_tasks=2)
    with RunStore(tmp_path) as store:
        assembly = Assembly(config, store, Console(quiet=True))
        gathering = Gathering(
            config,
            store,
            Console(quiet=True),
            make_env=lambda: assembly.make_env(config.env.train_options),
            tasks=assembly.train_tasks(),
        )
        found = [one.task_id for one in gathering.demonstrations()]
        assert found[:2] == found[2:], "the first two of the same order, of each source"
        assert len(set(found)) == 2
        assert store.metrics("demonstrations/replayed") == [(0, 2.0)]


def test_a_preflight_says_what_would_be_chosen_and_tries_a_few(
    played: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    preflight(configure(played, tmp_path / "never"), console=Console(width=300))
    said = capsys.readouterr().out
    assert "note  demonstrations from" in said
    assert "12 tries, 3 chosen" in said
    assert "played again: 3 of 3 solved again" in said
    assert not (tmp_path / "never").exists()


def test_a_band_that_nothing_lies_in_is_refused_before_a_model_is_made(
    played: Path, tmp_path: Path
) -> None:
    config = configure(played, tmp_path / "never", band=(0.9, 1.0))
    with pytest.raises(ConfigError, match=r"12 tries, 0 chosen; .* 6 of tasks outside the band"):
        preflight(config, console=Console(quiet=True))
