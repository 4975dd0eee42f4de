"""Everything that the rules read of a run, gathered from its store and its folder."""

from __future__ import annotations

import math
import os
import re
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from agentic_gym.evaluation import success_by_task
from agentic_gym.metrics import Interval, paired_difference
from agentic_gym.store import LedgerCounts, RunStore
from agentic_gym.trainers.diagnosis.episodes import figures
from agentic_gym.trainers.diagnosis.findings import Points
from agentic_gym.trainers.diagnosis.settings import Settings, read_settings

_SAVED = re.compile(r"nonfinite-update-(\d+)\.npz")
_ARRAYS = {
    "rewards": "a reward",
    "behaviour": "a log-probability of the engine (behaviour)",
    "proximal": "a log-probability of the trainer before the update (proximal)",
    "reference": "a log-probability of the reference policy",
    "values": "a prediction of the value head",
    "advantages": "an advantage",
    "returns": "a return",
}
"""Arrays of the saved batch, in the order in which an update computes them."""


@dataclass(frozen=True, slots=True)
class NonFinite:
    """A batch that stopped a run.

    Attributes:
        update: that could not be made.
        problem: what was NaN or infinite, in words.
        count: of its numbers; 0 where the batch itself is finite and the update was not.
        whose: first trajectory that has one, or "".
        path: of the archive.
    """

    update: int
    problem: str
    count: int
    whose: str
    path: Path


@dataclass(frozen=True, slots=True)
class EvalChange:
    """The same tasks before and after training: success after minus before, with its interval."""

    name: str
    difference: Interval


@dataclass(frozen=True, slots=True)
class RunFacts:
    """What is known of a run.

    Attributes:
        name: of the run.
        series: metrics of the store by their names, figures of the batches as ``batch.<name>``, and the share
            of an update that the trainer waited as ``update.wait_share``.
        updates: that were trained.
        settings: of its configuration.
        counts: of the ledger.
        changes: of evaluations.
        nonfinite: saved batches that stopped the run, oldest first.
    """

    name: str
    series: Mapping[str, Points]
    updates: int = 0
    settings: Settings = field(default_factory=Settings)
    counts: LedgerCounts = field(default_factory=LedgerCounts)
    changes: Sequence[EvalChange] = ()
    nonfinite: Sequence[NonFinite] = ()

    def points(self, name: str) -> Points:
        """A series; empty where the run does not have it."""
        return self.series.get(name, ())

    def after(self, name: str, update: int) -> Points:
        """A series without its first updates."""
        return [(step, value) for step, value in self.points(name) if step > update]

    @property
    def by_groups(self) -> bool:
        """Advantages are differences within groups; there is no value head at work."""
        kind = self.settings.estimator
        if kind is not None:
            return kind in ("group", "gigpo")
        return "value" in self.series and not any(value for _, value in self.points("value"))

    @property
    def warm_up(self) -> int:
        """First updates, which train the value head alone."""
        if self.by_groups:
            return 0
        return int(self.settings.number("ppo.value_warmup_updates", 0.0) or 0)


def gather(run: str | os.PathLike[str]) -> RunFacts:
    """Reads a run; nothing is written.

    Args:
        run: its folder, or its ``run.sqlite`` alone.

    Raises:
        StoreError: there is no readable store.
        ConfigError: there is a configuration that cannot be read.
    """
    path = Path(run)
    folder = path.parent if path.suffix == ".sqlite" else path
    with RunStore(path, readonly=True) as store:
        series: dict[str, Points] = {name: store.metrics(name) for name in store.metric_names()}
        batches = store.batches_after(0)
        series |= _batch_series(store, batches)
        facts = RunFacts(
            name=str(store.get_state("name", folder.resolve().name)),
            series=series | _wait_share(series),
            updates=len(series.get("policy_loss", ())) or len(batches),
            settings=read_settings(folder),
            counts=store.counts(),
            changes=_changes(store),
            nonfinite=_saved(folder),
        )
    return facts


def _batch_series(
    store: RunStore, batches: Sequence[tuple[int, list[str]]]
) -> dict[str, list[tuple[int, float]]]:
    series: dict[str, list[tuple[int, float]]] = {}
    for update, names in batches:  # one batch at a time: a run may be larger than memory
        for name, value in figures(store.trajectories(names)).items():
            series.setdefault(name, []).append((update, value))
    return series


def _wait_share(series: Mapping[str, Points]) -> dict[str, Points]:
    """Share of each update that the trainer waited for its batch."""
    if "trainer_idle_share" in series:
        return {"update.wait_share": series["trainer_idle_share"]}
    parts = [dict(points) for name, points in series.items() if name.startswith("time_")]
    shares = []
    for update, waited in series.get("time_batch_s", ()):
        total = sum(part.get(update, 0.0) for part in parts)
        if total > 0 and math.isfinite(total):
            shares.append((update, waited / total))
    return {"update.wait_share": shares} if shares else {}


def _changes(store: RunStore) -> tuple[EvalChange, ...]:
    names = store.evals()
    found = []
    for name in names:
        when, _, rest = name.partition("/")
        if when == "before" and f"after/{rest}" in names:
            sides = (store.eval_trajectories(f"{side}/{rest}") for side in ("before", "after"))
            before, after = (success_by_task(side) for side in sides)
            found.append(EvalChange(rest, paired_difference(before, after)))
    return tuple(found)


def _saved(folder: Path) -> tuple[NonFinite, ...]:
    """Batches that the trainer saved when it stopped, in the run folder or in its checkpoints'."""
    paths = [*folder.glob("nonfinite-update-*.npz"), *folder.glob("*/nonfinite-update-*.npz")]
    found = [_inspect(path, int(match[1])) for path in paths if (match := _SAVED.match(path.name))]
    return tuple(sorted(found, key=lambda saved: saved.update))


def _inspect(path: Path, update: int) -> NonFinite:
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            for name, words in _ARRAYS.items():
                bad = np.flatnonzero(~np.isfinite(archive[name]))
                if not len(bad):
                    continue
                row = int(bad[0])
                if name != "rewards":
                    row = int(np.searchsorted(np.cumsum(archive["counts"]), row, side="right"))
                whose = str(archive["trajectory_ids"][row])
                return NonFinite(update, f"{words} is not finite", len(bad), whose, path)
            told = str(archive["problem"]) if "problem" in archive else ""
    except (OSError, ValueError, KeyError, IndexError, EOFError, zipfile.BadZipFile):
        return NonFinite(update, "the archive is damaged and does not say what", 0, "", path)
    # Everything that went in is finite: it came up in the forward or backward pass.
    return NonFinite(update, told or "a loss or a gradient is not finite", 0, "", path)
