"""Gathering what a warm start imitates: a demonstrator's episodes, and solved ones of other runs."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from agentic_gym.errors import ConfigError
from agentic_gym.trainers.demonstrations import Demonstration, encode, record_many
from agentic_gym.trainers.explored import explore
from agentic_gym.trainers.replays import replay_many
from agentic_gym.trainers.run_config import TrainConfig, import_object

if TYPE_CHECKING:
    import gymnasium
    from rich.console import Console

    from agentic_gym.chat import ChatCodec
    from agentic_gym.store import RunStore
    from agentic_gym.types import TokenStream


class Gathering:
    """The demonstrations of one run.

    Args:
        config: of the run.
        store: where the numbers go.
        console: where they are said.
        make_env: makes a training environment.
        tasks: ids of the tasks that train.
    """

    def __init__(
        self,
        config: TrainConfig,
        store: RunStore,
        console: Console,
        *,
        make_env: Callable[[], gymnasium.Env[str, str]],
        tasks: Sequence[str],
    ) -> None:
        self._config = config
        self._section = config.demonstrations
        self._store = store
        self._console = console
        self._make_env = make_env
        self._tasks = list(tasks)
        random.Random(config.seed).shuffle(self._tasks)

    def demonstrations(self) -> list[Demonstration]:
        """All that the configuration asks for; empty if it asks for none.

        Raises:
            ConfigError: other runs were named, and hold nothing to imitate.
        """
        found = self._explored() if self._section.runs else []
        return found + (self._recorded() if self._section.policy else [])

    def encoded(self, codec: ChatCodec, given: Sequence[Demonstration]) -> list[TokenStream]:
        """Demonstrations in the model's tokens; says how many do not fit.

        Raises:
            ConfigError: none fits.
        """
        limit = self._config.rollout.max_tokens_per_episode
        streams = encode(codec, given, max_tokens=limit)
        left_out = len(given) - len(streams)
        self._store.log_metrics(0, {"demonstrations/left_out_unencoded": left_out})
        if left_out:
            said = (
                f"{left_out} of {len(given)} demonstrations are longer than "
                f"rollout.max_tokens_per_episode={limit}, or hold a token that ends a turn"
            )
            if not streams:
                raise ConfigError(f"{said}: give rollout.max_tokens_per_episode room for them")
            self._console.print(f"  left out: {said}", soft_wrap=True)
        return streams

    def _recorded(self) -> list[Demonstration]:
        env = self._make_env()
        try:
            make_policy = import_object(self._section.policy)(env.unwrapped)
        finally:
            env.close()
        tasks = self._tasks[: self._section.max_tasks or None]
        episodes = [(task, sample) for sample in range(self._section.per_task) for task in tasks]
        with self._bar("demonstrations", len(episodes)) as advance:
            return record_many(
                self._make_env, make_policy, episodes, on_episode=lambda demonstration: advance()
            )

    def _explored(self) -> list[Demonstration]:
        """What was solved in other runs and is solved again here."""
        choice = explore(self._section, self._tasks)
        names = ", ".join(self._section.runs)
        self._console.print(f"  demonstrations from {names}: {choice.told()}", soft_wrap=True)
        with self._bar("replays", len(choice.chosen)) as advance:
            replays = replay_many(self._make_env, choice.chosen, on_episode=advance)
        self._console.print(f"  played again: {replays.told()}", soft_wrap=True)
        left_out = {**choice.left_out, **replays.left_out}
        numbers = {
            "tries": choice.tries,
            "chosen": len(choice.chosen),
            "replayed": len(replays.demonstrations),
            **{f"left_out_{reason}": count for reason, count in left_out.items()},
        }
        self._store.log_metrics(0, {f"demonstrations/{name}": n for name, n in numbers.items()})
        if not replays.demonstrations:
            raise ConfigError(
                f"demonstrations.runs={self._section.runs}: nothing that was solved there is solved again "
                f"in this run's environment ({replays.told()}). Give env.options (tools, observations) "
                "and env.max_turns as they were in those runs"
            )
        return list(replays.demonstrations)

    @contextmanager
    def _bar(self, name: str, total: int) -> Iterator[Callable[[], None]]:
        """A bar of progress, and what moves it on."""
        from rich.progress import Progress

        with Progress(console=self._console, transient=True) as bar:
            job = bar.add_task(name, total=total)
            yield lambda: bar.advance(job)
