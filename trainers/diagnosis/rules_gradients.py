"""Rules about gradients: what is not finite, what jumps, and where in the model it began."""

from __future__ import annotations

import math
from statistics import median

from agentic_gym.trainers.diagnosis.facts import RunFacts
from agentic_gym.trainers.diagnosis.findings import Found, Rule, Setting, Severity
from agentic_gym.trainers.model_parts import PREFIX, began_in

SPIKE_TIMES = 10.0
"""Of the median of the updates before. Norms of neighbours differ by less than twice in our runs; a cache
that was not cleared took SkyRL from 8 to 136 (SkyRL#2246)."""
SPIKE_HISTORY = 3
"""Updates with a gradient that a spike is measured against."""

_WATCHED = ("policy_loss", "value_loss", "entropy", "approx_kl", "grad_norm", "value_grad_norm")


def _precision(part: str) -> str:
    if part.startswith("router"):
        return " A router overflows first: compute its logits in float32, on both sides."
    if part == "head":
        return " The output layer overflows first in half precision: keep logits in float32."
    return ""


def gradient_not_finite(facts: RunFacts) -> Found | None:
    """A NaN or an infinity: in what stopped the run, or in what was measured."""
    return _stopped(facts) if facts.nonfinite else _measured(facts)


def _stopped(facts: RunFacts) -> Found:
    last = facts.nonfinite[-1]
    passed = any(step >= last.update for step, _ in facts.points("policy_loss"))
    whose = f", first in trajectory {last.whose}" if last.whose else ""
    count = f" ({last.count} of them{whose})" if last.count else ""
    began = "" if last.count else _first_layer(facts)
    then = " The run has passed this update since." if passed else ""
    return Found(
        "note" if passed else "critical",
        float(last.count),
        0.0,
        f"update {last.update} stopped the run: {last.problem}{count}.{began}{then} The batch is in "
        f"{last.path.name}.",
        last.update,
        last.update if passed else None,
    )


def _measured(facts: RunFacts) -> Found | None:
    bad = {
        step: name
        for name in _WATCHED
        for step, value in facts.points(name)
        if not math.isfinite(value)
    }
    if not bad:
        return None
    first, last = min(bad), max(bad)
    names = [
        n for n in _WATCHED if any(s == first and not math.isfinite(v) for s, v in facts.points(n))
    ]
    over = any(step > last for step, _ in facts.points(names[0]))
    return Found(
        "critical",
        float(len(bad)),
        0.0,
        f"not finite in {len(bad)} updates: first {', '.join(names)}.{_first_layer(facts)}",
        first,
        last if over else None,
    )


def _first_layer(facts: RunFacts) -> str:
    """Where in the model the first NaN was, or what grew most before the run stopped."""
    layers = [(n.removeprefix(PREFIX), p) for n, p in facts.series.items() if n.startswith(PREFIX)]
    broken = [
        (step, name)
        for name, points in layers
        for step, value in points
        if not math.isfinite(value)
    ]
    if broken:
        step = min(step for step, _ in broken)
        name = began_in(name for at, name in broken if at == step)
        return f" It began in the gradient of {name}.{_precision(name)}"
    grown = _grown(facts, None)
    return (
        ""
        if grown is None
        else f" Before, the gradient of {grown[0]} had grown {grown[1]:.0f}-fold."
    )


def _grown(facts: RunFacts, update: int | None) -> tuple[str, float] | None:
    """The part of the model whose gradient outgrew its own past most, at an update (None: the last)."""
    best: tuple[str, float] | None = None
    for name, points in facts.series.items():
        if not name.startswith(PREFIX):
            continue
        until = [(s, v) for s, v in points if update is None or s <= update]
        past = [v for _, v in until[:-1] if math.isfinite(v) and v > 0]
        if len(past) < SPIKE_HISTORY or (update is not None and until[-1][0] != update):
            continue
        times = until[-1][1] / median(past)
        if times > SPIKE_TIMES and (best is None or times > best[1]):
            best = (name.removeprefix(PREFIX), times)
    return best


def gradient_spike(facts: RunFacts) -> Found | None:
    """The norm of an update's gradient is a multiple of those before it."""
    worst: tuple[float, int, float] | None = None
    past: list[float] = []
    for step, norm in facts.points("grad_norm"):
        if math.isfinite(norm) and norm > 0:  # 0 while the value head trains alone
            if len(past) >= SPIKE_HISTORY and norm > SPIKE_TIMES * median(past):
                worst = worst or (norm, step, median(past))
            past.append(norm)
    if worst is None:
        return None
    norm, step, usual = worst
    grown = _grown(facts, step)
    where = (
        "" if grown is None else f" It began in {grown[0]}, {grown[1]:.0f} times its usual norm."
    )
    precision = "" if grown is None else _precision(grown[0])
    severity: Severity = "warning" if past[-1] > SPIKE_TIMES * usual else "note"
    calm = None if severity == "warning" else step
    return Found(
        severity,
        norm,
        SPIKE_TIMES * usual,
        f"the gradient norm jumped from {usual:.3g} to {norm:.3g}.{where}{precision}",
        step,
        calm,
    )


_SMALLER = Setting("ppo.learning_rate", "halve it")


RULES = (
    Rule(
        "gradient_not_finite",
        "a NaN or an infinity: in the batch that stopped the run, a loss, or a gradient (which layer)",
        (
            Setting("ppo.extra.bf16", "false: float32 tells whether it is precision"),
            Setting("ppo.extra.max_grad_norm", "lower"),
            _SMALLER,
        ),
        gradient_not_finite,
    ),
    Rule(
        "gradient_spike",
        "the gradient norm is 10 times its median before (which layer, where norms of layers are recorded)",
        (
            Setting("ppo.extra.max_grad_norm", "a few times the usual norm"),
            Setting("ppo.ramp_updates", "3, if it was an early update"),
            _SMALLER,
        ),
        gradient_spike,
    ),
)
