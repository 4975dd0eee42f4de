"""Train a software-engineering agent from nothing but this repository, on two CPU cores.

The agent is a small language model that edits lines of code in a sandbox and reads what the tests say.
It begins from a short warm start, is evaluated on bugs that it has never seen, learns by PPO, and is
evaluated again. Everything is kept in the run folder; ``report.html`` there shows it::

    python examples/train_swe.py                       # the default run
    python examples/train_swe.py --smoke               # all of it in a minute or so, for a look
    python examples/train_swe.py --resume --output-dir runs/train_swe
    python examples/train_swe.py --ppo.updates 60 --model runs/other/checkpoints/checkpoint-12

Every key of ``TrainConfig`` is a flag (``--help`` lists them). ``--config FILE`` reads a YAML file: what it
does not say is as in the default run, or with ``--smoke`` as in the smoke run.
"""

from __future__ import annotations

import sys
from pathlib import Path

from agentic_gym.cli import run_guarded
from agentic_gym.config import Switch, parse_flags, read_yaml
from agentic_gym.trainers.pipeline import SWITCHES, Pipeline, take_switches
from agentic_gym.trainers.preflight import preflight
from agentic_gym.trainers.run_config import (
    DemonstrationSection,
    EnvSection,
    EvalSection,
    PPOSection,
    RolloutSection,
    TrainConfig,
)
from agentic_gym.trainers.warm_start import WarmStartConfig

ENV = EnvSection(
    id="agentic_gym/SWE-v0",
    options={
        "tasks": "pocket",
        "max_source_chars": 1000,
        "tools": ["edit_lines", "undo", "submit"],
        "compact": True,
        "test_after_edit": True,
        "sandboxes": 4,
        "cache_tests": 50_000,
    },
    train_options={
        "split": "train",
        "reward": {"turn": -0.02, "mishap": -0.3, "failed": -0.5},
    },
    max_turns=6,
)

DEFAULT = TrainConfig(
    output_dir=Path("runs/train_swe"),
    name="train_swe",
    model="starter",
    env=ENV,
    demonstrations=DemonstrationSection(),
    rollout=RolloutSection(show_tools=False),
    # What was tried, and what each did: docs/decisions/0009.
    ppo=PPOSection(
        updates=12,
        group_size=1,
        ppo_epochs=1,
        minibatch_size=16,
        gamma=0.4,
        learning_rate=2e-4,
        ramp_updates=3,
        value_warmup_updates=0,
        save_every=4,
    ),
    evaluations={
        "heldout_bugs": EvalSection(options={"split": "heldout_bugs"}, samples=4),
        "heldout_modules": EvalSection(
            options={"split": "heldout_modules"}, num_tasks=48, samples=1, greedy=False
        ),
    },
    baselines={"random": "agentic_gym.envs.swe.baselines:random_agents"},
    baseline_tasks=20,
)

SMOKE = TrainConfig(
    output_dir=Path("runs/smoke"),
    name="smoke",
    model="scratch",
    env=ENV.model_copy(update={"max_turns": 3}),
    demonstrations=DemonstrationSection(
        policy="agentic_gym.envs.swe.demonstrations:demonstrator", per_task=1, max_tasks=16
    ),
    warm_start=WarmStartConfig(epochs=1.0),
    rollout=RolloutSection(concurrency=8, show_tools=False, max_tokens_per_turn=48),
    ppo=PPOSection(updates=2, episodes_per_update=8, minibatch_size=4, save_every=1),
    evaluations={
        "heldout_bugs": EvalSection(options={"split": "heldout_bugs"}, num_tasks=6, samples=1)
    },
)


def main(argv: list[str]) -> int:
    """Runs the example; returns the exit status."""
    smoke = "--smoke" in argv
    switches, rest = take_switches([word for word in argv if word != "--smoke"])
    default = SMOKE if smoke else DEFAULT
    if switches.config is not None:
        default = read_yaml(TrainConfig, switches.config, default=default)
    switch = Switch("--smoke", "all of it in a minute or so, for a look")
    config = parse_flags(
        TrainConfig, rest, prog="train_swe.py", default=default, switches=(*SWITCHES, switch)
    )
    if switches.dry_run:
        preflight(config)
        return 0
    Pipeline(config, resume=switches.resume).run()
    return 0


if __name__ == "__main__":
    sys.exit(run_guarded(main, sys.argv[1:], name="train_swe.py"))
