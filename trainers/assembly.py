"""What a run is put together from: environments, model, codec, engine, rollouts, trainer.

:mod:`~agentic_gym.trainers.pipeline` says in which order things happen; here they are made.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from transformers.utils.logging import disable_progress_bar

from agentic_gym.agent import LMAgent
from agentic_gym.chat import ChatCodec
from agentic_gym.engines.replicas import ReplicaSet
from agentic_gym.engines.transformers import TransformersEngine
from agentic_gym.errors import ConfigError
from agentic_gym.registration import make
from agentic_gym.rollout import Launch, Rollout
from agentic_gym.store import RunStore
from agentic_gym.trainers import checkpoints
from agentic_gym.trainers.gathering import Gathering
from agentic_gym.trainers.learning import (
    credit_of,
    filter_of,
    refill_of,
    rubric_of,
    selector_of,
)
from agentic_gym.trainers.live_weights import LiveWeights
from agentic_gym.trainers.models import DecoderShape, load_policy, make_decoder
from agentic_gym.trainers.ordering import LongestFirst
from agentic_gym.trainers.ppo_args import ppo_args
from agentic_gym.trainers.ppo_trainer import AgenticPPOTrainer
from agentic_gym.trainers.progress import OnUpdate, UpdateLines, episode_bar
from agentic_gym.trainers.publisher import WeightPublisher
from agentic_gym.trainers.relays.network import RelayNetwork
from agentic_gym.trainers.run_config import TrainConfig, schedule_of
from agentic_gym.trainers.run_parts import Run
from agentic_gym.trainers.runtime import Runtime
from agentic_gym.trainers.selection.base import TaskFacts, facts_of
from agentic_gym.trainers.source import TrajectorySource
from agentic_gym.trainers.tokenizer import train_tokenizer
from agentic_gym.trainers.warm_start import WarmStartStep, warm_start
from agentic_gym.types import SamplingParams

if TYPE_CHECKING:
    import gymnasium
    from rich.console import Console

    from agentic_gym.evaluation import AgentFactory

START_FOLDER = "start"
CHECKPOINT_FOLDER = "checkpoints"
LIVE_FOLDER = "live_weights"
RELAY_FOLDER = "relays"
STARTER = Path(__file__).parent / "data" / "starter"


def make_env(config: TrainConfig, options: Mapping[str, Any]) -> gymnasium.Env[str, str]:
    """An environment with the run's options and budgets, and ``options`` over them."""
    env = config.env
    budgets: dict[str, Any] = {"max_turns": env.max_turns}
    if env.goal_reminder_turns:
        budgets["goal_reminder_turns"] = env.goal_reminder_turns
    return make(env.id, **{**env.options, **options, **budgets})


def train_facts(config: TrainConfig) -> list[TaskFacts]:
    """What is known of the tasks that train, before they are played."""
    env = make_env(config, config.env.train_options)
    try:
        return [facts_of(task) for task in env.get_wrapper_attr("tasks")]
    finally:
        env.close()


class Assembly:
    """Makes and keeps the parts of one run."""

    def __init__(self, config: TrainConfig, store: RunStore, console: Console) -> None:
        self._config = config
        self._store = store
        self._console = console
        disable_progress_bar()  # transformers' own, one for each file that is read or written
        self._model: Any = None
        self._tokenizer: Any = None
        self._codec: ChatCodec | None = None
        self._engine: ReplicaSet | None = None
        self._threads = torch.get_num_threads()
        self._tasks: dict[str, list[str]] = {}

    # ---- tasks and environments ------------------------------------------------------------------

    def make_env(self, options: Mapping[str, Any]) -> gymnasium.Env[str, str]:
        """An environment with the run's options and budgets, and ``options`` over them."""
        return make_env(self._config, options)

    def task_ids(self, options: Mapping[str, Any]) -> list[str]:
        """Ids of the tasks that an environment with these options has, in its own order."""
        env = self.make_env(options)
        try:
            return [task.task_id for task in env.get_wrapper_attr("tasks")]
        finally:
            env.close()

    def train_tasks(self) -> list[str]:
        """Ids of the tasks that train."""
        return self.task_ids(self._config.env.train_options)

    def eval_tasks(self, name: str) -> list[str]:
        """Ids of an evaluation's tasks: the first of an order that the seed of the run does not change."""
        section = self._config.evaluations[name]
        if name not in self._tasks:
            ids = sorted(self.task_ids(section.options))
            random.Random(0).shuffle(ids)
            self._tasks[name] = ids[: section.num_tasks or None]
        return self._tasks[name]

    def rollout(self, options: Mapping[str, Any], agents: AgentFactory) -> Rollout:
        """A rollout in environments with these options."""
        return Rollout(
            lambda: self.make_env(options),
            agents,
            concurrency=self._config.rollout.concurrency,
            episode_limit_s=self._config.rollout.episode_limit_s,
        )

    def baseline(
        self, make_agents: Callable[[Any], AgentFactory], options: Mapping[str, Any]
    ) -> AgentFactory:
        """Agents of a baseline, which is shown an environment with these options."""
        env = self.make_env(options)
        try:
            return make_agents(env.unwrapped)
        finally:
            env.close()

    def policy_rollout(self, options: Mapping[str, Any], *, greedy: bool) -> Rollout:
        """A rollout of the policy as the engine has it now."""
        return self.rollout(options, self._policy_agents(greedy=greedy))

    def _policy_agents(self, *, greedy: bool) -> AgentFactory:
        assert self._codec is not None, "prepare comes first"
        settings, engine, codec = self._config.rollout, self.engine, self._codec
        sampling = SamplingParams(
            max_tokens=settings.max_tokens_per_turn,
            temperature=0.0 if greedy else settings.temperature,
        )

        def agent(launch: Launch) -> LMAgent:
            return LMAgent(
                engine, codec, sampling, max_tokens_per_episode=settings.max_tokens_per_episode
            )

        return agent

    # ---- policy ------------------------------------------------------------------------------------

    def prepare(self) -> None:
        """Loads the policy that training starts from, or makes it; serves the newest of the run.

        They differ in a run that is taken up again. The trainer needs the first of them: LoRA's update is
        added to it, and the KL term holds on to it. A checkpoint then brings the trained weights.
        """
        parent = self._config.output_dir / START_FOLDER
        start = checkpoints.newest(parent) or self._make_start(parent)
        self._model, self._tokenizer = load_policy(start)
        newest = checkpoints.newest(self._config.output_dir / CHECKPOINT_FOLDER)
        served = self._model if newest is None else load_policy(newest)[0]
        self._codec = ChatCodec(
            self._tokenizer, show_tools=self._config.rollout.show_tools, thinking=None
        )
        settings = self._config.rollout
        self._engine = ReplicaSet(
            {
                number: TransformersEngine(
                    served,
                    max_batch=settings.concurrency,
                    max_context=settings.max_tokens_per_episode,
                    threads=settings.engine_threads or None,
                )
                for number in range(settings.replicas)
            }
        )

    def _make_start(self, parent: Path) -> Path:
        """Makes the policy that reinforcement learning starts from, whole or not at all."""
        config = self._config
        section = config.demonstrations
        gathering = Gathering(
            config,
            self._store,
            self._console,
            make_env=lambda: self.make_env(config.env.train_options),
            tasks=self.train_tasks() if section.policy or section.runs else (),
        )
        demonstrations = gathering.demonstrations()
        if config.model == "scratch":
            if not demonstrations:
                raise ConfigError(
                    "model='scratch' needs demonstrations.policy or demonstrations.runs: an untrained "
                    "model never acts"
                )
            texts = [text for demonstration in demonstrations for text in demonstration.texts()]
            tokenizer = train_tokenizer(texts, vocab_size=config.shape.vocab_size)
            sizes = config.shape.model_dump(exclude={"vocab_size"})
            shape = DecoderShape(**sizes, max_context=config.rollout.max_tokens_per_episode)
            model = make_decoder(tokenizer, shape, seed=config.seed)
        else:
            model, tokenizer = load_policy(STARTER if config.model == "starter" else config.model)
        if demonstrations:
            codec = ChatCodec(tokenizer, show_tools=config.rollout.show_tools, thinking=None)
            streams = gathering.encoded(codec, demonstrations)
            warm_start(model, streams, config.warm_start, seed=config.seed, on_step=self._log_step)

        folder = checkpoints.stage(parent) / "checkpoint-0"
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        return checkpoints.commit(folder)

    def _log_step(self, step: WarmStartStep) -> None:
        self._store.log_metrics(
            step.step, {"warm_start/loss": step.loss, "warm_start/accuracy": step.accuracy}
        )
        if step.step % 20 == 0 or step.step == step.num_steps:
            self._console.print(
                f"  warm start {step.step}/{step.num_steps}: loss {step.loss:.3f}, "
                f"accuracy {100 * step.accuracy:.1f} %, {step.num_tokens:,} tokens"
            )

    # ---- training ----------------------------------------------------------------------------------

    def train(self, *, on_update: Callable[[], None] = lambda: None) -> None:
        """PPO from the newest checkpoint to the last update; the engine then serves the result.

        Args:
            on_update: called after each update.
        """
        config = self._config
        folder = config.output_dir / CHECKPOINT_FOLDER
        newest = checkpoints.newest(folder)
        if config.ppo.updates == 0:
            return
        if newest is not None and checkpoints.version_of(newest) >= config.ppo.updates:
            return
        with (
            self.policy_rollout(config.env.train_options, greedy=False) as rollout,
            episode_bar(self._console, config.ppo.episodes_per_update) as arrived,
            Runtime(
                self._run(rollout),
                updates=config.ppo.updates,
                on_trajectory=arrived,
                on_lent=self._lend,
            ) as source,
        ):
            trainer = self.make_trainer(source, folder)
            trainer.add_callback(OnUpdate(on_update))
            trainer.train(resume_from_checkpoint=newest)

    def _run(self, rollout: Rollout) -> Run:
        config = self._config
        return Run(
            rollout=rollout,
            schedule=schedule_of(config),
            tasks=selector_of(config, train_facts(config)),
            rubric=rubric_of(config),
            refill=refill_of(config),
            group_size=config.ppo.group_size,
            filter=filter_of(config),
            store=self._store,
            replicas=self.engine,
            publisher=WeightPublisher(temperature=config.rollout.temperature),
            slots=config.rollout.concurrency,
            seed=config.seed,
            order=LongestFirst() if config.rollout.longest_first else None,
            live=LiveWeights(config.output_dir / LIVE_FOLDER),
            relays=self._relays(),
            stall_s=config.rollout.stall_timeout_s,
        )

    def _relays(self) -> RelayNetwork | None:
        settings = self._config.rollout
        if not settings.relays:
            return None
        folder = self._config.output_dir / RELAY_FOLDER
        return RelayNetwork(folder, settings.relays, heartbeat_s=settings.relay_heartbeat_s)

    def _lend(self, replicas: int) -> None:
        """The trainer computes with the threads of replicas that do not serve meanwhile."""
        torch.set_num_threads(self._threads + replicas * (self._config.rollout.engine_threads or 1))

    def make_trainer(self, source: TrajectorySource, folder: Path) -> AgenticPPOTrainer:
        """A trainer of the run's policy that keeps its checkpoints in ``folder``."""
        return AgenticPPOTrainer(
            self._model,
            ppo_args(self._config, folder),
            source,
            processing_class=self._tokenizer,
            peft_config=self._lora(),
            credit=credit_of(self._config),
            callbacks=[
                UpdateLines(self._console, self._config.ppo.updates, gamma=self._config.ppo.gamma)
            ],
        )

    def _lora(self) -> Any:
        rank = self._config.ppo.lora_rank
        if not rank:
            return None
        from peft import LoraConfig

        return LoraConfig(r=rank, lora_alpha=2 * rank, target_modules="all-linear")

    @property
    def engine(self) -> ReplicaSet:
        """The engine's replicas, once :meth:`prepare` has started them."""
        assert self._engine is not None, "prepare comes first"
        return self._engine

    def close(self) -> None:
        """Ends the engine."""
        if self._engine is not None:
            asyncio.run(self._engine.close())
            self._engine = None
