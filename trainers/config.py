"""Settings of the PPO trainer: those of TRL's trainers, and PPO's own.

One step of the trainer (``max_steps``, ``save_steps``, ``logging_steps``) is one *update*: all
optimiser steps on one batch of trajectories, after which the weights have a new version.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Literal

from agentic_gym.errors import ConfigError
from agentic_gym.trainers._compat import BaseConfig
from agentic_gym.trainers.batching import Layout

_OF_GAE = ("token_gamma", "gae_lambda", "adaptive_lambda", "bootstrap_truncated")


@dataclass
class AgenticPPOConfig(BaseConfig):  # type: ignore[misc]  # untyped base
    """Settings of :class:`~agentic_gym.trainers.ppo_trainer.AgenticPPOTrainer`.

    Extends TRL's base configuration; only what differs or is new is listed.

    Attributes:
        learning_rate: of the policy.
        value_learning_rate: of the value head.
        ppo_epochs: passes over the trajectories of a batch.
        minibatch_size: trajectories of one optimiser step, over all devices.
        micro_batch_tokens: most tokens of one forward pass; a longer trajectory goes alone.
        layout: "packed" (no padding) or "sorted" (padded; for models with sliding windows).
        temperature: at which the tokens were sampled.
        advantage: a value head over turns or over tokens, the group's mean return, or that and the mean of
            what followed from the same state ("gigpo").
        gamma: discount of a turn.
        token_gamma: discount of a token ("token_gae").
        gae_lambda: λ of GAE.
        adaptive_lambda: α of λ by length, 1 - 1/(α·steps), for the policy, with 1 for the value head
            (VAPO has 0.05 for tokens); 0 takes ``gae_lambda`` for both.
        gigpo_omega: weight of the steps in "gigpo".
        attention_layers: share of the layers, in the middle, whose attention credit reads.
        bootstrap_truncated: count the value after a truncated episode. Leave it off where an episode
            is graded at its budget: its reward then is final.
        group_scale: divide group advantages by the group's deviation, or not.
        whiten_advantages: scale the advantages of a batch to mean 0 and deviation 1 (not "group", whose
            equal rewards must give exactly 0).
        clip_low: the policy ratio is clipped at 1 minus this.
        clip_high: and at 1 plus this.
        weight_cap: tokens whose π_proximal/π_behaviour is larger do not train.
        value_coef: weight of the value loss.
        value_clip: largest change of a value that is rewarded in one update; None for no limit.
        value_detach: keep the value loss out of the policy's trunk.
        value_warmup_updates: first updates that train the value head alone.
        ramp_updates: updates over which the policy's learning rate rises from 0. The value head learns at
            its full rate meanwhile, and Adam, whose first steps have the size of the learning rate whatever
            the gradients are, has seen some before its steps count.
        entropy_coef: weight of the entropy bonus; negative, it is a cost, which sharpens the policy.
        kl_coef: weight of the KL to the reference policy, which is the one that training started from.
        reuse_behaviour: with "group", take the behaviour log-probabilities of fresh tokens for the
            proximal ones instead of computing them (right where engine and trainer are verified).
        target_kl: an update ends early when KL(proximal, current) is larger; None for never.
        stream: begin with the gradients of a batch while its last episodes are still played; see
            :mod:`~agentic_gym.trainers.streamed_update`.
        staleness_decay: λ: the learning rate of a batch is divided by 1 + λ · its mean staleness.
        save_total_limit: checkpoints kept.
    """

    learning_rate: float = 2.5e-4
    value_learning_rate: float = 3e-3
    ppo_epochs: int = 2
    minibatch_size: int = 32
    micro_batch_tokens: int = 2048
    layout: Layout = "packed"
    temperature: float = 1.0
    advantage: Literal["turn_gae", "token_gae", "group", "gigpo"] = "turn_gae"
    gamma: float = 1.0
    token_gamma: float = 1.0
    gae_lambda: float = 1.0
    adaptive_lambda: float = 0.0
    gigpo_omega: float = 1.0
    attention_layers: float = 0.5
    bootstrap_truncated: bool = False
    group_scale: Literal["std", "none"] = "std"
    whiten_advantages: bool = True
    clip_low: float = 0.2
    clip_high: float = 0.2
    weight_cap: float = 5.0
    value_coef: float = 0.5
    value_clip: float | None = 0.5
    value_detach: bool = True
    value_warmup_updates: int = 1
    ramp_updates: int = 0
    entropy_coef: float = 0.0
    kl_coef: float = 0.0
    reuse_behaviour: bool = False
    target_kl: float | None = 0.1
    stream: bool = False
    staleness_decay: float = 0.0

    # Defaults of the base that do not fit: a policy sampled in float32 is trained in float32.
    bf16: bool | None = False
    activation_checkpointing: bool | None = False
    gradient_checkpointing: bool | None = None
    lr_scheduler_type: str = "constant"
    weight_decay: float = 0.0
    logging_steps: float = 1
    save_steps: float = 10
    save_total_limit: int | None = 2
    report_to: str | list[str] | None = "none"
    disable_tqdm: bool | None = True
    # The value head is outside the graph of the logits, where DDP would look for unused parameters.
    ddp_find_unused_parameters: bool | None = False
    # The source counts for itself which batches are done, and NaN must not be averaged away.
    ignore_data_skip: bool = True
    logging_nan_inf_filter: bool = False
    remove_unused_columns: bool | None = False
    max_steps: int = field(default=100, metadata={"help": "Number of updates."})

    def __post_init__(self) -> None:
        """Refuses what cannot work, before anything is loaded."""
        self._check_ranges()
        self._check_base()
        # The old name of the same setting; the base warns if it is the only one given.
        if self.gradient_checkpointing:
            self.activation_checkpointing = True
        super().__post_init__()

    def _check_ranges(self) -> None:
        positive = {
            "max_steps": self.max_steps,
            "ppo_epochs": self.ppo_epochs,
            "minibatch_size": self.minibatch_size,
            "micro_batch_tokens": self.micro_batch_tokens,
            "temperature": self.temperature,
            "weight_cap": self.weight_cap,
        }
        for name, value in positive.items():
            if not value > 0:
                raise ConfigError(f"{name} is {value}: it must be larger than 0")
        for name in ("gamma", "token_gamma", "gae_lambda", "attention_layers", "clip_low"):
            if not 0 <= getattr(self, name) <= 1:
                raise ConfigError(f"{name} is {getattr(self, name)}: it must lie between 0 and 1")
        for name in (
            "value_warmup_updates", "ramp_updates", "adaptive_lambda", "gigpo_omega",
            "staleness_decay",
        ):  # fmt: skip
            if getattr(self, name) < 0:
                raise ConfigError(f"{name} is {getattr(self, name)}: it must not be negative")
        if self.clip_high < 0:
            raise ConfigError(f"clip_high is {self.clip_high}: it must not be negative")
        for name in ("value_clip", "target_kl", "save_total_limit"):
            limit = getattr(self, name)
            if limit is not None and not limit > 0:
                raise ConfigError(
                    f"{name} is {limit}: it must be larger than 0, or None for no limit"
                )
        choices = {
            "layout": ("packed", "sorted", "plain"),
            "advantage": ("turn_gae", "token_gae", "group", "gigpo"),
            "group_scale": ("std", "none"),
        }
        for name, allowed in choices.items():
            if getattr(self, name) not in allowed:
                raise ConfigError(f"{name} is {getattr(self, name)!r}: choose one of {allowed}")
        self._check_readers()
        if self.stream:
            self._check_stream()

    def _check_stream(self) -> None:
        """Refuses what needs to know the whole batch before the first gradient."""
        group = self.advantage in ("group", "gigpo")
        needs = {
            "ppo_epochs=1": (self.ppo_epochs == 1, "the second pass follows an optimiser step"),
            "whiten_advantages=False": (
                group or not self.whiten_advantages,
                "mean and deviation of the batch's advantages are known only at its end",
            ),
            "value_detach=True": (
                self.value_detach or self.advantage != "turn_gae",
                "in the trunk, losses over tokens and over turns are divided by counts that are known only "
                "at the end of the batch",
            ),
            "reuse_behaviour=False": (
                not self.reuse_behaviour,
                "whether all of a batch is fresh is known only at its end",
            ),
        }
        for setting, (given, why) in needs.items():
            if not given:
                name = setting.partition("=")[0]
                raise ConfigError(
                    f"stream=True needs {setting}, not {getattr(self, name)!r}: {why}"
                )

    def _check_readers(self) -> None:
        """Refuses what the chosen estimator of advantages would not read."""
        unread = {
            "turn_gae": ("group_scale", "reuse_behaviour", "token_gamma", "gigpo_omega"),
            "token_gae": ("group_scale", "reuse_behaviour", "gigpo_omega"),
            "group": (*_OF_GAE, "gamma", "gigpo_omega"),
            "gigpo": _OF_GAE,
        }
        defaults = {f.name: f.default for f in fields(type(self))}
        for name in unread[self.advantage]:
            if getattr(self, name) != defaults[name]:
                raise ConfigError(
                    f"{name} is {getattr(self, name)!r}, which nothing reads with "
                    f"advantage={self.advantage!r}: leave it out, or choose another advantage"
                )

    def _check_base(self) -> None:
        if self.fp16:
            raise ConfigError(
                "fp16=True needs loss scaling, which hides a NaN: use bf16=True or float32"
            )
        if self.gradient_accumulation_steps != 1:
            raise ConfigError(
                f"gradient_accumulation_steps is {self.gradient_accumulation_steps}: leave it at 1 and "
                "set micro_batch_tokens; gradients accumulate over the micro-batches of a minibatch"
            )
        if self.deepspeed or self.fsdp:
            raise ConfigError(
                "deepspeed and fsdp are not supported: use data parallelism and gradient_checkpointing"
            )
        if self.auto_find_batch_size:
            raise ConfigError("auto_find_batch_size is not supported: lower micro_batch_tokens")
        if self.load_best_model_at_end:
            raise ConfigError("load_best_model_at_end is not supported: evaluate the checkpoints")
