"""PPO for agents on TRL's trainer base.

The base gives the outer loop, callbacks, reporting, the optimiser and its checkpoints; what happens to
a batch is in :mod:`~agentic_gym.trainers.update`. One step of the loop is one *update* (every optimiser
step on one batch), so ``global_step`` is the weight version. One loop step per optimiser step was
rejected: stopping early on KL would then shift every later step number.

Subclassing TRL's GRPOTrainer was rejected too: it owns generation, and its private methods change with
every release.
"""

from __future__ import annotations

import copy
import dataclasses
import itertools
import json
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from transformers import TrainerCallback, TrainerState
from transformers.trainer_utils import TrainOutput

from agentic_gym.errors import CheckpointError, ConfigError, TrainingError
from agentic_gym.rewards.credit.plan import CreditPlan, make_credit
from agentic_gym.trainers import checkpoints
from agentic_gym.trainers._compat import HookedTrainer
from agentic_gym.trainers.batching import trainable
from agentic_gym.trainers.config import AgenticPPOConfig
from agentic_gym.trainers.experience import Experience
from agentic_gym.trainers.models import load_model
from agentic_gym.trainers.policy import TrainedPolicy, add_lora, disable_dropout
from agentic_gym.trainers.scoring import Scorer, prepare_model
from agentic_gym.trainers.source import Batch, Start, TrajectorySource, Update
from agentic_gym.trainers.streamed_update import StreamedUpdater
from agentic_gym.trainers.update import Reference, Updater
from agentic_gym.trainers.value_head import VALUE_GROUP, attach, is_value_parameter
from agentic_gym.types import Outcome, Trajectory

_T = TypeVar("_T")
_SOURCE_FILE = "source.json"


class AgenticPPOTrainer(HookedTrainer):
    """Trains a causal LM on batches of trajectories with decoupled PPO.

    Args:
        model: a causal LM, or the name or folder of one.
        args: settings.
        source: gives the batches and is told when an update is done.
        processing_class: tokenizer, saved beside the policy.
        peft_config: a ``LoraConfig`` trains LoRA; None trains every weight.
        credit: what each sampled token earns; None: each turn's reward at its end. Its estimator must be
            ``args.advantage``.
        callbacks: of transformers, beside those that ``args.report_to`` names.

    Raises:
        ConfigError: the settings do not fit the model.
        CheckpointError: there is no causal LM of the given name or folder.
    """

    args: AgenticPPOConfig
    optimizer: torch.optim.Optimizer | None

    def __init__(
        self,
        model: nn.Module | str,
        args: AgenticPPOConfig,
        source: TrajectorySource,
        *,
        processing_class: Any = None,
        peft_config: Any = None,
        credit: CreditPlan | None = None,
        callbacks: list[TrainerCallback] | None = None,
    ) -> None:
        lm: nn.Module = load_model(model) if isinstance(model, str) else model
        prepare_model(lm, args.layout)
        names = list(lm.state_dict())
        frozen = copy.deepcopy(lm) if args.kl_coef and peft_config is None else None
        whole = lm if peft_config is None else add_lora(lm, peft_config, args.seed)
        # After LoRA, which would freeze and adapt the head as well.
        attach(lm, detach=args.value_detach, seed=args.seed)
        disable_dropout(whole)
        super().__init__(
            model=whole, args=args, processing_class=processing_class, callbacks=callbacks
        )
        self.source = source
        self.policy = TrainedPolicy(
            self.model, names, layout=args.layout, temperature=args.temperature
        )
        kind = StreamedUpdater if args.stream else Updater
        self.updater = kind(
            config=args,
            accelerator=self.accelerator,
            scorer=Scorer(self.model, temperature=args.temperature),
            credit=_checked(credit, args),
            reference=self._make_reference(frozen),
        )
        self._start: Start | None = None
        self._unreported: Update | None = None
        self._checkpoint: Path | None = None
        self._metrics: list[dict[str, float]] = []
        self._outside: dict[str, float] = {}
        self._early_s = 0.0  # spent on parts of the batch that is waited for

    @property
    def version(self) -> int:
        """Version of the weights: the number of updates made."""
        return int(self.state.global_step)

    # ---- running -------------------------------------------------------------------------------

    def train(self, resume_from_checkpoint: str | Path | bool | None = None, **kwargs: Any) -> Any:
        """Trains until ``args.max_steps`` updates are made or the source ends.

        Args:
            resume_from_checkpoint: a checkpoint, or True for the newest in the output folder (from
                the start if there is none).
            kwargs: of the base.

        Raises:
            NonFiniteError: a NaN or an infinity appeared; the batch was saved.
            CheckpointError: the checkpoint cannot be used.
        """
        if isinstance(self.updater, StreamedUpdater):
            self.updater.forget()  # of a call that was interrupted; the base drops its gradients
        folder = self._resolve(resume_from_checkpoint)
        first = 0 if folder is None else checkpoints.version_of(folder)
        self._start = Start(first, self.policy)
        if folder is not None:
            if not (folder / _SOURCE_FILE).is_file():
                raise CheckpointError(
                    f"{folder} has no {_SOURCE_FILE}: it is no checkpoint of this trainer. "
                    "To start from its policy, give the folder as the model instead."
                )
            state = json.loads((folder / _SOURCE_FILE).read_text())
            self._start = Start(first, self.policy, folder, state)
            if first >= self.args.max_steps:
                return self._only_load(folder)
        result = super().train(
            resume_from_checkpoint=None if folder is None else str(folder), **kwargs
        )
        # The base saves at max_steps; a source that ends before leaves the last update unsaved.
        unsaved = self._checkpoint is None and self.version > first
        if self.args.save_strategy != "no" and unsaved:
            self.save_checkpoint()
        self._report()
        return result

    def _only_load(self, folder: Path) -> TrainOutput:
        """The run was complete: whoever resumes it gets its policy, and nothing is trained."""
        self.load_files(folder)
        self.state = TrainerState.load_from_json(str(folder / "trainer_state.json"))
        self._begin()
        return TrainOutput(self.version, 0.0, {})

    def _begin(self) -> None:
        start, self._start = self._start, None
        if start is not None and self.is_world_process_zero():
            self.source.begin(start)

    def _resolve(self, resume: str | Path | bool | None) -> Path | None:
        if resume is True:
            return checkpoints.newest(Path(self.args.output_dir))
        if not resume:
            return None
        folder = Path(str(resume))
        inner = checkpoints.newest(folder)
        return inner if inner is not None else folder

    def get_train_dataloader(self) -> Iterable[None]:
        """An endless iterator: batches come from the source (see :meth:`get_batch_samples`)."""
        return itertools.repeat(None)

    def get_batch_samples(
        self, epoch_iterator: Iterator[None], num_batches: int, device: torch.device
    ) -> tuple[list[Batch], None]:
        """Reports the last update to the source and pulls the next batch."""
        started = time.perf_counter()
        self._begin()
        self._report()
        published = time.perf_counter()
        self._early_s = 0.0
        batch = self._pull()
        self._outside = {
            "time_publish_s": published - started,
            "time_batch_s": time.perf_counter() - published - self._early_s,
        }
        if batch is None:
            self.control.should_training_stop = True
            return [], None
        if batch.update != self.version + 1:
            raise TrainingError(
                f"the source gave the batch of update {batch.update}, but the next is "
                f"{self.version + 1}"
            )
        return [batch], None

    def _pull(self) -> Batch | None:
        """The next batch, on every device; its gradients are begun meanwhile if they may be."""
        if self.is_world_process_zero():
            if not self.args.stream:
                return self._share(self.source.next_batch())
            return self._share(self.source.next_batch(lambda p: self._begin_with(self._share(p))))
        while True:
            received: Any = self._share(None)
            if isinstance(received, Batch | None):
                return received
            self._begin_with(received)

    def _share(self, what: _T) -> _T:
        """What the first device has, on every device."""
        if self.accelerator.num_processes == 1:
            return what
        box = [what]
        torch.distributed.broadcast_object_list(box, src=0)
        return box[0]

    def _begin_with(self, piece: Sequence[Trajectory]) -> None:
        """Adds the gradients of a part of the batch that is waited for."""
        assert isinstance(self.updater, StreamedUpdater)
        started = time.perf_counter()
        usable = _usable(piece)
        if usable:
            model = self.model_wrapped
            model.train()
            self.updater.add(model, Experience.gather(usable, self.version))
        self._early_s += time.perf_counter() - started

    def training_step(
        self, model: nn.Module, inputs: Batch, num_items_in_batch: Any = None
    ) -> Tensor:
        """One update. The base's own optimiser step then finds no gradient and changes nothing."""
        model.train()
        usable = _usable(inputs.trajectories)
        if not usable:
            raise TrainingError(
                f"none of the {len(inputs.trajectories)} trajectories of update {inputs.update} can train: "
                f"{_why_none(inputs.trajectories)}"
            )
        experience = Experience.gather(usable, self.version)
        assert self.optimizer is not None  # made before the loop
        metrics = self.updater.run(model, self.optimizer, experience)
        metrics["excluded"] = float(len(inputs.trajectories) - len(usable))
        metrics.update({**self._outside, **inputs.metrics})
        self._metrics.append(metrics)
        credit = experience.credit() if self.is_world_process_zero() else {}
        self._unreported = Update(self.version + 1, self.policy, None, metrics, credit)
        self._checkpoint = None
        loss = metrics["policy_loss"] + self.args.value_coef * metrics["value_loss"]
        return torch.tensor(loss, device=self.args.device, dtype=torch.float32)

    def _report(self) -> None:
        """Tells the source about the update that is done, now that its checkpoint is on disk."""
        done, self._unreported = self._unreported, None
        if done is not None and self.is_world_process_zero():
            self.source.update_finished(dataclasses.replace(done, checkpoint=self._checkpoint))

    # ---- optimiser and reporting ---------------------------------------------------------------

    def create_optimizer(self, model: nn.Module | None = None) -> torch.optim.Optimizer:
        """The base's optimiser, with a group of its own for the value head."""
        if self.optimizer is None:
            target = self.model if model is None else model
            decayed = set(self.get_decay_parameter_names(target))
            kind, settings = self.get_optimizer_cls_and_kwargs(self.args, target)
            groups: list[dict[str, Any]] = [
                {"params": [], "weight_decay": self.args.weight_decay},
                {"params": [], "weight_decay": 0.0},
                {
                    "params": [],
                    "weight_decay": 0.0,
                    "lr": self.args.value_learning_rate,
                    VALUE_GROUP: True,
                },
            ]
            for name, parameter in target.named_parameters():
                if parameter.requires_grad:
                    which = 2 if is_value_parameter(name) else 0 if name in decayed else 1
                    groups[which]["params"].append(parameter)
            self.optimizer = kind([group for group in groups if group["params"]], **settings)
        return self.optimizer

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Adds the means of the updates since the last report."""
        if self._metrics and "loss" in logs:
            names = self._metrics[-1].keys()
            for name in names:
                values = [m[name] for m in self._metrics if name in m]
                logs[name] = sum(values) / len(values)
            self._metrics = []
        super().log(logs, start_time)

    def floating_point_ops(self, inputs: Batch) -> int:
        """Six operations a parameter and token and pass: forward, and twice that backward."""
        parameters = sum(p.numel() for p in self.model.parameters())
        tokens = sum(len(t.tokens) for t in inputs.trajectories if t.tokens is not None)
        return int(6 * parameters * tokens * self.args.ppo_epochs)

    def _make_reference(self, frozen: nn.Module | None) -> Reference | None:
        if not self.args.kl_coef:
            return None
        if frozen is None:
            return Reference(
                Scorer(self.model, temperature=self.args.temperature),
                self.model,
                self.model.disable_adapter,
            )
        attach(frozen)
        frozen.requires_grad_(False).eval().to(self.args.device)
        return Reference(Scorer(frozen, temperature=self.args.temperature), frozen)

    # ---- checkpoints ---------------------------------------------------------------------------

    def save_checkpoint(self) -> None:
        """Saves everything that an exact resume needs, whole or not at all."""
        parent = Path(self.args.output_dir)
        if self.is_world_process_zero():
            checkpoints.stage(parent)
        self.accelerator.wait_for_everyone()
        written = self.write_checkpoint(parent / checkpoints.STAGING)
        self.accelerator.wait_for_everyone()
        if self.is_world_process_zero():
            checkpoints.commit(written, keep=self.args.save_total_limit)
        self._checkpoint = parent / written.name

    def save_files(self, folder: Path) -> None:
        """Policy (loads in ``AutoModelForCausalLM``), value head, tokenizer, state of the source."""
        self.policy.save(folder)
        if self.processing_class is not None:
            self.processing_class.save_pretrained(folder)
        (folder / _SOURCE_FILE).write_text(json.dumps(self.source.state_dict()))

    def load_files(self, folder: Path) -> None:
        """Policy and value head of a checkpoint."""
        self.policy.load(folder)


def _usable(trajectories: Sequence[Trajectory]) -> list[Trajectory]:
    """Those that can train."""
    return [t for t in trajectories if t.outcome is not Outcome.INFRA_ERROR and trainable(t)]


def _why_none(trajectories: Sequence[Trajectory]) -> str:
    """What is wrong with trajectories of which none can train."""
    broke = sum(t.outcome is Outcome.INFRA_ERROR for t in trajectories)
    streams = [t.tokens for t in trajectories if t.outcome is not Outcome.INFRA_ERROR]
    read = [len(stream) for stream in streams if stream is not None]
    words = f"{broke} broke (infra_error), in {len(streams)} nothing was sampled"
    if not read:
        return words
    return (
        f"{words}: their first prompts have {min(read)} to {max(read)} tokens. Is "
        "rollout.max_tokens_per_episode larger, and do the environment's options keep observations short?"
    )


def _checked(credit: CreditPlan | None, args: AgenticPPOConfig) -> CreditPlan:
    plan = credit or make_credit(args.advantage)
    if plan.estimator != args.advantage:
        raise ConfigError(
            f"the credit {plan.name!r} has the estimator {plan.estimator!r}, and advantage is "
            f"{args.advantage!r}: give both the same"
        )
    return plan
