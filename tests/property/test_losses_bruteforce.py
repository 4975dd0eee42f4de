"""The loss terms against plain loops in float64."""

from __future__ import annotations

import math

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from agentic_gym.trainers import losses

seeds = st.integers(0, 2**31 - 1)
prop = settings(deadline=None, derandomize=True, max_examples=60)


def draw(seed: int, rows: int, width: int) -> dict[str, torch.Tensor]:
    rng = np.random.default_rng(seed)
    shape = (rows, width)
    arrays = {name: rng.normal(-2, 1.5, shape) for name in ("theta", "prox", "behave", "ref")}
    arrays |= {name: rng.normal(0, 2, shape) for name in ("adv", "value", "old", "ret")}
    tensors = {name: torch.tensor(array, dtype=torch.float64) for name, array in arrays.items()}
    tensors["mask"] = torch.tensor(rng.random(shape) < 0.6)
    return tensors


@prop
@given(seed=seeds, rows=st.integers(1, 4), width=st.integers(1, 7), cap=st.floats(0.5, 8))
def test_policy_term_is_the_sum_of_the_formula(
    seed: int, rows: int, width: int, cap: float
) -> None:
    d = draw(seed, rows, width)
    count = float(d["mask"].sum())
    expected = 0.0
    for b in range(rows):
        for t in range(width):
            if not d["mask"][b, t]:
                continue
            w = math.exp(d["prox"][b, t] - d["behave"][b, t])
            u = math.exp(d["theta"][b, t] - d["prox"][b, t])
            a = float(d["adv"][b, t])
            if w <= cap:
                expected -= w * min(u * a, min(max(u, 0.9), 1.3) * a)
    term = losses.policy_term(
        d["theta"], d["prox"], d["behave"], d["adv"],
        count=count, clip_low=0.1, clip_high=0.3, weight_cap=cap, mask=d["mask"],
    )  # fmt: skip
    assert math.isclose(float(term.loss), expected / max(count, 1), rel_tol=1e-9, abs_tol=1e-12)


@prop
@given(seed=seeds)
def test_decoupled_equals_plain_ppo_when_the_proximal_policy_sampled(seed: int) -> None:
    d = draw(seed, 3, 5)
    theta = d["theta"].requires_grad_()
    decoupled = losses.policy_term(theta, d["behave"], d["behave"], d["adv"], count=15)
    (gradient,) = torch.autograd.grad(decoupled.loss, theta)
    ratio = torch.exp(theta - d["behave"])
    plain = -torch.minimum(ratio * d["adv"], ratio.clamp(0.8, 1.2) * d["adv"]).sum() / 15
    (expected,) = torch.autograd.grad(plain, theta)
    torch.testing.assert_close(decoupled.loss, plain)
    torch.testing.assert_close(gradient, expected)


@prop
@given(seed=seeds, clip=st.one_of(st.none(), st.floats(0.05, 3)))
def test_value_term_is_the_sum_of_the_formula(seed: int, clip: float | None) -> None:
    d = draw(seed, 3, 5)
    expected = 0.0
    for v, o, r, m in zip(
        *(d[n].flatten().tolist() for n in ("value", "old", "ret", "mask")), strict=True
    ):
        if m:
            near = v if clip is None else o + min(max(v - o, -clip), clip)
            expected += 0.5 * max((v - r) ** 2, (near - r) ** 2)
    count = float(d["mask"].sum())
    loss = losses.value_term(d["value"], d["old"], d["ret"], count=count, clip=clip, mask=d["mask"])
    assert math.isclose(float(loss), expected / max(count, 1), rel_tol=1e-9, abs_tol=1e-12)


@prop
@given(seed=seeds)
def test_what_is_masked_reaches_neither_loss_nor_gradient(seed: int) -> None:
    """Divisors count unmasked tokens only, and garbage in padding (NaN too) changes nothing."""
    d = draw(seed, 3, 5)
    count = float(d["mask"].sum())
    results = []
    for garbage in (0.0, 1e30, float("nan"), float("inf")):
        x = {n: torch.where(d["mask"], d[n], garbage) for n in ("theta", "prox", "behave", "adv")}
        theta = x["theta"].requires_grad_()
        loss = losses.policy_term(
            theta, x["prox"], x["behave"], x["adv"], count=count, mask=d["mask"]
        ).loss
        (gradient,) = torch.autograd.grad(loss, theta)
        results.append((loss.detach(), gradient))
    for loss, gradient in results[1:]:
        assert torch.equal(loss, results[0][0])
        assert torch.equal(gradient, results[0][1])
        assert bool((gradient[~d["mask"]] == 0).all())


@prop
@given(seed=seeds)
def test_micro_batches_sum_to_the_whole(seed: int) -> None:
    d = draw(seed, 4, 6)
    count = float(d["mask"].sum())
    whole = losses.policy_term(
        d["theta"], d["prox"], d["behave"], d["adv"], count=count, mask=d["mask"]
    ).loss
    parts = [
        losses.policy_term(
            d["theta"][i], d["prox"][i], d["behave"][i], d["adv"][i], count=count, mask=d["mask"][i]
        ).loss
        for i in (slice(0, 1), slice(1, 4))
    ]
    torch.testing.assert_close(parts[0] + parts[1], whole)


@prop
@given(seed=seeds)
def test_k3_is_never_negative_and_zero_where_policies_agree(seed: int) -> None:
    d = draw(seed, 3, 5)
    kl = losses.kl_k3(d["theta"], d["ref"])
    assert bool((kl >= 0).all())
    assert bool((losses.kl_k3(d["theta"], d["theta"]) == 0).all())


def test_k3_estimates_the_kl_divergence() -> None:
    p = torch.tensor([0.7, 0.2, 0.1], dtype=torch.float64)
    q = torch.tensor([0.3, 0.3, 0.4], dtype=torch.float64)
    exact = float((p * (p / q).log()).sum())
    assert math.isclose(float((p * losses.kl_k3(p.log(), q.log())).sum()), exact, rel_tol=1e-12)
