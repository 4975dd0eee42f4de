"""verl's fully asynchronous trainer: its staleness curve, with a schedule that trains in parts as it does.

Given (verl's documentation, advance/fully_async): Qwen2.5-Math-7B, 64 + 64 H20, cap 28k, 512 prompts x 16
responses a step, trained in four parts (``trigger_parameter_sync_step=4``) with one publish after the last,
interrupted requests carried on, and for the row without staleness 98.77 s of training in a step of 231.34 s.
Assumed: lengths, and that 4.1 s of that step are neither training nor waiting for responses.
"""

from __future__ import annotations

import dataclasses

from paper_settings import H20, QWEN_7B, Found, Row, Setting, calibrate, lengths, machine

from agentic_gym.trainers.schedules import base
from agentic_gym.trainers.schedules.bounded_async import BoundedAsync, OnPublish

PARTS = 4
NEVER = 10**6
"""Updates of staleness: more than any run has, so that only the share of stale trajectories binds."""


class StreamedParts(BoundedAsync):
    """A step is trained in parts, each as soon as so much is finished, and published after the last.

    Between two publishes no more is launched than ``1 + fraction`` steps hold, what was still untrained at
    the first of them included. So with 0 nothing is stale.

    Args:
        batch_size: trajectories of a part.
        group_size: trajectories of one task, launched together.
        parts: of a step.
        fraction: the largest share of stale trajectories.
        max_concurrent: trajectories that run at once.
        on_publish: what becomes of requests that run: as for bounded_async.
    """

    def __init__(
        self,
        batch_size: int,
        group_size: int,
        *,
        parts: int,
        fraction: float,
        max_concurrent: int,
        on_publish: OnPublish = "interrupt",
    ):
        super().__init__(
            batch_size,
            group_size,
            max_staleness=NEVER,
            max_concurrent=max_concurrent,
            on_publish=on_publish,
        )
        self._parts = parts
        self._most = int((1 + fraction) * parts * self._wanted)
        self._limit = self._most  # the first group that waits for the next publish

    def handle(self, event: base.Event) -> list[base.Action]:
        """See :class:`~agentic_gym.trainers.schedules.base.Schedule`."""
        if isinstance(event, base.Trained):
            if event.version % self._parts:
                self._version = self._window.update = event.version
                return self._advance()
            self._limit = self._book.next_group + self._most - len(self._book.groups)
        return super().handle(event)

    def _num_launches(self) -> int:
        return max(0, min(super()._num_launches(), self._limit - self._book.next_group))


def step_seconds(
    setting: Setting, fraction: float = 0.0, on_publish: OnPublish = "interrupt"
) -> float:
    """Seconds from one publish to the next."""

    def make() -> StreamedParts:
        return StreamedParts(
            setting.batch,
            setting.group,
            parts=PARTS,
            fraction=fraction,
            max_concurrent=2 * PARTS * setting.batch,
            on_publish=on_publish,
        )

    return PARTS * setting.run(make).update_s["mean"]


def verl(quick: bool) -> Found:
    """Seconds a step by the share of stale trajectories (section 12)."""
    cluster = machine(
        H20,
        QWEN_7B,
        rollout=64,
        per_replica=1,
        train=64,
        train_seconds=98.77 / PARTS,
        train_seconds_per_token=0.0,
        transfer_seconds=4.1,
    )
    setting = Setting(
        cluster,
        lengths(28_672),
        512 * 16 // PARTS,
        16,
        updates=PARTS * (4 if quick else 8),
        warmup=PARTS * (2 if quick else 3),
    )
    setting = calibrate(setting, 231.34, measure=step_seconds, updates=2 * PARTS)
    first = dataclasses.replace(setting, updates=2 * PARTS, warmup=0)
    rows = [Row("0", 231.34, step_seconds(first), 0, True)]
    for fraction, seconds in ((0.1, 171.3), (0.3, 146.1), (0.5, 150.6)):
        rows.append(Row(f"{fraction:g}", seconds, step_seconds(setting, fraction), 0))
    kept = step_seconds(setting, 0.5, "keep_kv")
    rows.append(Row("0.5, and interrupted ones are not prefilled again", None, kept, 0))
    title = "verl fully async, 7B, 64 + 64 H20: seconds a step by stale share"
    return Found({title: rows}, [])
