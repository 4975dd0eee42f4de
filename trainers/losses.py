"""The terms of the PPO objective, as pure functions of tensors.

Every function takes tensors of one shape (``[N]`` over the sampled tokens of a micro-batch, or
``[B, T]`` with a mask) and returns a *sum divided by a given count*. The count is that of the whole
optimiser step over all devices, so that a token weighs the same whatever micro-batch it falls into.
Dividing by each micro-batch's own count was rejected: it makes the loss depend on the layout.

Sources: decoupled PPO of AReaL (arXiv 2505.24298, section 5), of which PPO (arXiv 1707.06347,
equation 7) is the special case behaviour = proximal; value clipping and GAE's companion loss as in
"The 37 implementation details of PPO"; the k3 estimator of KL by J. Schulman, "Approximating KL
divergence" (2020).

Masked entries are replaced *before* any exponential, so that a NaN or an infinity that stands in
padding reaches neither the loss nor the gradient.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class PolicyTerm:
    """The clipped surrogate and what it measured.

    Attributes:
        loss: scalar, to be minimised.
        ratio: π_θ/π_p, detached; 1 where masked.
        weight: π_p/π_b, detached; 1 where masked.
        clipped: where the clip was active.
        capped: where the weight was over its cap, so that the token was masked.
    """

    loss: Tensor
    ratio: Tensor
    weight: Tensor
    clipped: Tensor
    capped: Tensor


def policy_term(
    logprobs: Tensor,
    proximal: Tensor,
    behaviour: Tensor,
    advantages: Tensor,
    *,
    count: float,
    clip_low: float = 0.2,
    clip_high: float = 0.2,
    weight_cap: float = 5.0,
    mask: Tensor | None = None,
) -> PolicyTerm:
    """Decoupled PPO: ``-Σ m·sg[w]·min(u·A, clip(u, 1-ε, 1+ε)·A) / count``.

    ``u = π_θ/π_p`` is what the clip bounds, ``w = π_p/π_b`` corrects for who sampled. Tokens whose
    weight is over the cap are masked but stay in the count. With behaviour = proximal this is PPO.

    Args:
        logprobs: of the tokens under the current policy, with gradient.
        proximal: under the weights before this update.
        behaviour: under the weights that sampled the token.
        advantages: one a token.
        count: divisor: policy tokens of the whole optimiser step.
        clip_low: ε below one.
        clip_high: ε above one.
        weight_cap: largest ``w`` that trains.
        mask: True where the policy made the token; None for everywhere.
    """
    if mask is not None:
        logprobs = torch.where(mask, logprobs, 0.0)
        proximal = torch.where(mask, proximal, 0.0)
        behaviour = torch.where(mask, behaviour, 0.0)
        advantages = torch.where(mask, advantages, 0.0)
    # Bounded, since an infinite ratio times an advantage of 0 would be NaN; far outside any clip.
    ratio = torch.exp((logprobs - proximal).clamp(-20, 20))
    weight = torch.exp((proximal - behaviour).clamp(-20, 20))
    capped = weight > weight_cap
    plain = ratio * advantages
    limited = ratio.clamp(1 - clip_low, 1 + clip_high) * advantages
    scale = torch.where(capped, 0.0, weight).detach()
    loss = -(scale * torch.minimum(plain, limited)).sum() / max(count, 1.0)
    return PolicyTerm(
        loss=loss,
        ratio=ratio.detach(),
        weight=weight.detach(),
        clipped=(limited < plain).detach(),
        capped=capped.detach(),
    )


def value_term(
    values: Tensor,
    old_values: Tensor,
    returns: Tensor,
    *,
    count: float,
    clip: float | None = 0.2,
    mask: Tensor | None = None,
) -> Tensor:
    """Half the squared error, pessimistic under a change of more than ``clip`` from the old value.

    Args:
        values: predictions with gradient.
        old_values: predictions before this update.
        returns: targets.
        count: divisor: value targets of the whole optimiser step.
        clip: largest change that is rewarded; None for no limit.
        mask: True where there is a target; None for everywhere.
    """
    if mask is not None:
        values = torch.where(mask, values, 0.0)
        old_values = torch.where(mask, old_values, 0.0)
        returns = torch.where(mask, returns, 0.0)
    error = (values - returns).square()
    if clip is not None:
        near = old_values + (values - old_values).clamp(-clip, clip)
        error = torch.maximum(error, (near - returns).square())
    return 0.5 * error.sum() / max(count, 1.0)


def kl_k3(logprobs: Tensor, reference: Tensor, mask: Tensor | None = None) -> Tensor:
    """The k3 estimate of KL(π_θ ‖ π_ref) of each token, sampled from π_θ: ``e^d - 1 - d``, d = ref - θ.

    Never negative, unbiased, and zero exactly where the two agree.

    Args:
        logprobs: of the sampled tokens under the current policy.
        reference: under the reference policy.
        mask: True where the policy made the token; elsewhere the answer is 0.
    """
    gap = reference - logprobs
    if mask is not None:
        gap = torch.where(mask, gap, 0.0)
    return torch.exp(gap) - 1 - gap


def masked_mean(values: Tensor, *, count: float, mask: Tensor | None = None) -> Tensor:
    """Sum over the mask divided by a given count; a finite 0 when there is nothing."""
    if mask is not None:
        values = torch.where(mask, values, 0.0)
    return values.sum() / max(count, 1.0)


def effective_sample_size(weights: Tensor) -> float:
    """Kish's effective share of samples, ``(Σw)² / (N·Σw²)``: 1 when all weights are equal.

    Args:
        weights: importance weights of the tokens, ``[N]``.

    Returns:
        A share in (0, 1]; 1 for no tokens.
    """
    if weights.numel() == 0:
        return 1.0
    wide = weights.double()
    return float(wide.sum().square() / (wide.numel() * wide.square().sum()).clamp_min(1e-300))
