"""Runs that never were: healthy ones from a seed, and with faults planted, to try rules on.

Everything goes through the real store, so that a rule is tried on what it will read. The noise is that of
real runs: figures scatter from update to update, tasks differ in difficulty, agents err and run out of
turns.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from agentic_gym.store import LaunchRecord, RunStore
from agentic_gym.trainers.diagnosis.settings import CONFIG_NAME
from agentic_gym.types import Outcome, TokenStream, Trajectory, Turn

_MAX_TURNS = 6
_PROMPT_TOKENS, _OBSERVATION_TOKENS = 60, 20
_LONG = 3
_EVAL_TASKS, _EVAL_SAMPLES = 40, 4
_CONFIG: Mapping[str, Any] = {
    "name": "synthetic",
    "env": {"id": "agentic_gym/SWE-v0", "max_turns": _MAX_TURNS, "goal_reminder_turns": 0},
    "rollout": {"concurrency": 32, "max_tokens_per_episode": 1792},
    "schedule": "sync",
    "credit": "turn_gae",
    "schedule_options": {},
}
_PPO: Mapping[str, Any] = {
    "learning_rate": 2e-4, "gamma": 1.0, "target_kl": 0.1, "entropy_coef": 0.0,
    "value_warmup_updates": 1, "ramp_updates": 0,
}  # fmt: skip

MetricFault = Callable[[int, float], float]
"""Given the update and the healthy value, what is measured instead."""
EpisodeFault = Callable[[int, Trajectory], Trajectory]
"""Given the update and a healthy episode, what is played instead."""


@dataclass(slots=True)
class SyntheticRun:
    """A run to be written.

    Attributes:
        seed: of all noise.
        updates: that it made.
        groups: of a batch, each of another task.
        group_size: episodes of a group.
        config: sections of its configuration (``{"ppo": {"gamma": 0.9}}``), over the usual ones.
        metrics: faults of metrics by name; one that a healthy run does not have starts from 0.
        episode: fault of the episodes that train, or None.
        rise: of the success of evaluations by training; None for no evaluations.
    """

    seed: int = 0
    updates: int = 8
    groups: int = 9
    group_size: int = 2
    config: Mapping[str, Mapping[str, Any] | str] = field(default_factory=dict)
    metrics: Mapping[str, MetricFault] = field(default_factory=dict)
    episode: EpisodeFault | None = None
    rise: float | None = 0.3

    def write(self, folder: Path) -> Path:
        """Writes configuration and store into a folder, which is returned."""
        rng = np.random.default_rng(self.seed)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / CONFIG_NAME).write_text(yaml.safe_dump(self._configuration()), encoding="utf-8")
        with RunStore(folder) as store, store.transaction():
            for update in range(1, self.updates + 1):
                batch = self._batch(update, rng)
                names = [t.trajectory_id for t in batch]
                store.launch(
                    [
                        LaunchRecord(t.trajectory_id, t.task_id, t.group_id, t.seed, update - 1)
                        for t in batch
                    ]
                )
                for t in batch:
                    store.finish(t)
                store.record_batch(update, names)
                store.mark_trained(update)
                store.log_metrics(update, self._measured(update, batch, rng))
            if self.rise is not None:
                for when, rate in (("before", 0.35), ("after", 0.35 + self.rise)):
                    store.record_eval(f"{when}/held_out/sampled", self._evaluation(rate, rng))
        return folder

    def _configuration(self) -> dict[str, Any]:
        sizes = {"updates": self.updates, "group_size": self.group_size}
        sizes["episodes_per_update"] = self.groups * self.group_size
        whole: dict[str, Any] = {**_CONFIG, "ppo": {**_PPO, **sizes}}
        for section, values in self.config.items():
            known = whole.get(section)
            merge = isinstance(known, dict) and isinstance(values, Mapping)
            whole[section] = {**known, **values} if merge else values  # type: ignore[dict-item]
        return whole

    # ---- episodes ------------------------------------------------------------------------------------

    def _batch(self, update: int, rng: np.random.Generator) -> list[Trajectory]:
        learned = 0.35 + 0.25 * update / self.updates
        batch = []
        for group in range(self.groups):
            ease = float(rng.beta(4 * learned, 4 * (1 - learned)))
            for member in range(self.group_size):
                name = f"u{update:03d}.g{group:02d}.{member}"
                t = _episode(name, f"task-{group}", ease, update - 1, rng)
                batch.append(t if self.episode is None else self.episode(update, t))
        return batch

    def _evaluation(self, rate: float, rng: np.random.Generator) -> list[Trajectory]:
        found = []
        for task in range(_EVAL_TASKS):
            ease = float(rng.beta(6 * rate, 6 * (1 - rate)))
            for sample in range(_EVAL_SAMPLES):
                outcome = Outcome.SOLVED if rng.random() < ease else Outcome.FAILED
                name = f"eval-{task}.{sample}"
                turn = Turn("submit", "", reward=float(outcome is Outcome.SOLVED))
                found.append(
                    Trajectory(
                        name, f"task-{task}", name, sample, "", (turn,), None, outcome, True, False
                    )
                )
        return found

    # ---- metrics -------------------------------------------------------------------------------------

    def _measured(
        self, update: int, batch: list[Trajectory], rng: np.random.Generator
    ) -> dict[str, float]:
        def near(middle: float, scatter: float = 0.25) -> float:
            return float(middle * math.exp(scatter * rng.standard_normal()))

        warming_up = update <= int(_PPO["value_warmup_updates"])
        seconds = [t.metrics["duration_s"] for t in batch]
        figures = {
            "policy_loss": float(rng.normal(0, 0.02)),
            "value_loss": near(0.1),
            "entropy": near(0.1, 0.2),
            "approx_kl": 0.0 if warming_up else near(0.002, 0.6),
            "clip_fraction": 0.0 if warming_up else near(0.01, 0.5),
            "ratio": float(rng.normal(1, 0.002)),
            "ess": 1 - near(0.01),
            "capped_fraction": near(0.003, 0.5),
            "grad_norm": 0.0 if warming_up else near(0.15, 0.3),
            "value_grad_norm": near(0.5, 0.5),
            "stopped_early": float(rng.random() < 0.05),
            "explained_variance": min(0.9, 0.04 * update + float(rng.normal(0.05, 0.03))),
            "value": float(rng.normal(0.2, 0.02)),
            "probability_mismatch": near(5e-7),
            "version_kl_0": near(1e-9),
            "staleness": 0.0,
            "publish_gap": near(1e-5, 0.5),
            "parked_share": near(0.01, 0.4),
            "kv_used_share": near(0.4, 0.15),
            "infra_errors": float(rng.poisson(0.1)),
            "trainer_idle_share": min(0.75, near(0.5, 0.15)),
            "engine_idle_share": min(0.55, near(0.4, 0.15)),
            "episode_s_p50": float(np.median(seconds)),
            "queue_wait_s_p50": near(0.2),
            "reward": float(np.mean([t.reward for t in batch])),
            "late_credit_share": _late_share(batch),
            "trajectories": float(len(batch)),
            "sampled_tokens": float(sum(_sampled(t) for t in batch)),
        }
        for name, fault in self.metrics.items():
            figures[name] = fault(update, figures.get(name, 0.0))
        return figures


def _late_share(batch: list[Trajectory]) -> float:
    """As the trainer measures it, where no assigner moves what was earned."""
    paid = [[abs(turn.reward) for turn in t.turns] for t in batch if len(t.turns) >= _LONG]
    return sum(rewards[-1] for rewards in paid) / max(sum(map(sum, paid)), 1e-9)


def _sampled(trajectory: Trajectory) -> int:
    return 0 if trajectory.tokens is None else int(trajectory.tokens.sampled.sum())


def _episode(
    name: str, task: str, ease: float, version: int, rng: np.random.Generator
) -> Trajectory:
    """One that edits until the visible tests pass and then submits, with mistakes."""
    path = f"module_{task[5:]}.py"
    solved = bool(rng.random() < ease)
    submits = solved or rng.random() < 0.3
    count = int(rng.integers(2, _MAX_TURNS + 1)) if submits else _MAX_TURNS
    turns: list[Turn] = []
    counts = rng.integers(15, 60, count)
    clock = 0.0
    for number in range(count):
        last = submits and number == count - 1
        generate_s = float(0.05 + 0.01 * counts[number] * math.exp(0.2 * rng.standard_normal()))
        turn = _submit(solved) if last else _edit(path, number, turns, rng)
        turns.append(_timed(turn, generate_s, float(rng.exponential(0.1)), clock))
        clock += generate_s + turns[-1].step_s
    if not submits:
        reason = "tokens" if rng.random() < 0.1 else f"turn limit of {_MAX_TURNS}"
        facts = {**turns[-1].info, "truncation_reason": reason}
        turns[-1] = _timed(
            turns[-1], turns[-1].generate_s, turns[-1].step_s, turns[-1].began_s, facts
        )
    outcome = Outcome.SOLVED if solved else Outcome.FAILED if submits else Outcome.TRUNCATED
    rest = float(rng.exponential(0.2))
    return Trajectory(
        trajectory_id=name,
        task_id=task,
        group_id=name.rpartition(".")[0],
        seed=0,
        prompt=f"{path}\ndef count_{task[5:]}(values): return len(values) + 1\n1 failed",
        turns=tuple(turns),
        tokens=_stream(counts, version, rng),
        outcome=outcome,
        terminated=submits,
        truncated=not submits,
        metrics={"duration_s": clock + rest, "paused_s": 0.0},
    )


def call(tool: str, **arguments: Any) -> str:
    """An action: one call of a tool, as a model writes it."""
    body = json.dumps({"name": tool, "arguments": arguments})
    return f"<tool_call>\n{body}\n</tool_call>"


def _submit(solved: bool) -> Turn:
    facts: dict[str, Any] = {
        "tools": ["submit"],
        "mishap": None,
        "grade": {"outcome": "solved" if solved else "failed", "tampered": []},
    }
    return Turn(call("submit"), "", 0.99 if solved else -0.01, info=facts)


def _edit(path: str, number: int, before: list[Turn], rng: np.random.Generator) -> Turn:
    chance = rng.random()
    if before and chance < 0.05:
        return before[-1]
    if chance < 0.15:
        return Turn("I look at it first.", "has no tool call", -0.01, info={"mishap": "no_call"})
    if chance < 0.3:
        text = call("edit_lines", path=path, start=int(rng.integers(90, 99)), text="x")
        refused = {"tools": ["edit_lines"], "mishap": "refused"}
        return Turn(text, "Error: there is no such line", -0.01, info=refused)
    text = call("edit_lines", path=path, start=1, text=f"return len(values) - {number}")
    passed = int(rng.integers(5, 11))
    facts: dict[str, Any] = {
        "tools": ["edit_lines"], "mishap": None, "tests_passed": passed, "tests_total": 10,
    }  # fmt: skip
    return Turn(
        text, f"{passed} passed, attempt {number}", float(rng.uniform(-0.05, 0.15)), info=facts
    )


def _timed(
    turn: Turn,
    generate_s: float,
    step_s: float,
    began_s: float,
    info: Mapping[str, Any] | None = None,
) -> Turn:
    return Turn(
        turn.action,
        turn.observation,
        turn.reward,
        turn.finish_reason,
        generate_s,
        step_s,
        turn.info if info is None else info,
        began_s,
    )


def _stream(counts: Any, version: int, rng: np.random.Generator) -> TokenStream:
    turns, sampled = [np.full(_PROMPT_TOKENS, -1)], [np.zeros(_PROMPT_TOKENS, bool)]
    for number, count in enumerate(counts):
        turns.append(np.full(count + _OBSERVATION_TOKENS, number))
        sampled.append(np.arange(count + _OBSERVATION_TOKENS) < count)
    mask = np.concatenate(sampled)
    return TokenStream(
        ids=rng.integers(0, 64, len(mask)).astype(np.int32),
        sampled=mask,
        logprobs=np.where(mask, -1.0, 0.0).astype(np.float32),
        versions=np.where(mask, version, -1).astype(np.int32),
        turns=np.concatenate(turns).astype(np.int32),
    )
