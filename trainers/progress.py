"""What a person sees of a run while it trains."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from transformers import TrainerCallback

from agentic_gym.rewards.credit.estimators import horizon_warning
from agentic_gym.trainers.rollout_metrics import PARKED_ALARM
from agentic_gym.trainers.schedules.plan import IN_FORCE
from agentic_gym.types import Outcome, Trajectory

if TYPE_CHECKING:
    from rich.console import Console


@contextmanager
def episode_bar(console: Console, total: int) -> Iterator[Callable[[Trajectory], None]]:
    """A bar that fills up with the episodes of a batch, and begins anew with those of the next."""
    from rich.progress import Progress as Bar

    with Bar(console=console, transient=True) as bar:
        job = bar.add_task("episodes", total=total)

        def arrived(trajectory: Trajectory) -> None:
            if trajectory.outcome is Outcome.INFRA_ERROR:
                return  # it is tried again
            if bar.finished:
                bar.reset(job)
            bar.advance(job)

        yield arrived


class UpdateLines(TrainerCallback):  # type: ignore[misc]  # untyped base
    """One line an update, and a note where the discount forgets.

    Args:
        console: where to.
        updates: of the run.
        gamma: discount of a turn; 1 where nothing is discounted.
    """

    def __init__(self, console: Console, updates: int, *, gamma: float = 1.0) -> None:
        self._console = console
        self._updates = updates
        self._gamma = gamma

    def on_log(
        self, args: Any, state: Any, control: Any, logs: dict[str, float] | None = None, **_: Any
    ) -> None:
        """Prints what a person watches."""
        if not logs or "policy_loss" not in logs:
            return
        shown = {
            "return": "reward",
            "entropy": "entropy",
            "kl": "kl",
            "staleness": "staleness",
            "batch s": "time_batch_s",
            "trainer idle": "trainer_idle_share",
            "engine idle": "engine_idle_share",
        }
        # Of a synchronous run every token is fresh.
        words = [f"{word} {logs[key]:.3f}" for word, key in shown.items() if logs.get(key)]
        words += [f"schedule {name}" for name in _in_force(logs)]
        self._console.print(
            f"  update {state.global_step}/{self._updates}: {', '.join(words)}", soft_wrap=True
        )
        turns = logs.get("turns", 0.0)
        warning = horizon_warning(self._gamma, turns) if turns >= 2 else None
        if warning is not None:
            self._gamma = 1.0  # said once
            self._console.print(f"  note  {warning} (docs/credit.md)", soft_wrap=True)
        parked = logs.get("parked_share", 0.0)
        if parked > PARKED_ALARM:
            self._console.print(
                f"  note  episodes spent {100 * parked:.0f} % of their time parked (alarm at "
                f"{100 * PARKED_ALARM:.0f} %): a smaller batch, or more reserve, waits less"
            )


def _in_force(logs: Mapping[str, float]) -> list[str]:
    """The schedule that a plan used for this batch, if it is one."""
    return [key.removeprefix(IN_FORCE) for key in logs if key.startswith(IN_FORCE) and logs[key]]


class OnUpdate(TrainerCallback):  # type: ignore[misc]  # untyped base
    """Calls a function after each update."""

    def __init__(self, function: Callable[[], None]) -> None:
        self._function = function

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """One step of the trainer's loop is an update."""
        self._function()
