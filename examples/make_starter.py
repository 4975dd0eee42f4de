"""Make the starter: the small model that ``examples/train_swe.py`` begins from.

Three stages, all on *train* tasks only. Copying: the model rewrites the lines of a file by their numbers,
broken ones put right. Repairing: it tells the broken lines from the others, broken anew each time
(:mod:`agentic_gym.envs.swe.exercises`). Acting: demonstrations of the whole loop, with wrong edits that are
taken back (:mod:`agentic_gym.envs.swe.demonstrations`), deliberately few, so that reinforcement learning
has something to add. The tokenizer is made from the same demonstrations.

    python examples/make_starter.py --output-dir trainers/data/starter

The model is saved after each stage; ``--from-stage`` goes on with what an earlier run left.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

import gymnasium
import torch
from rich.console import Console

from agentic_gym.chat import ChatCodec
from agentic_gym.cli import run_guarded
from agentic_gym.config import StrictConfig, dump_config, parse_flags
from agentic_gym.envs.swe.demonstrations import Demonstrator, WrongEdits
from agentic_gym.envs.swe.env import SWEEnv
from agentic_gym.envs.swe.exercises import Exercise, Exercises
from agentic_gym.envs.swe.pocket import load_tasks
from agentic_gym.envs.swe.task import SWETask
from agentic_gym.registration import make
from agentic_gym.trainers.demonstrations import Demonstration, encode, record_many
from agentic_gym.trainers.models import DecoderShape, count_parameters, load_policy, make_decoder
from agentic_gym.trainers.tokenizer import train_tokenizer
from agentic_gym.trainers.warm_start import WarmStartConfig, WarmStartStep, warm_start
from agentic_gym.types import TokenStream

CONSOLE = Console(stderr=True)
EXERCISING = WarmStartConfig(
    epochs=1.0, learning_rate=4e-3, batch_tokens=4096, context_weight=0.3,
    optimizer="muon", precision="bfloat16", workers=2,
)  # fmt: skip


Streams = list[TokenStream]
Stage = Literal["copying", "repairing", "acting"]


class StarterConfig(StrictConfig):
    """The recipe.

    Attributes:
        output_dir: where the model, its tokenizer and ``recipe.yaml`` go.
        from_stage: the first stage to do; the model in ``output_dir`` has been through those before it.
        seed: of everything.
        max_source_chars: only tasks whose source is as short.
        vocab_size: of the tokenizer.
        hidden: width of the model, a multiple of 64; heads have 32.
        layers: its depth.
        max_tokens: longest demonstration.
        copying_tokens: tokens of the first stage.
        repairing_tokens: tokens of the second.
        rewriting_share: share of the second that is as the first.
        marked: share of repairing exercises with marked lines.
        demonstrations_per_task: episodes of the demonstrator.
        detour_rate: its chance of beginning one block earlier.
        garble_rate: its chance of garbling an edit first.
        give_up_rate: its chance of giving up after a first edit.
        copying: settings of the first stage.
        repairing: settings of the second.
        acting: settings of the third.
    """

    output_dir: Path = Path("runs/starter")
    from_stage: Stage = "copying"
    seed: int = 0
    max_source_chars: int = 1000
    vocab_size: int = 1280
    hidden: int = 192
    layers: int = 4
    max_tokens: int = 2048
    copying_tokens: int = 1_500_000
    repairing_tokens: int = 6_000_000
    rewriting_share: float = 0.35
    marked: float = 0.5
    demonstrations_per_task: int = 10
    detour_rate: float = 0.5
    garble_rate: float = 0.3
    give_up_rate: float = 0.7
    copying: WarmStartConfig = EXERCISING
    repairing: WarmStartConfig = EXERCISING
    acting: WarmStartConfig = EXERCISING.model_copy(
        update={"learning_rate": 2e-3, "context_weight": 0.0}
    )


def spared_tasks() -> list[SWETask]:
    """Tasks of the other splits: nothing that the starter reads may hold their bugs."""
    return [task for task in load_tasks("pocket") if task.split != "train"]


def record(config: StarterConfig) -> tuple[list[SWETask], list[Demonstration]]:
    """The tasks that the starter learns from, and demonstrations of the whole loop on them."""

    def env() -> gymnasium.Env[str, str]:
        return make(
            "agentic_gym/SWE-v0", split="train", max_source_chars=config.max_source_chars,
            tools=["edit_lines", "undo", "submit"], compact=True, test_after_edit=True,
            sandboxes=2, cache_tests=50_000, max_turns=64,
        )  # fmt: skip

    first = env()
    assert isinstance(first.unwrapped, SWEEnv)
    tasks = list(first.unwrapped.tasks)
    first.close()
    wrong = WrongEdits(tasks)
    spared = spared_tasks()
    samples = range(config.demonstrations_per_task)
    demonstrations = record_many(
        env,
        lambda: Demonstrator(
            wrong,
            detour_rate=config.detour_rate,
            garble_rate=config.garble_rate,
            give_up_rate=config.give_up_rate,
            spared=spared,
        ),
        [(task.task_id, sample) for sample in samples for task in tasks],
    )
    solved = sum(demonstration.solved for demonstration in demonstrations)
    CONSOLE.print(f"{len(demonstrations)} demonstrations of {len(tasks)} tasks, {solved} solved")
    return tasks, demonstrations


def written(codec: ChatCodec, exercise: Callable[[], Exercise], num_tokens: float) -> Streams:
    """Exercises as token streams, about ``num_tokens`` in all."""
    streams: Streams = []
    while num_tokens > 0:
        made = exercise()
        prompt = {"role": "user", "content": made.prompt}
        text = Demonstration("", (prompt,), (), (made.answer,), (), solved=True)
        streams += encode(codec, [text], max_tokens=sys.maxsize)
        num_tokens -= len(streams[-1])
    return streams


def shape(config: StarterConfig) -> DecoderShape:
    """Of the model, by its width and depth."""
    return DecoderShape(
        hidden=config.hidden, layers=config.layers, heads=config.hidden // 32,
        kv_heads=config.hidden // 64, head_dim=32, intermediate=config.hidden * 8 // 96 * 32,
    )  # fmt: skip


def stages(
    config: StarterConfig, codec: ChatCodec, tasks: Sequence[SWETask], acting: Streams
) -> dict[Stage, tuple[Streams, WarmStartConfig]]:
    """What each stage learns from, and how."""
    exercises = Exercises(tasks, spared_tasks(), seed=config.seed)
    copying = written(codec, exercises.rewriting, config.copying_tokens)
    more = written(codec, exercises.rewriting, config.repairing_tokens * config.rewriting_share)
    repairing = written(
        codec,
        lambda: exercises.repairing(marked=config.marked),
        config.repairing_tokens * (1 - config.rewriting_share),
    )
    return {
        "copying": (copying, config.copying),
        "repairing": (more + repairing, config.repairing),
        "acting": (acting, config.acting),
    }


def main(argv: list[str]) -> int:
    """Runs the script; returns the exit status."""
    config = parse_flags(StarterConfig, argv, prog="make_starter.py", default=StarterConfig())
    began = time.process_time()
    torch.set_num_threads(1)  # two workers, each with its own half of a batch, are faster
    tasks, demonstrations = record(config)
    texts = (text for demonstration in demonstrations for text in demonstration.texts())
    tokenizer = train_tokenizer(texts, vocab_size=config.vocab_size)
    if config.from_stage == "copying":
        model = make_decoder(tokenizer, shape(config), seed=config.seed)
    else:
        model, tokenizer = load_policy(config.output_dir)
    CONSOLE.print(f"{count_parameters(model):,} parameters, {len(tokenizer)} tokens")
    codec = ChatCodec(tokenizer, show_tools=False)
    acting = encode(codec, demonstrations, max_tokens=config.max_tokens)
    todo = stages(config, codec, tasks, acting)
    order = list(todo)
    for stage in order[order.index(config.from_stage) :]:

        def report(step: WarmStartStep, stage: Stage = stage) -> None:
            if step.step % 25 == 0:
                CONSOLE.print(
                    f"{stage} {step.step}/{step.num_steps}: loss {step.loss:.3f}, accuracy "
                    f"{step.accuracy:.3f}, {time.process_time() - began:.0f} CPU s"
                )

        streams, settings = todo[stage]
        warm_start(model, streams, settings, seed=config.seed, on_step=report)
        model.save_pretrained(config.output_dir)
        tokenizer.save_pretrained(config.output_dir)
    dump_config(
        config.model_copy(update={"from_stage": "copying"}), config.output_dir / "recipe.yaml"
    )
    CONSOLE.print(f"{config.output_dir}: {time.process_time() - began:.0f} CPU s")
    return 0


if __name__ == "__main__":
    sys.exit(run_guarded(main, sys.argv[1:], name="make_starter.py"))
