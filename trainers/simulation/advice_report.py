"""Advice on a schedule, for people and as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rich.table import Table

from agentic_gym.trainers.simulation.advice import CYCLE, GAIN, HEARTBEAT_S, Choice, Facts
from agentic_gym.trainers.simulation.report import SimulationReport

_WORD = len(
    "prompt_redundancy"
)  # the longest word among the options: a narrower column would cut it


@dataclass(frozen=True, slots=True)
class Machine:
    """The run that was measured, on as many nodes as there will be: what the simulation takes from it.

    Attributes:
        batch_size: trajectories of an update.
        group_size: trajectories of a task.
        concurrency: episodes at once, on all replicas together.
        replicas: of its engine.
        relays: that carry weights to them; 0: the trainer does.
        train_s: seconds of an update in the trainer.
        publish_s: seconds that loading weights took.
    """

    batch_size: int
    group_size: int
    concurrency: int
    replicas: int
    relays: int
    train_s: float
    publish_s: float


@dataclass(frozen=True, slots=True)
class Row:
    """What was simulated of a schedule, and with what.

    Attributes:
        report: of the best of its simulations.
        options: of the schedule.
        replicas: of the engine.
        relays: that carry weights to them; 0: the trainer does.
        pair: throughput of two replicas on the machine, in that of one; None: not tried.
    """

    report: SimulationReport
    options: Mapping[str, Any]
    replicas: int
    relays: int
    pair: float | None = None

    @property
    def idle_share(self) -> float | None:
        """Of the replicas' time; None: too few updates were measured to tell."""
        return self.report.replicas["idle"] if self.report.updates >= CYCLE else None


@dataclass(frozen=True, slots=True)
class Advice:
    """What was found.

    Attributes:
        facts: that were measured.
        machine: that was measured.
        choice: of the rule.
        rows: of each schedule.
    """

    facts: Facts
    machine: Machine
    choice: Choice
    rows: Mapping[str, Row]

    @property
    def chosen(self) -> Row:
        """The row of the advised schedule."""
        return self.rows[self.choice.schedule]

    def of_sync(self, name: str) -> float:
        """Throughput of a schedule, in that of ``sync``."""
        base = self.rows["sync"].report.trajectories_per_s
        return self.rows[name].report.trajectories_per_s / base

    def notes(self) -> list[str]:
        """What one should know before taking the advice."""
        notes = []
        if (gain := self.of_sync(self.choice.schedule)) < 1 + GAIN:
            notes.append(f"on this trace it brings nothing over sync ({gain:.2f}x)")
        pair, name = self.chosen.pair, self.choice.schedule
        if pair is not None and self.chosen.replicas == 2:
            notes.append(
                f"2 replicas on the one node, each with its copy of the weights: {pair:.2f}x of one, which "
                f"under {name} loads new weights only when all its episodes are finished"
            )
        elif pair is not None:
            notes.append(
                f"one replica works, but under {name} it loads new weights only when all its episodes "
                f"are finished; two on the node would bring {pair:.2f}x"
            )
        return notes

    def to_dict(self) -> dict[str, Any]:
        """JSON-able."""
        return {
            "episodes": self.facts.episodes,
            "long_tail_share": self.facts.tail,
            "episode_s": dict(self.facts.seconds),
            "nodes": self.facts.nodes,
            "consistency": self.facts.consistency,
            "schedule": self.choice.schedule,
            "why": self.choice.why,
            "notes": self.notes(),
            "schedule_options": dict(self.chosen.options),
            "batch_size": self.machine.batch_size,
            "group_size": self.machine.group_size,
            "concurrency": self.machine.concurrency,
            "replicas": self.chosen.replicas,
            "relays": self.chosen.relays,
            "relay_heartbeat_s": HEARTBEAT_S,
            "simulated": {
                name: {
                    "updates": row.report.updates,
                    "trajectories_per_s": row.report.trajectories_per_s,
                    "of_sync": self.of_sync(name),
                    "staleness_mean": row.report.staleness["mean"],
                    "idle_share": row.idle_share,
                    "replicas": row.replicas,
                    "relays": row.relays,
                    "options": dict(row.options),
                }
                for name, row in self.rows.items()
            },
        }

    def render(self) -> list[str | Table]:
        """For people."""
        facts, machine = self.facts, self.machine
        seconds = ", ".join(f"{key.upper()} {value:.1f}" for key, value in facts.seconds.items())
        return [
            f"measured: {facts.episodes} episodes, seconds {seconds}; {facts.tail:.1%} take over three "
            f"times the median; an update trains for {machine.train_s:.1f} s",
            f"given: {facts.nodes} node(s), consistency {facts.consistency}"
            + (", nodes come and go" if facts.elastic else ""),
            f"[bold]advice: {self.choice.schedule}[/bold] ({self.choice.why})",
            *(f"note: {note}" for note in self.notes()),
            self._settings(),
            self._table(),
            *self._legend(),
        ]

    def _settings(self) -> str:
        machine, row = self.machine, self.chosen
        prompts = machine.batch_size // machine.group_size
        words = [
            f"settings: P0 (prompts of an update) {prompts}, {machine.group_size} episode(s) of each",
            f"{machine.concurrency} episodes at once on {row.replicas} replica(s) together",
            "options: " + (", ".join(f"{k}={v}" for k, v in row.options.items()) or "none"),
        ]
        if "buffer_size" in row.options:
            words.append("buffer_size counts episodes that are finished and not yet trained")
        if row.relays:
            words.append(f"{row.relays} weight relays, a sign of life every {HEARTBEAT_S} s")
        return "; ".join(words)

    def _table(self) -> Table:
        table = Table(title="On this trace, simulated", title_justify="left")
        table.add_column("schedule", no_wrap=True)
        table.add_column("options", overflow="fold", min_width=_WORD)
        for column in ("episodes/s", "of sync", "staleness", "idle"):
            table.add_column(column)
        for name, row in self.rows.items():
            options = dict(row.options)
            if row.replicas != self.machine.replicas:
                options["replicas"] = row.replicas
            table.add_row(
                f"[bold]{name}[/bold]" if name == self.choice.schedule else name,
                "\n".join(f"{key} {value}" for key, value in options.items()),
                f"{row.report.trajectories_per_s:.3g}",
                f"{self.of_sync(name):.2f}x",
                f"{row.report.staleness['mean']:.2f}",
                "-" if row.idle_share is None else f"{row.idle_share:.0%}",
            )
        return table

    def _legend(self) -> list[str]:
        updates = self.chosen.report.updates
        lines = [
            "staleness: mean updates between the weights that sampled an episode and those it trains",
            "idle: share of the replicas' time in which they sample nothing and load nothing, because "
            "their episodes are in tool calls or no more may be launched",
        ]
        if updates < CYCLE:
            lines.append(
                f"only {updates} updates were measured: too few for idle, and the rates are rough; "
                f"--updates {CYCLE} or more"
            )
        return lines
