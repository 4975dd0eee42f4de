"""Potentials from a learned model of progress: Φ of what has been said and answered so far.

A process-reward model is seldom right about the last step. As a potential it may be wrong without harm to
what is optimal (:mod:`~agentic_gym.rewards.credit.process`): it makes learning faster or slower. It must not
change while a batch is trained, and sees the prefix alone, never what came of it.

A model that breaks or answers NaN is broken machinery: training stops. Going on without it would be another
run than the one that was asked for.
"""

from __future__ import annotations

import importlib
import math
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np

from agentic_gym.errors import ConfigError, InfraError, MissingDependency, UserError
from agentic_gym.rewards.credit.base import CreditBatch, Floats, Invariance
from agentic_gym.rewards.credit.process import shaped

Prefix = tuple[str, tuple[str, ...]]
"""Text of the first observation, and of each turn so far: its action, then its observation."""

PrefixModel = Callable[[str, Sequence[str]], float]
"""Says of a prefix how good things look."""


@runtime_checkable
class BatchModel(Protocol):
    """A model that takes many prefixes at once."""

    def score(self, prefixes: Sequence[Prefix]) -> Sequence[float]:
        """How good things look after each prefix."""
        ...


@dataclass(frozen=True, slots=True)
class ModelPotential:
    """Potential differences of a model's scores: ``Φ = clip(scale · score, -bound, bound)``.

    Attributes:
        model: a function of prompt and turns so far; something with ``score``; an import path
            ``module:object`` of either; or the checkpoint of a :class:`ClassifierModel`.
        scale: of the scores.
        bound: of |Φ|. Scores that reach it are counted (``process_clipped``).
        solve: what the environment pays for solving: more than two states can differ by, ``2·bound``.
        bootstrap_truncated: as the estimator has it.

    Raises:
        ConfigError: a number is out of range, or there is no such model.
    """

    model: PrefixModel | BatchModel | str
    scale: float = 0.4
    bound: float = 0.4
    solve: float = 1.0
    bootstrap_truncated: bool = False
    invariance: Invariance = Invariance.OPTIMAL_POLICY
    needs_attention: bool = False
    _score: Callable[[Sequence[Prefix]], Sequence[float]] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if not math.isfinite(self.scale):
            raise ConfigError(f"scale={self.scale!r} must be finite")
        if not 0 < 2 * self.bound < self.solve < math.inf:
            raise ConfigError(
                f"bound={self.bound!r} lets two states differ by {2 * self.bound:g}, and solving pays "
                f"solve={self.solve!r}: give a bound over 0 and under half of it"
            )
        object.__setattr__(self, "_score", _scorer(self.model))

    def assign(self, batch: CreditBatch, rewards_N: Floats) -> Floats:
        """See :class:`~agentic_gym.rewards.credit.base.CreditAssigner`.

        Raises:
            InfraError: the model broke, or a score is no finite number; the message says whose.
        """
        goes_on = self.bootstrap_truncated
        return shaped(batch, rewards_N, self.potentials(batch), bootstrap_truncated=goes_on)

    def potentials(self, batch: CreditBatch) -> list[Floats | None]:
        """Φ before each turn of each trajectory and after its last.  # [K + 1] each

        Raises:
            InfraError: see :meth:`assign`.
        """
        owned: list[list[Prefix]] = []
        for trajectory in batch.trajectories:
            texts = tuple(f"{turn.action}\n{turn.observation}" for turn in trajectory.turns)
            owned.append([(trajectory.prompt, texts[:k]) for k in range(len(texts) + 1)])
        # Episodes of one task begin alike: each prefix is scored once.
        asked = list(dict.fromkeys(prefix for prefixes in owned for prefix in prefixes))
        scores = dict(zip(asked, self._scores(asked), strict=True))
        found: list[Floats | None] = []
        for trajectory, prefixes in zip(batch.trajectories, owned, strict=True):
            values = np.asarray([scores[prefix] for prefix in prefixes], np.float64)
            if not np.isfinite(values).all():
                turn = int(np.flatnonzero(~np.isfinite(values))[0])
                raise InfraError(
                    f"the process-reward model says {values[turn]} of trajectory "
                    f"{trajectory.trajectory_id} before turn {turn}: it must give a finite number"
                )
            batch.count("process_clipped", float((np.abs(self.scale * values) > self.bound).sum()))
            found.append(np.clip(self.scale * values, -self.bound, self.bound))
        return found

    def _scores(self, prefixes: Sequence[Prefix]) -> list[float]:
        try:
            scores = [float(score) for score in self._score(prefixes)]
        except (UserError, InfraError):
            raise
        except Exception as error:
            raise InfraError(
                f"the process-reward model broke on {len(prefixes)} prefixes: "
                f"{type(error).__name__}: {error}"
            ) from error
        if len(scores) != len(prefixes):
            raise InfraError(
                f"the process-reward model gave {len(scores)} scores for {len(prefixes)} prefixes"
            )
        return scores


class ClassifierModel:
    """A sequence-classification checkpoint as a model of progress, in [0, 1].

    One label is read as a logit, of several the probability of ``label`` is taken. The text is the prompt and
    the turns, an empty line between them; of longer ones the last ``max_tokens`` tokens are read, and
    ``num_cut`` counts them. It is loaded when it is first needed.

    Args:
        checkpoint: folder or name.
        label: which label means that things look good; the last by default.
        max_tokens: read of a text.
        batch_size: texts at once.
        device: where it runs.

    Raises:
        ConfigError: a number is out of range.
    """

    def __init__(
        self,
        checkpoint: str,
        *,
        label: int = -1,
        max_tokens: int = 2_048,
        batch_size: int = 8,
        device: str = "cpu",
    ) -> None:
        if max_tokens < 1 or batch_size < 1:
            raise ConfigError(
                f"max_tokens={max_tokens} and batch_size={batch_size} must be positive"
            )
        self.num_cut = 0
        self._checkpoint = checkpoint
        self._label = label
        self._max_tokens = max_tokens
        self._batch_size = batch_size
        self._device = device
        self._lock = threading.Lock()
        self._loaded: tuple[Any, Any] | None = None

    def load(self) -> None:
        """Loads the checkpoint, unless it was.

        Raises:
            ConfigError: it cannot be loaded, is none of a classifier, or has no such label.
            MissingDependency: transformers is not installed.
        """
        with self._lock:
            if self._loaded is None:
                self._loaded = self._load()

    def score(self, prefixes: Sequence[Prefix]) -> list[float]:
        """Probability that things look good after each prefix. Raises as :meth:`load`."""
        self.load()
        texts = ["\n\n".join((prompt, *turns)) for prompt, turns in prefixes]
        # Texts of like length together, so that little is computed on padding.
        order = sorted(range(len(texts)), key=lambda number: len(texts[number]))
        scores = [0.0] * len(texts)
        for first in range(0, len(order), self._batch_size):
            rows = order[first : first + self._batch_size]
            for row, score in zip(rows, self._run([texts[row] for row in rows]), strict=True):
                scores[row] = score
        return scores

    def _load(self) -> tuple[Any, Any]:
        try:
            from transformers import AutoModelForSequenceClassification, AutoTokenizer
        except ImportError as error:
            raise MissingDependency("agentic-gym[train]", "a process-reward model") from error
        try:
            tokenizer = AutoTokenizer.from_pretrained(self._checkpoint)
            model, report = AutoModelForSequenceClassification.from_pretrained(
                self._checkpoint, output_loading_info=True
            )
        except (OSError, ValueError) as error:
            raise ConfigError(f"{self._checkpoint!r} cannot be loaded: {error}") from error
        if report["missing_keys"]:  # a language model without a head would get one made of noise
            missing = ", ".join(sorted(report["missing_keys"])[:3])
            raise ConfigError(
                f"{self._checkpoint!r} is no trained classifier: it has no weights for {missing}"
            )
        count = model.config.num_labels
        if not -count <= self._label < count:
            raise ConfigError(f"label={self._label}, but {self._checkpoint!r} has {count} labels")
        if tokenizer.pad_token_id is None:
            tokenizer.pad_token = tokenizer.eos_token
        if model.config.pad_token_id is None:
            model.config.pad_token_id = tokenizer.pad_token_id
        tokenizer.truncation_side = "left"
        return tokenizer, model.to(self._device).eval()

    def _run(self, texts: list[str]) -> list[float]:
        import torch

        if self._loaded is None:
            raise InfraError("the process-reward model is not loaded")
        tokenizer, model = self._loaded
        limit = self._max_tokens
        whole = tokenizer(texts)["input_ids"]
        if not all(whole):
            raise InfraError(
                f"the tokenizer of {self._checkpoint!r} reads nothing in a text of "
                f"{len(texts[[bool(ids) for ids in whole].index(False)])} characters"
            )
        self.num_cut += sum(len(ids) > limit for ids in whole)
        rows = tokenizer(
            texts, truncation=True, max_length=limit, padding=True, return_tensors="pt"
        ).to(self._device)
        with torch.inference_mode():
            logits = model(**rows).logits.float()  # [B, labels]
            if logits.shape[1] == 1:
                scores = torch.sigmoid(logits[:, 0])
            else:
                scores = torch.softmax(logits, dim=1)[:, self._label]
        return [float(score) for score in scores.tolist()]


def _scorer(model: object) -> Callable[[Sequence[Prefix]], Sequence[float]]:
    """The model as a function of many prefixes."""
    if isinstance(model, str):
        module, separator, name = model.partition(":")
        if not separator:
            return ClassifierModel(model).score
        try:
            model = getattr(importlib.import_module(module), name)
        except (ImportError, AttributeError, ValueError) as error:
            raise ConfigError(f"model={module}:{name} cannot be imported: {error}") from error
    if isinstance(model, BatchModel) and not isinstance(model, type):
        return model.score
    if not callable(model):
        raise ConfigError(f"model={model!r} is neither a function nor has a score method")
    ask = model
    return lambda prefixes: [ask(prompt, turns) for prompt, turns in prefixes]
