import numpy as np
import pytest
import torch

from agentic_gym.engines.sampling import noise_key, sample, uniforms


def test_uniforms_are_uniform_and_distinct() -> None:
    keys = np.array([noise_key(0, str(i)) for i in range(200)], dtype=np.uint64).repeat(50)
    drawn = uniforms(keys, np.tile(np.arange(50), 200))
    assert len(set(drawn.tolist())) == len(drawn)
    assert drawn.min() >= 0
    assert drawn.max() < 1
    counts, _ = np.histogram(drawn, bins=10, range=(0, 1))
    assert np.abs(counts - 1000).max() < 5 * np.sqrt(1000)
    assert abs(np.corrcoef(drawn[:-1], drawn[1:])[0, 1]) < 0.05


def test_sampled_shares_are_the_probabilities() -> None:
    logits = torch.tensor([[0.0, 1.0, 2.0, -50.0]])
    noise = torch.from_numpy(uniforms(np.full(4_000, 7, dtype=np.uint64), np.arange(4_000)))
    tokens, _, _ = sample(logits.expand(4_000, 4), torch.full((4_000,), 2.0), noise)
    shares = torch.bincount(tokens, minlength=4) / 4_000
    assert (shares - (logits[0] / 2.0).softmax(-1)).abs().max() < 0.03


def test_logprobs_are_at_the_sampling_temperature() -> None:
    logits = torch.randn(3, 11, generator=torch.Generator().manual_seed(0))
    temperatures = torch.tensor([0.0, 0.5, 1.7])
    tokens, logprobs, finite = sample(logits, temperatures, torch.full((3,), 0.4).double())
    assert finite.tolist() == [True] * 3
    assert tokens[0] == logits[0].argmax()
    for row, temperature in enumerate([1.0, 0.5, 1.7]):
        expected = (logits[row] / temperature).log_softmax(-1)[tokens[row]]
        assert logprobs[row].item() == pytest.approx(expected.item(), abs=1e-6)


@pytest.mark.parametrize("noise", [0.0, 0.3, 1 - 2**-53])
def test_a_token_of_no_probability_is_never_sampled(noise: float) -> None:
    logits = torch.tensor([[-1e30, 0.0, 0.0, -1e30]])
    tokens, _, _ = sample(logits, torch.ones(1), torch.tensor([noise], dtype=torch.float64))
    assert tokens.item() in (1, 2)


def test_a_row_with_nan_is_named_and_the_others_are_not_touched() -> None:
    logits = torch.randn(3, 5, generator=torch.Generator().manual_seed(1))
    noise = torch.tensor([0.2, 0.5, 0.9], dtype=torch.float64)
    clean, _, _ = sample(logits, torch.ones(3), noise)
    logits[1, 2] = float("nan")
    tokens, _, finite = sample(logits, torch.ones(3), noise)
    assert finite.tolist() == [True, False, True]
    assert tokens[[0, 2]].tolist() == clean[[0, 2]].tolist()


def test_a_forced_token_is_taken_with_its_own_logprob() -> None:
    logits = torch.randn(3, 7, generator=torch.Generator().manual_seed(2))
    noise, temperatures = torch.full((3,), 0.5).double(), torch.tensor([1.0, 0.0, 2.0])
    free, _, _ = sample(logits, temperatures, noise)
    forced = torch.tensor([-1, 6, 2])
    tokens, logprobs, _ = sample(logits, temperatures, noise, forced=forced)
    assert tokens.tolist() == [free[0].item(), 6, 2]
    for row, temperature in enumerate([1.0, 1.0, 2.0]):
        expected = (logits[row] / temperature).log_softmax(-1)[tokens[row]]
        assert logprobs[row].item() == pytest.approx(expected.item(), abs=1e-6)
