"""Rules about who sampled what is trained: importance weights, engine against trainer, staleness."""

from __future__ import annotations

from agentic_gym.trainers.diagnosis.facts import RunFacts
from agentic_gym.trainers.diagnosis.findings import Found, Rule, Setting, alarm, spell
from agentic_gym.trainers.schedules.registry import schedule_options

ESS_ALARM = 0.3
"""Effective share of samples, (Σw)² / (n Σw²): below it, fewer than a third of the tokens carry the
update."""
PROBABILITY_ALARM = 0.01
"""Mean difference of a fresh token's probability, engine against trainer. Float32 on both sides has 5e-7
(our runs)."""
ENGINE_KL_ALARM = 0.1
"""KL of fresh tokens, engine against trainer; a healthy mixture of experts has 1.5e-3 (arXiv 2510.11370)."""
CAPPED = 0.05
"""Share of tokens whose weight is over `weight_cap`: they are sampled, scored and thrown away."""
GAP_ALARM = 5e-4
"""Of a log-probability after a publish: half of the publisher's tolerance of 1e-3, above which the run
stops. Float32 on both sides has 5e-7 (our runs)."""
AT_BOUND = 0.75
"""Mean staleness as a share of its bound. On average a run with slack is well below the bound; at it, the
engine always runs ahead until it is stopped."""
MIN_BOUND = 2
"""Bounds below leave nothing between fresh and bound."""


_BOUNDS = {"bounded_async": "max_staleness", "relay": "max_staleness", "streaming": "window"}
"""Option of a schedule that bounds the staleness of its batches."""


def staleness_at_bound(facts: RunFacts) -> Found | None:
    """Batches are as old as the schedule allows."""
    schedule = facts.settings.schedule
    name = _BOUNDS.get(schedule or "")
    if schedule is None or name is None:
        return None
    given = facts.settings.get(f"schedule_options.{name}")
    bound = schedule_options(schedule)[name] if given is None else given
    if not isinstance(bound, (int, float)) or bound < MIN_BOUND:
        return None
    old = spell(facts.points("staleness"), lambda mean: mean >= AT_BOUND * bound)
    if old is None:
        return None
    return Found(
        "note",
        old.figure,
        AT_BOUND * bound,
        f"tokens are {old.figure:.1f} versions old on average, and {name} allows {bound:g}: the engine "
        "runs ahead until the bound stops it, so a lower bound would cost no time.",
        old.since,
        old.until,
    )


RULES = (
    Rule(
        "low_ess",
        "the effective share of samples under the importance weights is under 0.3",
        (
            Setting("schedule_options.max_staleness", "lower"),
            Setting("schedule_options.window", "lower"),
            Setting("ppo.extra.weight_cap", "2 takes the heaviest tokens out"),
            Setting("ppo.extra.staleness_decay", "0.5 takes smaller steps on old batches"),
        ),
        alarm(
            "ess",
            ESS_ALARM,
            "the importance weights leave {figure:.0%} of the samples: a few tokens decide each update.",
            "critical",
            below=True,
        ),
    ),
    Rule(
        "capped_tokens",
        "more than 0.05 of the tokens are over `weight_cap` and do not train",
        (
            Setting("schedule_options.max_staleness", "lower"),
            Setting("schedule_options.window", "lower"),
            Setting(
                "ppo.extra.weight_cap", "higher, if the effective share of samples stays over 0.3"
            ),
        ),
        alarm(
            "capped_fraction",
            CAPPED,
            "{figure:.0%} of the tokens are over weight_cap: they were sampled and do not train.",
        ),
    ),
    Rule(
        "engine_mismatch",
        "a fresh token's probability differs by more than 0.01 between engine and trainer, on average",
        (
            Setting("ppo.extra.bf16", "the same precision as the engine"),
            Setting("rollout.temperature", "the one that the engine samples at"),
        ),
        alarm(
            "probability_mismatch",
            PROBABILITY_ALARM,
            "engine and trainer differ by {figure:.2g} in a fresh token's probability: what trains is "
            "not what was sampled. Precision, kernels, or a router that breaks ties otherwise.",
            "critical",
        ),
    ),
    Rule(
        "engine_kl",
        "KL of fresh tokens between engine and trainer is over 0.1",
        (
            Setting("ppo.extra.bf16", "the same precision as the engine"),
            Setting("ppo.extra.weight_cap", "2 takes the worst tokens out meanwhile"),
        ),
        alarm(
            "version_kl_0",
            ENGINE_KL_ALARM,
            "the engine's policy is a KL of {figure:.2g} away from the trainer's at the same weights.",
            "critical",
        ),
    ),
    Rule(
        "publish_gap",
        "after a publish a log-probability differs by more than 5e-4 (the run stops at 1e-3)",
        (Setting("ppo.extra.bf16", "false, or the same precision in the engine"),),
        alarm(
            "publish_gap",
            GAP_ALARM,
            "after publishing, engine and trainer differ by {figure:.2g} in a log-probability: near "
            "the tolerance at which the run stops (EngineMismatch).",
        ),
    ),
    Rule(
        "staleness_at_bound",
        "mean staleness is over 0.75 of the schedule's bound",
        (
            Setting("schedule_options.max_staleness", "one less, until the trainer begins to wait"),
            Setting("schedule_options.window", "one less, until the trainer begins to wait"),
            Setting("ppo.extra.staleness_decay", "0.5 takes smaller steps on old batches"),
        ),
        staleness_at_bound,
    ),
)
