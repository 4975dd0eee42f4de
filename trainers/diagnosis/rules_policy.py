"""Rules about the policy: entropy, how far updates move it, value head, learning rate."""

from __future__ import annotations

import math
from statistics import median

from agentic_gym.trainers.diagnosis.facts import RunFacts
from agentic_gym.trainers.diagnosis.findings import NEED, WITHIN, Found, Rule, Setting, alarm, spell

ENTROPY_LEFT = 0.2
"""Of the entropy at the start. A policy that learns may lose half of it (the most in our runs on
`pocket`); below a fifth, samples of one task are copies of each other and there is nothing left to choose
from."""
ENTROPY_FLOOR = 0.05
"""Nats a token, above which no fall is called a collapse: untrained models have several, and may lose
most."""
ENTROPY_TIMES, ENTROPY_ROSE = 2.0, 0.5
"""A blow-up has at least twice the entropy of the start and half a nat more: a warm-started policy of
0.05 nats may triple it and learn well (our runs)."""
KL_ALARM = 0.1
"""KL within an update: the default of `target_kl`, some 50 times what our runs that learned have (0.002)."""
STOPPED_SHARE = NEED / WITHIN
"""Of the updates in a row that `target_kl` ended early; one in a while is what it is there for."""
CLIPPED = 0.3
"""Share of tokens at the clip: at 0.3 the surrogate has no gradient for a third of the batch. Our runs
have under 0.03."""
EXPLAINED = 1e-3
"""Explained variance up to which the value head is no better than the mean return (0), rounding included."""
EXPLAINED_AFTER = 3
"""Updates after its warm-up that a value head gets before it is judged."""
RAMP_SHARE = 0.5
"""Of all updates that may pass before the policy has its full learning rate."""


def _start(facts: RunFacts, name: str) -> float | None:
    first = [value for _, value in facts.points(name)[:3] if math.isfinite(value)]
    return median(first) if len(first) == 3 else None


def entropy_collapse(facts: RunFacts) -> Found | None:
    """Entropy is a small part of what it was."""
    start = _start(facts, "entropy")
    if start is None:
        return None
    limit = min(ENTROPY_LEFT * start, ENTROPY_FLOOR)
    low = spell(facts.points("entropy"), lambda entropy: entropy < limit)
    if low is None:
        return None
    asked = facts.settings.number("ppo.entropy_coef", 0.0) or 0.0
    why = f" The configuration asks for it: ppo.entropy_coef is {asked:g}." if asked < 0 else ""
    return Found(
        "critical",
        low.figure,
        limit,
        f"the policy has stopped exploring: entropy fell from {start:.3g} to {low.figure:.3g} nats a "
        f"token, so samples of one task hardly differ and groups carry no signal.{why}",
        low.since,
        low.until,
    )


def entropy_blow_up(facts: RunFacts) -> Found | None:
    """Entropy is a multiple of what it was."""
    start = _start(facts, "entropy")
    if start is None:
        return None
    limit = max(ENTROPY_TIMES * start, start + ENTROPY_ROSE)
    high = spell(facts.points("entropy"), lambda entropy: entropy > limit)
    if high is None:
        return None
    return Found(
        "critical",
        high.figure,
        limit,
        f"the policy dissolves into noise: entropy rose from {start:.3g} to {high.figure:.3g} nats a "
        "token; with negative advantages on most tokens, updates push probability to whatever was not "
        "sampled.",
        high.since,
        high.until,
    )


def kl_blow_up(facts: RunFacts) -> Found | None:
    """Updates move the policy too far, and nothing stops them."""
    stopped = {step for step, share in facts.points("stopped_early") if share > 0.5}
    free = [(step, kl) for step, kl in facts.points("approx_kl") if step not in stopped]
    far = spell(free, lambda kl: kl > KL_ALARM)
    if far is None:
        return None
    return Found(
        "critical",
        far.figure,
        KL_ALARM,
        f"each update moves the policy by a KL of {far.figure:.2g}: the batch no longer describes the policy "
        "that it trains, and the next batch is sampled from something else.",
        far.since,
        far.until,
    )


def target_kl_stops(facts: RunFacts) -> Found | None:
    """``target_kl`` ends update after update."""
    points = facts.after("stopped_early", facts.warm_up)
    stopped = spell(points, lambda share: share > 0.5)
    if stopped is None:
        return None
    until = math.inf if stopped.until is None else stopped.until
    spent = [value > 0.5 for step, value in points if stopped.since <= step <= until]
    share = sum(spent) / len(spent)
    return Found(
        "warning",
        share,
        STOPPED_SHARE,
        f"target_kl ended {share:.0%} of the updates early: the rest of each batch was played and not "
        "trained.",
        stopped.since,
        stopped.until,
    )


def value_useless(facts: RunFacts) -> Found | None:
    """Predictions are no better than the mean return."""
    if facts.by_groups:
        return None
    learned = facts.after("explained_variance", facts.warm_up + EXPLAINED_AFTER)
    poor = spell(learned, lambda share: share <= EXPLAINED)
    if poor is None:
        return None
    return Found(
        "warning",
        poor.figure,
        EXPLAINED,
        f"the value head explains {poor.figure:.2g} of the variance of returns: advantages are returns "
        "with noise added, and a plain mean would do better.",
        poor.since,
        poor.until,
    )


def never_at_full_rate(facts: RunFacts) -> Found | None:
    """The policy's learning rate is still rising, or it does not train at all, for most of the run."""
    updates = facts.settings.number("ppo.updates", 0.0) or 0.0
    ramp = facts.settings.number("ppo.ramp_updates", 0.0) or 0.0
    until = max(ramp, float(facts.warm_up))
    if not updates or until <= RAMP_SHARE * updates:
        return None
    what = "ramp_updates" if until == ramp else "value_warmup_updates"
    return Found(
        "warning",
        until,
        RAMP_SHARE * updates,
        f"the policy gets its full learning rate after update {until:.0f} of {updates:.0f} ({what}): "
        "most of the run's episodes train it with less, or not at all.",
    )


_SMALLER = Setting("ppo.learning_rate", "halve it")


RULES = (
    Rule(
        "entropy_collapse",
        "entropy falls under a fifth of its start and 0.05 nats a token",
        (
            Setting(
                "ppo.entropy_coef", "0.001 to 0.01 pays for entropy; a negative one asks for this"
            ),
            Setting("ppo.extra.clip_high", "0.28 lets rare tokens rise (DAPO)"),
            _SMALLER,
        ),
        entropy_collapse,
    ),
    Rule(
        "entropy_blow_up",
        "entropy rises to twice its start and by half a nat",
        (
            _SMALLER,
            Setting("ppo.kl_coef", "0.01 holds on to the policy that training started from"),
            Setting("ppo.entropy_coef", "0, if it is positive"),
        ),
        entropy_blow_up,
    ),
    Rule(
        "kl_blow_up",
        "KL within updates that `target_kl` does not end is over 0.1",
        (
            _SMALLER,
            Setting("ppo.target_kl", "0.05 ends updates before"),
            Setting("ppo.ppo_epochs", "1"),
        ),
        kl_blow_up,
    ),
    Rule(
        "target_kl_stops",
        "`target_kl` ends three of four updates early",
        (_SMALLER, Setting("ppo.ppo_epochs", "1"), Setting("ppo.minibatch_size", "larger")),
        target_kl_stops,
    ),
    Rule(
        "clipped",
        "more than 0.3 of the tokens are at the clip",
        (_SMALLER, Setting("ppo.ppo_epochs", "fewer")),
        alarm(
            "clip_fraction",
            CLIPPED,
            "{figure:.0%} of the tokens are at the clip and have no gradient: the steps are too large.",
        ),
    ),
    Rule(
        "value_useless",
        "explained variance is not above 0, three updates after the value head's warm-up",
        (
            Setting("ppo.value_learning_rate", "up to ten times, or a tenth if value_loss jumps"),
            Setting("ppo.value_warmup_updates", "3"),
            Setting(
                "credit",
                "group, which needs no value head (with ppo.group_size of 4 or more)",
            ),
        ),
        value_useless,
    ),
    Rule(
        "never_at_full_rate",
        "ramp or value warm-up last for more than half of the run",
        (
            Setting("ppo.ramp_updates", "3, or a tenth of ppo.updates"),
            Setting("ppo.value_warmup_updates", "1 to 3"),
            Setting("ppo.updates", "more"),
        ),
        never_at_full_rate,
    ),
)
