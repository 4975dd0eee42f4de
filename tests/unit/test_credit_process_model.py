"""Potentials from a model: any function, or a classifier made on the spot."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    BertModel,
    PreTrainedTokenizerFast,
    Qwen2Config,
    Qwen2ForSequenceClassification,
)

from agentic_gym.errors import ConfigError, InfraError
from agentic_gym.rewards.credit.base import CreditBatch, batch_of
from agentic_gym.rewards.credit.plan import make_credit
from agentic_gym.rewards.credit.process_model import ClassifierModel, ModelPotential, Prefix
from agentic_gym.types import Outcome, TokenStream, Trajectory, Turn


def episode(*turns: tuple[str, str], truncated: bool = False, name: str = "t") -> Trajectory:
    """One sampled token a turn."""
    count = len(turns)
    stream = TokenStream(
        ids=np.zeros(count + 1, np.int32),
        sampled=np.arange(count + 1) > 0,
        logprobs=np.zeros(count + 1, np.float32),
        versions=np.zeros(count + 1, np.int32),
        turns=np.arange(-1, count, dtype=np.int32),
    )
    made = tuple(Turn(action, observation, 0.0) for action, observation in turns)
    end = (not truncated, truncated)
    return Trajectory(name, "k", "g", 0, "task", made, stream, Outcome.FAILED, *end)


def goodness(prompt: str, turns: Sequence[str]) -> float:
    """Share of the turns so far that say good."""
    return sum("good" in turn for turn in turns) / max(1, len(turns))


def assign(credit: ModelPotential, batch: CreditBatch) -> list[float]:
    return [float(x) for x in credit.assign(batch, np.zeros(len(batch.turns)))]


def test_a_function_gives_a_potential_of_the_prefix() -> None:
    trajectory = episode(("good", "."), ("bad", "."), ("bad", "good"))
    credit = ModelPotential(goodness, scale=0.2, bound=0.2)
    assert assign(credit, batch_of([trajectory])) == pytest.approx([0.2, -0.1, -0.1])
    assert assign(credit, batch_of([trajectory], gamma=0.5)) == pytest.approx([0.1, -0.15, -0.1])
    cut = batch_of([episode(("good", "."), ("bad", "."), truncated=True)])
    open_end = ModelPotential(goodness, scale=0.2, bound=0.2, bootstrap_truncated=True)
    assert assign(open_end, cut) == pytest.approx([0.2, -0.1])


def test_the_model_sees_what_came_before_and_each_prefix_once() -> None:
    asked: list[Prefix] = []

    class Counting:
        def score(self, prefixes: Sequence[Prefix]) -> list[float]:
            asked.extend(prefixes)
            return [float(len(turns)) for _, turns in prefixes]

    first, second = episode(("fix", "passed"), ("a", "b")), episode(("fix", "passed"), ("c", "d"))
    values = ModelPotential(Counting(), scale=0.1).potentials(batch_of([first, second]))
    assert asked == [
        ("task", ()),
        ("task", ("fix\npassed",)),
        ("task", ("fix\npassed", "a\nb")),
        ("task", ("fix\npassed", "c\nd")),
    ]
    assert [v.tolist() for v in values if v is not None] == [pytest.approx([0, 0.1, 0.2])] * 2


def test_scores_are_clipped_at_the_bound_and_counted() -> None:
    batch = batch_of([episode(("a", "b"), ("c", "d"))])
    credit = ModelPotential(lambda prompt, turns: 100.0 * len(turns) - 150.0, bound=0.3)
    (values,) = credit.potentials(batch)
    assert values is not None
    assert values.tolist() == [-0.3, -0.3, 0.3]
    assert batch.facts == {"process_clipped": 3.0}


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_model_that_answers_no_number_stops_the_training(bad: float) -> None:
    batch = batch_of(
        [episode(("a", "b"), name="fine"), episode(("a", "b"), ("c", "d"), name="odd")]
    )
    credit = ModelPotential(lambda prompt, turns: bad if len(turns) == 2 else 0.0)
    with pytest.raises(InfraError, match=f"says {bad} of trajectory odd before turn 2"):
        assign(credit, batch)


def test_a_model_that_breaks_stops_the_training() -> None:
    def broken(prompt: str, turns: Sequence[str]) -> float:
        return 1 / len(turns)

    class Short:
        def score(self, prefixes: Sequence[Prefix]) -> list[float]:
            return [0.0]

    batch = batch_of([episode(("a", "b"))])
    with pytest.raises(InfraError, match="broke on 2 prefixes: ZeroDivisionError") as raised:
        assign(ModelPotential(broken), batch)
    assert isinstance(raised.value.__cause__, ZeroDivisionError)
    with pytest.raises(InfraError, match="1 scores for 2 prefixes"):
        assign(ModelPotential(Short()), batch)


def test_a_batch_without_episodes_asks_nothing() -> None:
    assert assign(ModelPotential(goodness), batch_of([])) == []


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"model": f"{__name__}:goodnes"}, "cannot be imported"),
        ({"model": "no_such_module:f"}, "cannot be imported"),
        ({"model": 3}, "neither a function nor has a score method"),
        ({"model": goodness, "bound": 0.5}, "differ by 1, and solving pays solve=1"),
        ({"model": goodness, "bound": 0.0}, "bound=0"),
        ({"model": goodness, "scale": math.nan}, "scale=nan"),
        ({}, "model"),
    ],
)
def test_options_are_checked(options: dict[str, object], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        make_credit("model", options={"model": options})


def test_a_model_is_found_by_its_import_path() -> None:
    plan = make_credit("model", options={"model": {"model": "operator:length_hint"}})
    assert isinstance(plan.assigners[0], ModelPotential)


def tokenizer() -> PreTrainedTokenizerFast:
    """One token a byte."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {letter: i for i, letter in enumerate(("<|endoftext|>", *alphabet))}
    made = Tokenizer(models.BPE(vocabulary, []))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    end = "<|endoftext|>"
    return PreTrainedTokenizerFast(
        tokenizer_object=made, pad_token=end, eos_token=end, unk_token=end
    )


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Tiny random models: Bert with two labels, Qwen with one, and a Bert that is no classifier."""
    torch.manual_seed(0)
    small = {
        "vocab_size": 257,
        "hidden_size": 16,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "intermediate_size": 16,
        "pad_token_id": 0,
    }
    bert = BertConfig(**small, max_position_embeddings=64, num_labels=2, initializer_range=1.0)
    qwen = Qwen2Config(**small, num_key_value_heads=1, num_labels=1, initializer_range=1.0)
    made = {
        "bert": BertForSequenceClassification(bert),
        "qwen": Qwen2ForSequenceClassification(qwen),
        "headless": BertModel(bert),
    }
    folders = {}
    for name, model in made.items():
        folder = tmp_path_factory.mktemp(name)
        model.save_pretrained(folder)
        tokenizer().save_pretrained(folder)
        folders[name] = str(folder)
    return folders


PREFIXES: list[Prefix] = [
    ("task", ()),
    ("task", ("fix passed", "bad test failed")),
    ("task", ("good fix",)),
    ("task", ("bad", "bad", "bad")),
]


@pytest.mark.parametrize("kind", ["bert", "qwen"])
def test_a_checkpoint_scores_alike_alone_and_in_batches(
    kind: str, checkpoints: dict[str, str]
) -> None:
    together = ClassifierModel(checkpoints[kind], batch_size=3)
    scores = together.score(PREFIXES)
    alone = [together.score([prefix])[0] for prefix in PREFIXES]
    np.testing.assert_allclose(scores, alone, atol=1e-5)
    assert all(0 < score < 1 for score in scores)
    assert len({round(score, 4) for score in scores}) == len(scores)


def test_labels_are_chosen_and_add_up(checkpoints: dict[str, str]) -> None:
    bert = checkpoints["bert"]
    first = ClassifierModel(bert, label=0).score(PREFIXES)
    last = ClassifierModel(bert).score(PREFIXES)
    np.testing.assert_allclose(np.add(first, last), 1.0, atol=1e-5)
    with pytest.raises(ConfigError, match=r"label=2, but .* has 2 labels"):
        ClassifierModel(checkpoints["bert"], label=2).load()


@pytest.mark.parametrize("kind", ["bert", "qwen"])
def test_the_last_tokens_of_a_long_text_are_read(kind: str, checkpoints: dict[str, str]) -> None:
    model = ClassifierModel(checkpoints[kind], max_tokens=11)
    long, short = model.score([("task task task", ("fix", "test failed")), ("a", ("test failed",))])
    assert model.num_cut == 2
    (tail,) = model.score([("test failed", ())])
    assert model.num_cut == 2
    assert [long, short] == pytest.approx([tail, tail], abs=1e-5)


def test_a_text_without_tokens_is_an_error(checkpoints: dict[str, str]) -> None:
    with pytest.raises(InfraError, match="reads nothing in a text of 0 characters"):
        ClassifierModel(checkpoints["qwen"]).score([("task", ()), ("", ())])


def test_a_checkpoint_without_a_trained_head_is_refused(checkpoints: dict[str, str]) -> None:
    with pytest.raises(
        ConfigError, match="no trained classifier: it has no weights for classifier"
    ):
        ClassifierModel(checkpoints["headless"]).load()


def test_a_checkpoint_is_loaded_when_it_is_first_needed(
    tmp_path: Path, checkpoints: dict[str, str]
) -> None:
    missing = ModelPotential(str(tmp_path))
    with pytest.raises(ConfigError, match="cannot be loaded"):
        assign(missing, batch_of([episode(("a", "b"))]))
    credit = ModelPotential(checkpoints["qwen"], scale=0.4)
    rewards = assign(credit, batch_of([episode(("good", "fix"), ("bad", "test failed"))]))
    assert sum(rewards) == pytest.approx(0.0, abs=1e-12)
    assert any(rewards)


@pytest.mark.parametrize("wrong", [{"max_tokens": 0}, {"batch_size": 0}])
def test_sizes_are_positive(wrong: dict[str, int]) -> None:
    with pytest.raises(ConfigError, match="must be positive"):
        ClassifierModel("x", **wrong)  # type: ignore[arg-type]
