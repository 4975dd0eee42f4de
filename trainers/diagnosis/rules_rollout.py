"""Rules about where time goes and what breaks: waiting, tools, grading, prefill, stragglers,
infrastructure."""

from __future__ import annotations

from agentic_gym.trainers.diagnosis.facts import RunFacts
from agentic_gym.trainers.diagnosis.findings import Found, Points, Rule, Setting, alarm, spell

# ---- thresholds ------------------------------------------------------------------------------------

TRAINER_IDLE = 0.8
"""Share of time that the trainer waits. A synchronous run of ours waits 0.4 to 0.65; at 0.8 it is
rollouts that a run is made of, and speeding up anything else cannot save more than a fifth."""
ENGINE_IDLE = 0.6
"""Share of samples without a request in the engine. A synchronous run idles while it trains (0.4 to 0.5)."""
SLOW_WHEN = 0.5
"""Share of an update that the trainer must wait before a cause of slow rollouts is worth naming."""
TOOL_SHARE = 0.5
"""Of the episodes' seconds in the environment's steps: more than the model takes."""
GRADING_SHARE = 0.3
"""Of the episodes' seconds in the grading of a submission; ours takes 0.05."""
OTHER_SHARE = 0.5
"""Of the episodes' seconds outside of turns: reset, grading at a budget, waiting for a thread."""
STRAGGLERS = 5.0
"""P99 over P50 of an episode's seconds. Runs of ours have 1.5 to 4; a synchronous batch waits for its
longest."""
PREFILL_SHARE = 0.5
"""Share of the seconds of later turns that goes with the length of the context instead of what is sampled."""
QUEUE_TIMES = 2.0
"""Median wait for a slot, in medians of an episode: the third round of a batch."""
KV_FULL = 0.9
"""Mean use of the fullest replica's cache: above, hardly another episode fits. An engine that gives its cache
out by blocks preempts requests then, and computes their prefixes again; how often is not measured. The
embedded one preempts nothing: each request has a row of its own or waits for one."""
PARKED = 0.05
"""Share of the episodes' time that they were interrupted: under 5 % in RollPacker, where the trainer also
prints a note."""
INFRA_SHARE = 0.05
"""Broken episodes for each that trained. One in twenty is retried without notice; in NeMo-Gym#2552 nine
in ten had failed at reset and trained as reward 0."""
DROPPED_SHARE = 0.1
"""Of all launched, that were dropped: played, mostly, and never trained."""


def _while_slow(facts: RunFacts, name: str) -> Points:
    """A series at the updates whose batch the trainer had to wait for."""
    waits = dict(facts.points("update.wait_share"))
    return [(s, v if waits.get(s, 0.0) > SLOW_WHEN else 0.0) for s, v in facts.points(name)]


def _cause(facts: RunFacts, name: str, limit: float, sentence: str) -> Found | None:
    found = spell(_while_slow(facts, name), lambda value: value > limit)
    if found is None:
        return None
    words = sentence.format(figure=found.figure)
    return Found("warning", found.figure, limit, words, found.since, found.until)


def trainer_idle(facts: RunFacts) -> Found | None:
    """The trainer waits for rollouts nearly all the time."""
    found = spell(facts.points("update.wait_share"), lambda share: share > TRAINER_IDLE)
    if found is None:
        return None
    parts = {
        "sampling": facts.points("batch.generate_share"),
        "tools": facts.points("batch.tool_share"),
        "grading": facts.points("batch.grading_share"),
        "reset and the rest": facts.points("batch.other_share"),
    }
    means = {name: sum(v for _, v in ps) / len(ps) for name, ps in parts.items() if ps}
    split = ", ".join(f"{share:.0%} {name}" for name, share in means.items())
    spent = f" An episode's time is {split}." if split else ""
    return Found(
        "note",
        found.figure,
        TRAINER_IDLE,
        f"the trainer waits for rollouts {found.figure:.0%} of the time.{spent}",
        found.since,
        found.until,
    )


def slow_tools(facts: RunFacts) -> Found | None:
    """Most of an episode is spent in the environment."""
    return _cause(
        facts,
        "batch.tool_share",
        TOOL_SHARE,
        "rollouts are slow because of tools: {figure:.0%} of the episodes' seconds pass in the "
        "environment's steps.",
    )


def slow_grading(facts: RunFacts) -> Found | None:
    """Grading takes much of an episode."""
    return _cause(
        facts,
        "batch.grading_share",
        GRADING_SHARE,
        "rollouts are slow because of grading: {figure:.0%} of the episodes' seconds pass in hidden tests.",
    )


def slow_resets(facts: RunFacts) -> Found | None:
    """Most of an episode is outside of its turns."""
    return _cause(
        facts,
        "batch.other_share",
        OTHER_SHARE,
        "{figure:.0%} of the episodes' seconds are outside of turns: resets, grading at a budget, or "
        "episodes that wait for a thread or a sandbox.",
    )


def slow_prefill(facts: RunFacts) -> Found | None:
    """A turn costs what it reads, not what it samples."""
    return _cause(
        facts,
        "batch.prefill_share",
        PREFILL_SHARE,
        "{figure:.0%} of the seconds of later turns go with the length of the context: prefixes are "
        "computed again each turn (no cache between turns, or sessions that change replica).",
    )


def stragglers(facts: RunFacts) -> Found | None:
    """A few episodes take many times as long as the others."""
    return _cause(
        facts,
        "batch.straggler_ratio",
        STRAGGLERS,
        "the longest episodes take {figure:.1f} times the median, and the batch waits for them.",
    )


def queue_wait(facts: RunFacts) -> Found | None:
    """Episodes wait for a slot longer than they are played."""
    played = dict(facts.points("episode_s_p50"))
    waits = [
        (step, wait / played[step])
        for step, wait in facts.points("queue_wait_s_p50")
        if played.get(step, 0.0) > 0
    ]
    found = spell(waits, lambda times: times > QUEUE_TIMES)
    if found is None:
        return None
    return Found(
        "note",
        found.figure,
        QUEUE_TIMES,
        f"half of the episodes wait {found.figure:.1f} times as long for a slot as an episode takes.",
        found.since,
        found.until,
    )


def infra_errors(facts: RunFacts) -> Found | None:
    """Episodes break."""
    sizes = dict(facts.points("trajectories"))
    shares = [(s, n / sizes[s]) for s, n in facts.points("infra_errors") if sizes.get(s, 0.0) > 0]
    found = spell(shares, lambda share: share > INFRA_SHARE)
    if found is None:
        return None
    return Found(
        "warning",
        found.figure,
        INFRA_SHARE,
        f"{found.figure:.0%} as many episodes broke (infra_error) as trained: sandbox, engine or "
        "grader. They are played again and cost time; where long ones break more often, the batch is "
        "biased to short ones.",
        found.since,
        found.until,
    )


def dropped(facts: RunFacts) -> Found | None:
    """Many episodes are launched and never trained."""
    counts = facts.counts
    share = sum(counts.dropped.values()) / max(counts.launches, 1)
    if share <= DROPPED_SHARE:
        return None
    reason, number = max(counts.dropped.items(), key=lambda item: item[1])
    return Found(
        "warning",
        share,
        DROPPED_SHARE,
        f"{share:.0%} of all episodes were dropped, most of them ({number}) because: {reason}.",
    )


_ASYNC = Setting(
    "schedule",
    "bounded_async or streaming: rollouts go on while the trainer works",
    unless=lambda now: now in ("bounded_async", "streaming", "relay"),
)

RULES = (
    Rule(
        "trainer_idle",
        "the trainer waits more than 0.8 of the time",
        (
            _ASYNC,
            Setting("rollout.concurrency", "larger, while the engine is not full"),
            Setting("rollout.replicas", "more"),
            Setting("ppo.ppo_epochs", "more: episodes are dear"),
        ),
        trainer_idle,
    ),
    Rule(
        "engine_idle",
        "the engine has no request more than 0.6 of the time",
        (
            _ASYNC,
            Setting("rollout.concurrency", "larger, where episodes wait for tools"),
            Setting("rollout.replicas", "fewer", unless=lambda now: now == 1),
        ),
        alarm(
            "engine_idle_share",
            ENGINE_IDLE,
            "the engine has nothing to do {figure:.0%} of the time: it waits for the trainer or for tools.",
            "note",
        ),
    ),
    Rule(
        "slow_tools",
        "the trainer waits, and more than 0.5 of the episodes' seconds are in the environment's steps",
        (
            Setting("env.options.sandboxes", "as many as cores"),
            Setting("env.options.cache_tests", "50000, where tests are deterministic"),
            Setting("env.options.test_timeout_s", "smaller"),
            Setting("rollout.concurrency", "larger: others sample meanwhile"),
        ),
        slow_tools,
    ),
    Rule(
        "slow_grading",
        "the trainer waits, and more than 0.3 of the episodes' seconds are in grading",
        (
            Setting("env.options.adaptive_grading", "true"),
            Setting("env.options.cache_tests", "50000, where tests are deterministic"),
            Setting("env.options.sandboxes", "as many as cores"),
        ),
        slow_grading,
    ),
    Rule(
        "slow_resets",
        "the trainer waits, and more than 0.5 of the episodes' seconds are outside of turns",
        (
            Setting("env.options.sandboxes", "as many as cores"),
            Setting("rollout.concurrency", "fewer at once"),
        ),
        slow_resets,
    ),
    Rule(
        "slow_prefill",
        "the trainer waits, and more than 0.5 of the seconds of later turns go with the length of the "
        "context",
        (
            Setting("env.options.output_limit", "smaller: shorter observations"),
            Setting("rollout.concurrency", "fewer, so that caches last between turns"),
            Setting(
                "schedule_options.on_publish", "keep_kv computes no prefix again after a publish"
            ),
        ),
        slow_prefill,
    ),
    Rule(
        "stragglers",
        "the trainer waits, and P99 of an episode's seconds is over 5 times the median",
        (
            Setting("schedule", "tail_batching (strictly on-policy), bounded_async or streaming"),
            Setting("rollout.longest_first", "true"),
            Setting("rollout.episode_limit_s", "smaller"),
        ),
        stragglers,
    ),
    Rule(
        "queue_wait",
        "the median wait for a slot is over twice the median of an episode",
        (
            Setting("rollout.concurrency", "larger"),
            Setting("rollout.replicas", "more"),
            Setting("rollout.longest_first", "true: the long ones do not begin last"),
        ),
        queue_wait,
    ),
    Rule(
        "kv_pressure",
        "the fullest replica's cache is used to more than 0.9, where `kv_used_share` is recorded",
        (
            Setting("rollout.concurrency", "smaller"),
            Setting("rollout.max_tokens_per_episode", "smaller"),
            Setting("rollout.replicas", "more"),
        ),
        alarm(
            "kv_used_share",
            KV_FULL,
            "the fullest replica's cache is {figure:.0%} full: hardly another episode fits. The embedded "
            "engine lets requests wait for a row; others may preempt some and compute their prefixes again.",
            "note",
        ),
    ),
    Rule(
        "parked",
        "episodes spend more than 0.05 of their time interrupted",
        (
            Setting("ppo.episodes_per_update", "smaller"),
            Setting("schedule_options.reserve", "0.1 lets them go on beside a short round"),
            Setting("schedule_options.max_wait_rounds", "fewer"),
        ),
        alarm(
            "parked_share",
            PARKED,
            "episodes spend {figure:.0%} of their time interrupted, holding a sandbox.",
        ),
    ),
    Rule(
        "infra_errors",
        "for each 20 trained episodes, more than one broke",
        (
            Setting("rollout.concurrency", "fewer at once"),
            Setting("env.options.backend", "another sandbox (agentic-gym doctor shows what works)"),
            Setting("schedule_options.max_retries", "more, if they break by chance"),
        ),
        infra_errors,
    ),
    Rule(
        "dropped",
        "more than 0.1 of all episodes were dropped",
        (
            Setting("schedule_options.response_redundancy", "1.0"),
            Setting("schedule_options.prompt_redundancy", "smaller"),
            Setting("schedule_options.max_retries", "more"),
        ),
        dropped,
    ),
)
