"""What the report shows, gathered from the store alone.

Evaluations are told apart by their names: ``before/<tasks>/<style>`` and ``after/<tasks>/<style>`` are two
sides of one comparison, ``baseline/<tasks>/<agent>`` stands beside them, and any other name is shown as
it is.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from markupsafe import Markup

from agentic_gym.evaluation import EvalResult, success_by_task, summarise
from agentic_gym.metrics import Interval, paired_difference, percentiles
from agentic_gym.report.credit import CreditFacts, gather_credit
from agentic_gym.report.rounds import draw_round
from agentic_gym.store import LedgerCounts, RunStore
from agentic_gym.types import Outcome, Trajectory

Points = list[tuple[int, float]]

CURVES: dict[str, dict[str, str]] = {
    "Episodes solved, of the batch": {"outcome_solved": ""},
    "Return": {"reward": ""},
    "Turns of an episode": {"turns": ""},
    "Entropy of the policy, nats a token": {"entropy": ""},
    "KL from the policy before the update": {"approx_kl": ""},
    "Staleness, versions": {"staleness": "mean", "staleness_max": "max"},
    "Clipped tokens, share": {"clip_fraction": ""},
    "Policy loss": {"policy_loss": ""},
    "Value loss": {"value_loss": ""},
    "Explained variance of the value head": {"explained_variance": ""},
    "Gradient norm": {"grad_norm": ""},
    "Credit of the last turn, share in long episodes": {"late_credit_share": ""},
    "Engine against trainer, mean |Δp|": {"probability_mismatch": ""},
    "Idle, share of time": {"trainer_idle_share": "trainer", "engine_idle_share": "engine"},
    "Parked, share of the episodes' time": {"parked_share": ""},
    "Seconds of an episode": {
        "episode_s_p50": "P50",
        "episode_s_p90": "P90",
        "episode_s_p99": "P99",
    },
    "Seconds in the queue": {
        "queue_wait_s_p50": "P50",
        "queue_wait_s_p90": "P90",
        "queue_wait_s_p99": "P99",
    },
    "Seconds of loading and comparing weights": {"publish_s": ""},
    "Infrastructure errors while a batch was played, episodes": {"infra_errors": ""},
    "Warm start, loss": {"warm_start/loss": ""},
    "Warm start, accuracy": {"warm_start/accuracy": ""},
}
"""Charts by title: metric name to the name of its line."""

TIME_PREFIX = "time_"


@dataclass(frozen=True, slots=True)
class Row:
    """One agent on one set of tasks: ``kind`` is before, after, baseline or other."""

    label: str
    kind: str
    result: EvalResult


@dataclass(frozen=True, slots=True)
class Rise:
    """What training changed on one set of tasks, in one style of sampling."""

    style: str
    difference: Interval


@dataclass(frozen=True, slots=True)
class ErrorClass:
    """Outcomes on the tasks of one error class; ``difference`` is None without a "before"."""

    name: str
    outcomes: dict[str, int]
    result: EvalResult
    difference: Interval | None


@dataclass(frozen=True, slots=True)
class TaskSet:
    """Everything evaluated on one set of tasks.

    Attributes:
        name: of the set.
        rows: agents, from before training to the baselines.
        rises: paired differences, where both sides were evaluated.
        classes: outcomes by error class of ``classes_of``.
        classes_of: label of the row that ``classes`` belongs to.
    """

    name: str
    rows: tuple[Row, ...]
    rises: tuple[Rise, ...]
    classes: tuple[ErrorClass, ...] = ()
    classes_of: str = ""


@dataclass(frozen=True, slots=True)
class Sample:
    """Trajectories to read, out of how many."""

    trajectories: tuple[Trajectory, ...] = ()
    total: int = 0


@dataclass(frozen=True, slots=True)
class Stock:
    """What was trained against what there is, of one error class or repository.

    Attributes:
        name: of it.
        available: share of the tasks.
        tasks: their number.
        trained: share of the groups that were trained.
        groups: their number.
        quota: share that it is due; None where nothing is.
        starving: it was trained far less than that of late.
    """

    name: str
    available: float
    tasks: int
    trained: float
    groups: int
    quota: float | None
    starving: bool


@dataclass(frozen=True, slots=True)
class Facts:
    """Everything on the page.

    Attributes:
        counts: of the ledger.
        task_sets: evaluations.
        curves: charts of training, by title: (step, value) by name of the line.
        other_metrics: every further metric, one line each.
        phase_s: seconds by phase of the run.
        update_s: mean seconds of an update by part.
        episode_s: label, number of episodes, and P50, P90, P99 of their seconds.
        sample: trajectories to read.
        last_round: picture of when the episodes of the last batch ran, if that is known.
        credit: of some episodes that were trained, if it was kept.
        selection: what was trained against what there is, by axis.
    """

    counts: LedgerCounts
    task_sets: tuple[TaskSet, ...]
    curves: dict[str, dict[str, Points]]
    other_metrics: dict[str, Points]
    phase_s: dict[str, float]
    update_s: dict[str, float]
    episode_s: tuple[tuple[str, int, dict[str, float]], ...]
    sample: Sample = field(default_factory=Sample)
    last_round: Markup | None = None
    credit: CreditFacts | None = None
    selection: dict[str, tuple[Stock, ...]] = field(default_factory=dict)


def gather(store: RunStore, *, max_trajectories: int = 40, credit_of: Sequence[str] = ()) -> Facts:
    """Reads a run.

    Args:
        store: of the run.
        max_trajectories: most that are shown turn by turn.
        credit_of: ids of trained trajectories whose credit is shown, beside some of the last batch.

    Raises:
        StoreError: the credit of one of them was not kept.
    """
    evals = {name: store.eval_trajectories(name) for name in store.evals()}
    metrics = {name: store.metrics(name) for name in store.metric_names()}
    curves = {
        title: {line: metrics[name] for name, line in lines.items() if name in metrics}
        for title, lines in CURVES.items()
    }
    charted = {name for lines in CURVES.values() for name in lines}
    timed = {name for name in metrics if name.startswith(TIME_PREFIX)}
    played = {name: _durations(ts) for name, ts in evals.items()}
    played["training"] = _durations(store.finished())
    return Facts(
        counts=store.counts(),
        task_sets=tuple(_task_set(name, group) for name, group in group_evals(evals).items()),
        curves={title: lines for title, lines in curves.items() if lines},
        other_metrics={
            name: points for name, points in metrics.items() if name not in charted | timed
        },
        phase_s=dict(store.get_state("phase_s", {})),
        update_s={
            name.removeprefix(TIME_PREFIX).removesuffix("_s"): _mean(metrics[name])
            for name in sorted(timed)
        },
        episode_s=tuple((name, len(ts), percentiles(ts)) for name, ts in played.items() if ts),
        sample=pick_sample(evals, max_trajectories),
        last_round=_last_round(store),
        credit=gather_credit(store, credit_of),
        selection={
            axis: stock(parts)
            for axis, parts in store.get_state("selection_summary", {}).items()
            if parts
        },
    )


def stock(parts: Mapping[str, Mapping[str, float]]) -> tuple[Stock, ...]:
    """Rows of one axis, those with the most tasks first.

    Args:
        parts: by name ``available`` tasks and ``trained`` groups, perhaps ``quota`` and ``starving``.
    """
    tasks = sum(part["available"] for part in parts.values())
    groups = sum(part["trained"] for part in parts.values())
    rows = (
        Stock(
            name=name,
            available=part["available"] / max(tasks, 1),
            tasks=int(part["available"]),
            trained=part["trained"] / max(groups, 1),
            groups=int(part["trained"]),
            quota=part.get("quota"),
            starving=bool(part.get("starving", 0)),
        )
        for name, part in parts.items()
    )
    return tuple(sorted(rows, key=lambda row: (-row.tasks, row.name)))


def _last_round(store: RunStore) -> Markup | None:
    batches = store.batches_after(0)
    if not batches:
        return None
    update, names = batches[-1]
    return draw_round(
        store.trajectories(names), title=f"The {len(names)} episodes of update {update}"
    )


def group_evals(
    evals: dict[str, list[Trajectory]],
) -> dict[str, dict[tuple[str, str], list[Trajectory]]]:
    """Evaluations by task set, then by (kind, style or agent)."""
    groups: dict[str, dict[tuple[str, str], list[Trajectory]]] = defaultdict(dict)
    for name, trajectories in evals.items():
        kind, _, rest = name.partition("/")
        tasks, _, style = rest.partition("/")
        if kind in {"before", "after", "baseline"} and tasks:
            groups[tasks][kind, style] = trajectories
        else:
            groups["evaluations"]["other", name] = trajectories
    return dict(groups)


def pick_sample(evals: dict[str, list[Trajectory]], most: int) -> Sample:
    """Trajectories worth reading: of the trained policy where there is one, half of them solved.

    Outcomes, error classes and tasks take turns, so that no kind fills the page.
    """
    after = [ts for name, ts in evals.items() if name.startswith("after/")]
    rest = [ts for name, ts in evals.items() if not name.startswith(("after/", "before/"))]
    pool = [t for ts in (after or rest or evals.values()) for t in ts]
    solved = _take_turns(t for t in pool if t.outcome is Outcome.SOLVED)
    others = _take_turns(t for t in pool if t.outcome is not Outcome.SOLVED)
    num_solved = max(most // 2, most - len(others))
    chosen = solved[:num_solved]
    chosen += others[: most - len(chosen)]
    return Sample(tuple(chosen), len(pool))


def _take_turns(trajectories: Iterable[Trajectory]) -> list[Trajectory]:
    """Reorders so that (outcome, error class) take turns, and within each the tasks."""
    kinds: dict[tuple[str, str], list[tuple[int, Trajectory]]] = defaultdict(list)
    seen: dict[str, int] = defaultdict(int)
    for t in trajectories:
        kinds[t.outcome.value, t.tags.get("error_class", "")].append((seen[t.task_id], t))
        seen[t.task_id] += 1
    ranked = [
        (rank, kind, t)
        for kind, items in kinds.items()
        for rank, (_, t) in enumerate(sorted(items, key=lambda item: item[0]))
    ]
    return [t for _, _, t in sorted(ranked, key=lambda item: item[:2])]


def _task_set(name: str, group: dict[tuple[str, str], list[Trajectory]]) -> TaskSet:
    styles = list(dict.fromkeys(style for _, style in group))
    sides = {"before": 0, "after": 1, "other": 2, "baseline": 3}
    # Both sides of a comparison stand together; what is beside them comes last.
    order = sorted(group, key=lambda key: (sides[key[0]] // 2, styles.index(key[1]), sides[key[0]]))
    rises = [
        Rise(
            style,
            paired_difference(success_by_task(before), success_by_task(group["after", style])),
        )
        for (kind, style), before in group.items()
        if kind == "before" and ("after", style) in group
    ]
    shown = next(
        (key for kind in ("after", "other", "before") for key in order if key[0] == kind), None
    )
    return TaskSet(
        name=name,
        rows=tuple(Row(_label(*key), key[0], summarise(group[key], axes=())) for key in order),
        rises=tuple(rises),
        classes=() if shown is None else _classes(group[shown], group.get(("before", shown[1]))),
        classes_of="" if shown is None else _label(*shown),
    )


def _classes(
    trajectories: Sequence[Trajectory], before: Sequence[Trajectory] | None
) -> tuple[ErrorClass, ...]:
    by_class: dict[str, list[Trajectory]] = defaultdict(list)
    for t in trajectories:
        if "error_class" in t.tags:
            by_class[t.tags["error_class"]].append(t)
    found = []
    for name, part in sorted(by_class.items()):
        result = summarise(part, axes=())
        difference = None
        if before is not None and before is not trajectories:
            earlier = [t for t in before if t.tags.get("error_class") == name]
            difference = paired_difference(success_by_task(earlier), success_by_task(part))
        found.append(ErrorClass(name, dict(result.outcomes), result, difference))
    return tuple(found)


def _durations(trajectories: Iterable[Trajectory]) -> list[float]:
    return [t.metrics["duration_s"] for t in trajectories if "duration_s" in t.metrics]


def _label(kind: str, style: str) -> str:
    return style if kind in {"baseline", "other"} else f"{kind}, {style}" if style else kind


def _mean(points: Points) -> float:
    return sum(value for _, value in points) / max(1, len(points))
