from __future__ import annotations

import math

import pytest
import torch

from agentic_gym.trainers import losses


def test_an_all_masked_batch_gives_a_finite_zero() -> None:
    theta = torch.full((2, 3), float("nan"), requires_grad=True)
    nan = torch.full((2, 3), float("nan"))
    nowhere = torch.zeros(2, 3, dtype=torch.bool)
    policy = losses.policy_term(theta, nan, nan, nan, count=0, mask=nowhere).loss
    value = losses.value_term(theta, nan, nan, count=0, mask=nowhere)
    kl = losses.masked_mean(losses.kl_k3(theta, nan, nowhere), count=0, mask=nowhere)
    total = policy + value + kl
    (gradient,) = torch.autograd.grad(total, theta)
    assert total.item() == 0.0
    assert bool((gradient == 0).all())


def test_an_empty_batch_gives_a_finite_zero() -> None:
    none = torch.zeros(0, requires_grad=True)
    loss = losses.policy_term(none, none, none, none, count=0).loss
    (gradient,) = torch.autograd.grad(loss, none)
    assert loss.item() == 0.0
    assert gradient.shape == (0,)


def test_tokens_over_the_cap_are_masked_but_stay_in_the_divisor() -> None:
    zero = torch.zeros(4, dtype=torch.float64)
    proximal = torch.tensor([0.0, 0.0, math.log(6.0), math.log(4.0)], dtype=torch.float64)
    term = losses.policy_term(
        proximal, proximal, zero, torch.ones(4, dtype=torch.float64), count=4, weight_cap=5.0
    )
    assert term.capped.tolist() == [False, False, True, False]
    assert term.loss.item() == pytest.approx(-(1 + 1 + 0 + 4) / 4)


def test_the_weight_carries_no_gradient() -> None:
    """The gradient of a sample is w·A·∇log π."""
    theta = torch.tensor([-1.0], dtype=torch.float64, requires_grad=True)
    proximal = torch.tensor([-1.0], dtype=torch.float64, requires_grad=True)
    behaviour = torch.tensor([-1.5], dtype=torch.float64)
    advantage = torch.tensor([2.0], dtype=torch.float64)
    loss = losses.policy_term(theta, proximal, behaviour, advantage, count=1, clip_high=9).loss
    toward_theta, toward_proximal = torch.autograd.grad(loss, (theta, proximal))
    assert toward_theta.item() == pytest.approx(-2.0 * math.exp(0.5))
    # Only through the ratio's denominator, which the trainer holds constant; not through w.
    assert toward_proximal.item() == pytest.approx(2.0 * math.exp(0.5))


@pytest.mark.parametrize(
    ("ratio", "advantage", "moves"),
    [(1.5, 1.0, False), (1.5, -1.0, True), (0.5, 1.0, True), (0.5, -1.0, False), (1.1, 1.0, True)],
)
def test_the_clip_stops_only_moves_that_went_far_enough(
    ratio: float, advantage: float, moves: bool
) -> None:
    theta = torch.tensor([math.log(ratio)], requires_grad=True)
    zero = torch.zeros(1)
    term = losses.policy_term(theta, zero, zero, torch.tensor([advantage]), count=1)
    (gradient,) = torch.autograd.grad(term.loss, theta)
    assert bool(gradient != 0) is moves
    assert bool(term.clipped) is not moves


def test_effective_sample_size() -> None:
    assert losses.effective_sample_size(torch.ones(7)) == pytest.approx(1.0)
    assert losses.effective_sample_size(torch.tensor([1.0, 0, 0, 0])) == pytest.approx(0.25)
    assert losses.effective_sample_size(torch.zeros(0)) == 1.0


def test_an_absurd_ratio_gives_no_nan() -> None:
    theta = torch.tensor([-0.1, -0.1], requires_grad=True)
    proximal = torch.tensor([-500.0, -500.0])
    term = losses.policy_term(theta, proximal, proximal, torch.tensor([0.0, -1.0]), count=2)
    (gradient,) = torch.autograd.grad(term.loss, theta)
    assert bool(torch.isfinite(term.loss))
    assert bool(torch.isfinite(gradient).all())
