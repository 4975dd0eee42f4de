"""Evaluation: how often does an agent solve tasks, and how sure is that?

A success rate never comes without its interval, clustered by task. ``infra_error`` says nothing about the
agent: such episodes stand outside the denominator, and are always counted beside it.
"""

from __future__ import annotations

import copy
import dataclasses
import inspect
import io
import json
import math
import zlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agentic_gym.agent import Agent, PolicyAgent
from agentic_gym.env_thread import EnvFactory
from agentic_gym.errors import ConfigError
from agentic_gym.metrics import (
    Interval,
    cluster_mean,
    mean_pass_at_k,
    paired_difference,
    percentiles,
)
from agentic_gym.registration import make
from agentic_gym.rollout import Launch, Rollout
from agentic_gym.store import RunStore
from agentic_gym.types import Outcome, Trajectory

if TYPE_CHECKING:
    from rich.table import Table

AXES = ("error_class", "repo", "split")
"""Tags by which results are broken down, where trajectories have them."""

MAX_CAUSES = 10
"""How many causes of infra errors are shown for an agent."""
_COUNTED_IN_TABLES = ("failed", "truncated", "suspected_hack", "infra_error")

AgentFactory = Callable[[Launch], Agent]


@dataclass(frozen=True, slots=True)
class Share:
    """Success within one part of the tasks.

    Attributes:
        solved: episodes solved.
        counted: episodes in the denominator.
        success: their share, with its interval clustered by task.
    """

    solved: int
    counted: int
    success: Interval


@dataclass(frozen=True, slots=True)
class EvalResult:
    """What an evaluation found.

    Attributes:
        num_tasks: different tasks.
        num_episodes: all episodes.
        counted: episodes in the denominator: all but ``infra_error``.
        success: share of counted episodes solved, with its 95 % interval clustered by task.
        pass_at: unbiased pass@k by k, over tasks with at least k counted samples.
        outcomes: episodes by outcome, all five named.
        by: success by tag (error class, repository, split) and value.
        episode_s: P50, P90 and P99 of the wall time of an episode.
        turns: mean, P50 and P90 turns of an episode.
        tokens: mean tokens sampled by the policy in an episode; None if the agent is no token model.
        reward: mean return of counted episodes.
        errors: what broke, bugs of environment and agent among it, by the line that names the error.
    """

    num_tasks: int
    num_episodes: int
    counted: int
    success: Interval
    pass_at: Mapping[int, float]
    outcomes: Mapping[str, int]
    by: Mapping[str, Mapping[str, Share]]
    episode_s: Mapping[str, float]
    turns: Mapping[str, float]
    tokens: float | None
    reward: float
    errors: Mapping[str, int]

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain JSON-able values; a NaN becomes None."""
        return dict(_plain(dataclasses.asdict(self)))

    def to_json(self) -> str:
        """:meth:`to_dict` as JSON text."""
        return json.dumps(self.to_dict(), indent=2)

    def render(self, title: str = "") -> str:
        """A text table, with the parts and the causes of infra errors below it."""
        parts = [_parts_table(*item) for item in self.by.items()]
        return _text(results_table({title: self}), *parts, *causes_tables({title: self}))


def summarise(trajectories: Iterable[Trajectory], *, axes: Sequence[str] = AXES) -> EvalResult:
    """Turns trajectories into a result.

    Args:
        trajectories: finished episodes, several a task or one.
        axes: tags to break the success rate down by.
    """
    episodes = list(trajectories)
    counted = [t for t in episodes if t.outcome is not Outcome.INFRA_ERROR]
    by_task = success_by_task(episodes)
    counts = [(len(values), round(sum(values))) for values in by_task.values()]
    most = max((samples for samples, _ in counts), default=0)
    ks = [2**power for power in range(most.bit_length())]
    outcomes = Counter(t.outcome for t in episodes)
    sampled = [int(t.tokens.sampled.sum()) for t in counted if t.tokens is not None]
    turns = [len(t.turns) for t in counted]
    times = [t.metrics["duration_s"] for t in episodes if "duration_s" in t.metrics]
    broken = [t for t in episodes if t.outcome is Outcome.INFRA_ERROR]
    return EvalResult(
        num_tasks=len({t.task_id for t in episodes}),
        num_episodes=len(episodes),
        counted=len(counted),
        success=cluster_mean(by_task),
        pass_at={k: mean_pass_at_k(counts, k) for k in ks},
        outcomes={outcome.value: outcomes[outcome] for outcome in Outcome},
        by={axis: _parts(axis, counted) for axis in axes if any(axis in t.tags for t in counted)},
        episode_s=percentiles(times),
        turns={"mean": _mean(turns), **percentiles(turns, (50, 90))},
        tokens=_mean(sampled) if sampled else None,
        reward=_mean([t.reward for t in counted]),
        errors=dict(Counter(_first_line(t.error) for t in broken)),
    )


def success_by_task(trajectories: Iterable[Trajectory]) -> dict[str, list[float]]:
    """1 for each solved and 0 for each other counted episode, by task; ``infra_error`` is left out."""
    by_task: dict[str, list[float]] = defaultdict(list)
    for t in trajectories:
        if t.outcome is not Outcome.INFRA_ERROR:
            by_task[t.task_id].append(float(t.outcome is Outcome.SOLVED))
    return dict(by_task)


def success_difference(before: Iterable[Trajectory], after: Iterable[Trajectory]) -> Interval:
    """Rise of the success rate on the tasks of both, with its 95 % interval paired by task."""
    return paired_difference(success_by_task(before), success_by_task(after))


def make_launches(
    task_ids: Sequence[str] | None = None,
    *,
    episodes: int | None = None,
    samples_per_task: int = 1,
    seed: int = 0,
    name: str = "eval",
) -> list[Launch]:
    """What to play for an evaluation.

    The seed of a sample depends on ``seed``, task and sample number alone: adding or reordering tasks
    leaves the other episodes as they were.

    Args:
        task_ids: tasks, each passed to ``env.reset`` as ``options["task_id"]``.
        episodes: for environments without tasks: as many episodes, each a task of its own.
        samples_per_task: episodes a task.
        seed: of the evaluation.
        name: first part of the trajectory ids.

    Raises:
        ConfigError: neither or both of ``task_ids`` and ``episodes``, a task twice, or nothing to play.
    """
    if (task_ids is None) == (episodes is None):
        raise ConfigError("give either task_ids or episodes (for environments without tasks)")
    if samples_per_task < 1:
        raise ConfigError(f"samples_per_task={samples_per_task} must be at least 1")
    if task_ids is None:
        if samples_per_task != 1:
            raise ConfigError("samples_per_task needs task_ids: an episode by seed has one sample")
        names = [f"episode-{number}" for number in range(episodes or 0)]
    else:
        names = list(task_ids)
    if not names:
        raise ConfigError("there is nothing to evaluate: no task and no episode is given")
    twice = [task for task, count in Counter(names).items() if count > 1]
    if twice:
        raise ConfigError(f"{twice[0]!r} is among the tasks twice: use samples_per_task")
    return [
        Launch(
            trajectory_id=f"{name}/{task}/{sample}",
            task_id=task,
            group_id=f"{name}/{task}",
            seed=zlib.crc32(f"{seed}/{task}/{sample}".encode("utf-8", "surrogatepass")) >> 1,
            options={} if task_ids is None else {"task_id": task},
        )
        for task in names
        for sample in range(samples_per_task)
    ]


def evaluate(
    env: str | EnvFactory,
    agent: Any = None,
    *,
    agent_factory: AgentFactory | None = None,
    task_ids: Sequence[str] | None = None,
    episodes: int | None = None,
    samples_per_task: int = 1,
    concurrency: int = 16,
    seed: int = 0,
    episode_limit_s: float | None = 600.0,
    store: RunStore | None = None,
    name: str = "eval",
    progress: bool = True,
) -> EvalResult:
    """Plays episodes and summarises them.

    An exception of the environment's or the agent's code ends its episode alone, as an ``infra_error``
    whose cause is in ``errors`` of the result; only a ``UserError`` comes out.

    Args:
        env: an environment's id, or a function that makes one.
        agent: a policy: a function ``observation -> action`` (or ``observation, info -> action``), or an
            object with ``act`` and perhaps ``reset``. An object (also that of a bound method) is copied,
            and a class is made anew, for each episode: they run at once.
        agent_factory: instead of ``agent``, makes the agent of an episode (a language model, for
            instance).
        task_ids: which tasks; see :func:`make_launches`.
        episodes: how many, for environments without tasks.
        samples_per_task: episodes a task.
        concurrency: episodes at once.
        seed: of the evaluation.
        episode_limit_s: wall-clock budget of an episode; None: none.
        store: keeps the trajectories under ``name``.
        name: of the evaluation.
        progress: show a bar on standard error.

    Raises:
        ConfigError: see :func:`make_launches`; or neither or both of ``agent`` and ``agent_factory``.
        RegistrationError: the id is unknown.
    """
    if (agent is None) == (agent_factory is None):
        raise ConfigError("give either an agent or an agent_factory")
    launches = make_launches(
        task_ids, episodes=episodes, samples_per_task=samples_per_task, seed=seed, name=name
    )
    with Rollout(
        (lambda: make(env)) if isinstance(env, str) else env,
        agent_factory or policy_factory(agent),
        concurrency=min(concurrency, len(launches)),
        episode_limit_s=episode_limit_s,
    ) as rollout:
        trajectories = rollout.collect(launches, progress=progress, description=name)
    if store is not None:
        store.record_eval(name, trajectories)
    return summarise(trajectories)


def policy_factory(policy: Any) -> AgentFactory:
    """Agents for many episodes at once from one policy; see ``agent`` of :func:`evaluate`."""
    if isinstance(policy, type):
        return lambda launch: PolicyAgent(policy())
    if inspect.ismethod(policy):  # its object has a state, and is copied with it
        return lambda launch: PolicyAgent(_with_info(copy.deepcopy(policy)))
    if inspect.isroutine(policy):
        act = _with_info(policy)
        return lambda launch: PolicyAgent(act)
    return lambda launch: PolicyAgent(copy.deepcopy(policy))


def results_table(results: Mapping[str, EvalResult]) -> Table:
    """One row an agent, for comparison side by side; "-" where no episode counts."""
    # pass@1 says nothing beside a larger k, but no agent is left without any.
    ks = sorted({k for r in results.values() for k in [k for k in r.pass_at if k > 1] or [1]})
    heads = ["agent", "tasks", "episodes", "success", *(f"pass@{k}" for k in ks)]
    heads += ["failed", "truncated", "hack?", "infra", "turns", "P50 s", "P90 s"]
    rows = [
        (
            name,
            f"{result.num_tasks}",
            f"{result.counted}",
            percent(result.success),
            *(_number(100 * result.pass_at.get(k, math.nan), ".1f") for k in ks),
            *(f"{result.outcomes[outcome]}" for outcome in _COUNTED_IN_TABLES),
            _number(result.turns["mean"], ".1f"),
            *(_number(result.episode_s[level], ".2f") for level in ("p50", "p90")),
        )
        for name, result in results.items()
    ]
    return _table(heads, rows, title="Success rate, with 95 % interval clustered by task")


def causes_tables(results: Mapping[str, EvalResult]) -> list[Table]:
    """A table of what broke in the episodes of each agent, most frequent first; none if nothing did."""
    rows = []
    for name, result in results.items():
        causes = Counter(result.errors).most_common()
        rows += [(name, f"{count}", cause) for cause, count in causes[:MAX_CAUSES]]
        if rest := causes[MAX_CAUSES:]:
            rows.append((name, f"{sum(n for _, n in rest)}", f"({len(rest)} other causes)"))
    heads = ("agent", "episodes", "cause")
    return [_table(heads, rows, title="Infra errors, outside the success rate")] if rows else []


def percent(interval: Interval, *, signed: bool = False) -> str:
    """An interval in percent, for instance ``45.7 [40.3, 51.1]``; "-" if there is none."""
    if math.isnan(interval.value):
        return "-"
    sign = "+" if signed else ""
    low, high = 100 * interval.low, 100 * interval.high
    return f"{100 * interval.value:{sign}.1f} [{low:{sign}.1f}, {high:{sign}.1f}]"


def _number(value: float, form: str) -> str:
    return "-" if math.isnan(value) else f"{value:{form}}"


def _parts_table(axis: str, parts: Mapping[str, Share]) -> Table:
    rows = [
        (value, f"{p.solved}", f"{p.counted}", percent(p.success)) for value, p in parts.items()
    ]
    return _table((axis, "solved", "episodes", "success"), rows)


def _table(
    heads: Sequence[str], rows: Iterable[Sequence[str]], *, title: str | None = None
) -> Table:
    """A table whose words fold and whose numbers stay whole, with nothing that a terminal would obey."""
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title)
    for head in heads:
        word = head in {heads[0], "cause"}
        table.add_column(
            head, justify="left" if word else "right", no_wrap=not word, overflow="fold"
        )
    for row in rows:
        table.add_row(*(Text("".join(c if c.isprintable() else " " for c in cell)) for cell in row))
    return table


def _text(*tables: Table) -> str:
    from rich.console import Console

    written = io.StringIO()
    Console(file=written, width=160).print(*tables, sep="\n")
    return written.getvalue()


def _parts(axis: str, counted: Sequence[Trajectory]) -> dict[str, Share]:
    by_value: dict[str, list[Trajectory]] = defaultdict(list)
    for t in counted:
        by_value[t.tags.get(axis, "(none)")].append(t)
    return {
        value: Share(
            solved=sum(t.outcome is Outcome.SOLVED for t in part),
            counted=len(part),
            success=cluster_mean(success_by_task(part)),
        )
        for value, part in sorted(by_value.items())
    }


def _with_info(function: Callable[..., Any]) -> Callable[..., Any]:
    """Lets a function of the observation alone be called with ``info`` too."""
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters = list(inspect.signature(function).parameters.values())
    takes = sum(parameter.kind in kinds for parameter in parameters)
    if takes > 1 or any(p.kind is inspect.Parameter.VAR_POSITIONAL for p in parameters):
        return function
    return lambda observation, info: function(observation)


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values) if values else math.nan


def _first_line(error: str | None) -> str:
    lines = [line for line in (error or "").splitlines() if line.strip()]
    # An error of the machinery begins with its name; a traceback has it below the frames of the last part.
    if lines and lines[0].startswith("Traceback"):
        starts = [n for n, line in enumerate(lines) if line.startswith("Traceback")]
        lines = [line for line in lines[starts[-1] + 1 :] if not line[0].isspace()] or lines[-1:]
    return (lines[0] if lines else "unknown")[:200]


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value
