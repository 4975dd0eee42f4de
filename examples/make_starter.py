"""Make the starter: the small model that ``examples/train_swe.py`` begins from.

Two stages, both on *train* tasks only. First reading: the model looks up lines by their number in files
that it has just read, so that it learns to copy instead of guessing from memory. Then demonstrations of
the whole loop (:mod:`agentic_gym.envs.swe.demonstrations`), deliberately few, so that reinforcement
learning has something to add. The tokenizer is made from the same demonstrations.

    python examples/make_starter.py --output-dir trainers/data/starter
"""

from __future__ import annotations

import dataclasses
import random
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from agentic_gym.chat import ChatCodec
from agentic_gym.config import StrictConfig, dump_config, parse_flags
from agentic_gym.envs.swe.demonstrations import Demonstrator, WrongEdits
from agentic_gym.envs.swe.env import SWEEnv
from agentic_gym.envs.swe.observations import source_files
from agentic_gym.errors import AgenticGymError
from agentic_gym.registration import make
from agentic_gym.tools import format_action
from agentic_gym.trainers.demonstrations import Demonstration, encode, record_many
from agentic_gym.trainers.models import DecoderShape, count_parameters, make_decoder
from agentic_gym.trainers.tokenizer import train_tokenizer
from agentic_gym.trainers.warm_start import WarmStartConfig, WarmStartStep, warm_start
from agentic_gym.types import TokenStream

CONSOLE = Console(stderr=True)


class StarterConfig(StrictConfig):
    """The recipe.

    Attributes:
        output_dir: where the model, its tokenizer and ``recipe.yaml`` go.
        seed: of everything.
        max_source_chars: only tasks whose source is as short.
        vocab_size: of the tokenizer.
        hidden: width of the model; heads have 32.
        layers: its depth.
        max_tokens: longest sequence.
        demonstrations_per_task: episodes of the demonstrator.
        wrong_rate: its chance of one more wrong edit.
        drills_per_task: reading exercises.
        lines_per_drill: lines looked up in each.
        reading: settings of the first stage.
        acting: settings of the second.
    """

    output_dir: Path = Path("runs/starter")
    seed: int = 0
    max_source_chars: int = 1000
    vocab_size: int = 1280
    hidden: int = 192
    layers: int = 3
    max_tokens: int = 1536
    demonstrations_per_task: int = 4
    wrong_rate: float = 0.35
    drills_per_task: int = 3
    lines_per_drill: int = 16
    reading: WarmStartConfig = WarmStartConfig(
        epochs=1.7, learning_rate=2e-3, batch_tokens=4096, context_weight=0.3
    )
    acting: WarmStartConfig = WarmStartConfig(
        epochs=5.0, learning_rate=2e-3, batch_tokens=4096, context_weight=0.3
    )


class Reader:
    """A policy that looks up lines by their number, then submits."""

    def __init__(self, num_lines: int) -> None:
        self._num_lines = num_lines

    def reset(self, task: Any, seed: int) -> None:
        """Chooses the lines."""
        rng = random.Random(f"{task.task_id}/{seed}")
        path, content = next(iter(source_files(task).items()))
        last = len(content.decode().splitlines())
        self._path = path
        self._lines = [rng.randint(1, last) for _ in range(self._num_lines)]

    def act(self, observation: str, info: dict[str, Any]) -> str:
        """The next look."""
        if not self._lines:
            return format_action([("submit", {})])
        line = self._lines.pop()
        return format_action([("view", {"path": self._path, "start": line, "end": line})])


def record(config: StarterConfig) -> tuple[list[Demonstration], list[Demonstration]]:
    """Demonstrations of the whole loop, and of reading."""
    options = {
        "split": "train", "max_source_chars": config.max_source_chars, "compact": True,
        "test_after_edit": True, "sandboxes": 2, "cache_tests": 50_000, "max_turns": 64,
    }  # fmt: skip

    def env(tools: Sequence[str]) -> Any:
        return make("agentic_gym/SWE-v0", tools=list(tools), **options)

    first = env(("submit",)).unwrapped
    assert isinstance(first, SWEEnv)
    wrong = WrongEdits(first.tasks)
    ids = [task.task_id for task in first.tasks]
    acting = record_many(
        lambda: env(("edit_lines", "undo", "submit")),
        lambda: Demonstrator(wrong, wrong_rate=config.wrong_rate),
        [(task, sample) for sample in range(config.demonstrations_per_task) for task in ids],
    )
    CONSOLE.print(f"{len(acting)} demonstrations, {sum(d.solved for d in acting)} solved")
    reading = record_many(
        lambda: env(("view", "submit")),
        lambda: Reader(config.lines_per_drill),
        [(task, sample) for sample in range(config.drills_per_task) for task in ids],
    )
    return acting, reading


def answers_only(stream: TokenStream) -> TokenStream:
    """Of a reading exercise, what is learned is the answer, not the question."""
    return dataclasses.replace(stream, sampled=~stream.sampled & (stream.turns >= 0))


def main(argv: list[str]) -> int:
    """Runs the script; returns the exit status."""
    config = parse_flags(StarterConfig, argv, prog="make_starter.py", default=StarterConfig())
    began = time.process_time()
    acting, reading = record(config)
    tokenizer = train_tokenizer(
        (text for demonstration in acting for text in demonstration.texts()),
        vocab_size=config.vocab_size,
    )
    codec = ChatCodec(tokenizer, show_tools=False)
    episodes = encode(codec, acting, max_tokens=config.max_tokens)
    drills = [answers_only(s) for s in encode(codec, reading, max_tokens=config.max_tokens)]
    shape = DecoderShape(
        hidden=config.hidden, layers=config.layers, heads=config.hidden // 32,
        kv_heads=config.hidden // 64, head_dim=32, intermediate=config.hidden * 8 // 96 * 32,
    )  # fmt: skip
    model = make_decoder(tokenizer, shape, seed=config.seed)
    CONSOLE.print(f"{count_parameters(model):,} parameters, {len(tokenizer)} tokens")

    def report(step: WarmStartStep) -> None:
        if step.step % 25 == 0:
            CONSOLE.print(
                f"step {step.step}/{step.num_steps}: loss {step.loss:.3f}, accuracy "
                f"{step.accuracy:.3f}, {time.process_time() - began:.0f} CPU s"
            )

    warm_start(model, drills, config.reading, seed=config.seed, on_step=report)
    warm_start(model, episodes, config.acting, seed=config.seed, on_step=report)
    model.save_pretrained(config.output_dir)
    tokenizer.save_pretrained(config.output_dir)
    dump_config(config, config.output_dir / "recipe.yaml")
    CONSOLE.print(f"{config.output_dir}: {time.process_time() - began:.0f} CPU s")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except AgenticGymError as error:
        sys.exit(f"{type(error).__name__}: {error}")
