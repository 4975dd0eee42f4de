"""``agentic-gym train``: a whole training run from a YAML file, flags, or both.

Nothing heavy is imported before the command runs.
"""

from __future__ import annotations

from agentic_gym.cli import Command


def run(argv: list[str]) -> int:
    """Runs the command: ``--config FILE``, any flag of ``TrainConfig``, ``--resume``, ``--dry-run``."""
    from agentic_gym.config import parse_flags, read_yaml
    from agentic_gym.trainers.pipeline import SWITCHES, Pipeline, take_switches
    from agentic_gym.trainers.preflight import preflight
    from agentic_gym.trainers.run_config import TrainConfig

    switches, rest = take_switches(argv)
    default = TrainConfig() if switches.config is None else read_yaml(TrainConfig, switches.config)
    config = parse_flags(
        TrainConfig, rest, prog="agentic-gym train", default=default, switches=SWITCHES
    )
    if switches.dry_run:
        preflight(config)
        return 0
    Pipeline(config, resume=switches.resume).run()
    return 0


TRAIN = Command("train", "train an agent: warm start, PPO, evaluation, report", run)
