"""Rules about what there is to learn from: groups, tasks of a batch, credit, evaluations."""

from __future__ import annotations

from statistics import median

from agentic_gym.trainers.diagnosis.facts import RunFacts
from agentic_gym.trainers.diagnosis.findings import Found, Rule, Setting, alarm, shift, spell
from agentic_gym.trainers.diagnosis.rules_agent import TREND_ERRORS, reward_without_success

GROUPS_FAILED, GROUPS_SOLVED = 0.9, 0.9
"""Share of groups in which nobody, or everybody, solves the task. With p(1-p) as signal the band of 20 to
80 % is what teaches; runs that learned ended at 0.88 solved."""
GROUPS_EQUAL = 0.75
"""Share of groups of equal reward, which give advantages of exactly 0 (DAPO refills them)."""
NO_SPREAD = 1e-6
"""Deviation of the rewards of a batch, below which there is nothing to learn from."""
STARVING = 0.5
"""Classes that the selector counts as trained far less than their quota of late; one is too many."""
MIN_TASKS = 8
"""Tasks of a batch. A solve rate over 8 tasks has a standard error of 0.18: below, updates follow the
luck of the draw."""
GAMMA_LEFT = 0.5
"""γ^T that the end of an episode should still be worth at its beginning: γ ≥ 1 - 0.69/T."""
LATE_REWARD = 0.9
"""Share of all reward that falls on the last turn, from which it is called sparse."""
MANY_TURNS = 8.0
"""Mean turns from which credit for a reward at the end is long delayed."""
LATE_CREDIT = 0.6
"""Share of what tokens earn that falls on the last turn. Spread evenly over 8 turns it would be 0.13; by
attention half of it stays there (its beta), and with a reward at the end alone 0.7 to 1, as turns cost."""
NO_RISE = 0.15
"""Rise of the share of solved episodes, over a run, that must be ruled out (by 3 standard errors) before
success is said not to rise. Of simulated runs that rise by as much, under 1 in 100 is called flat."""
ENOUGH = 12
"""Updates that this needs: thirds of four, or their scatter is anything."""
SOME, MOST = 0.05, 0.8
"""Shares of solved episodes between which success has room to rise and is there to be credited at all."""


def equal_groups(facts: RunFacts) -> Found | None:
    """Groups of equal reward, where advantages are differences within groups."""
    if not facts.by_groups:
        return None
    return alarm(
        "batch.groups_equal",
        GROUPS_EQUAL,
        "{figure:.0%} of the groups have equal rewards and give advantages of exactly 0: the update is "
        "made of the others.",
    )(facts)


def credit_too_late(facts: RunFacts) -> Found | None:
    """Reward only at the end of long episodes, and a discount that leaves little of it at their beginning."""
    gamma = facts.settings.number("ppo.gamma")
    spread = set(facts.settings.credit) - {"outcome", "turn_gae", "token_gae"}
    if gamma is None or facts.settings.estimator not in ("turn_gae", "token_gae") or spread:
        return None
    late = spell(facts.points("batch.last_reward"), lambda share: share >= LATE_REWARD)
    steps = [value for _, value in facts.points("batch.turns")]
    if late is None or not steps or sum(steps) / len(steps) < MANY_TURNS:
        return None
    length = sum(steps) / len(steps)
    left = gamma**length
    if left >= GAMMA_LEFT:
        return None
    return Found(
        "warning",
        left,
        GAMMA_LEFT,
        f"the reward falls on the last turn, {length:.0f} turns after the beginning, where a discount of "
        f"{gamma:g} leaves {left:.2f} of it: first decisions hardly learn from the end.",
        late.since,
        late.until,
    )


def late_credit(facts: RunFacts) -> Found | None:
    """Long episodes whose tokens earn nearly everything in the last turn, and success that does not rise.

    Late credit alone is no fault: a reward for solving is always late, and a value head or λ = 1 carries it
    back. Nor has it a place where a group is compared by its sums: there each token gets all of it.
    """
    if facts.by_groups or credit_too_late(facts) is not None or _may_rise(facts):
        return None
    turns = dict(facts.points("batch.turns"))
    late = [
        (step, share if turns.get(step, 0.0) >= MANY_TURNS else 0.0)
        for step, share in facts.points("late_credit_share")
    ]
    found = spell(late, lambda share: share > LATE_CREDIT)
    if found is None or found.until is not None:
        return None
    length = median(n for step, n in turns.items() if step >= found.since and n >= MANY_TURNS)
    return Found(
        "warning",
        found.figure,
        LATE_CREDIT,
        f"{found.figure:.0%} of what tokens earn falls on the last of {length:.0f} turns (evenly spread it "
        f"would be {1 / length:.0%}), and success does not rise: what led to it is hardly told from what "
        f"did not.{_heard(facts, length)}",
        found.since,
    )


def _heard(facts: RunFacts, length: float) -> str:
    """How much of the end the first turn hears without the value head, where λ counts turns."""
    gamma, lam = facts.settings.number("ppo.gamma"), facts.settings.number("ppo.gae_lambda")
    adaptive = facts.settings.number("ppo.extra.adaptive_lambda", 0.0)
    if facts.settings.estimator != "turn_gae" or gamma is None or lam is None or adaptive:
        return ""
    left = (gamma * lam) ** (length - 1)
    return (
        f" Until the value head knows something, the first turn hears {left:.2f} of it (gamma {gamma:g}, "
        f"lambda {lam:g})."
    )


def _may_rise(facts: RunFacts) -> bool:
    """Whether success rises, or may: by evaluations or batches, too few of them, or no room."""
    if any(change.difference.low > 0 for change in facts.changes):
        return True
    batches = facts.points("batch.solved")
    solved = shift(batches)
    if solved is None or len(batches) < ENOUGH or not SOME <= solved.late <= MOST:
        return True
    slack = TREND_ERRORS * solved.error
    return solved.rise > slack or solved.rise + slack >= NO_RISE


def no_evidence_of_learning(facts: RunFacts) -> Found | None:
    """Evaluations after training are not above those before."""
    known = [c for c in facts.changes if c.difference.value == c.difference.value]
    if not known or any(c.difference.low > 0 or c.difference.high < 0 for c in known):
        return None
    best = max(known, key=lambda change: change.difference.low)
    reward = shift(facts.points("reward"))
    rose = reward is not None and reward.rise > TREND_ERRORS * reward.error
    but = (
        " The reward rose meanwhile: it learned its training tasks, or its reward." if rose else ""
    )
    return Found(
        "note",
        best.difference.low,
        0.0,
        f"success on {best.name} changed by {best.difference:+.2f}: the interval holds 0, so the run "
        f"shows no learning.{but} More updates may give a rise, more tasks or samples a narrower interval.",
    )


def evaluated_worse(facts: RunFacts) -> Found | None:
    """Success fell by more than chance."""
    worse = [change for change in facts.changes if change.difference.high < 0]
    if not worse or reward_without_success(facts) is not None:
        return None
    change = min(worse, key=lambda change: change.difference.value)
    return Found(
        "critical",
        change.difference.value,
        0.0,
        f"success on {change.name} changed by {change.difference:+.2f}: training made the policy worse.",
    )


_HARDER = Setting("env.train_options", "a task set or split of another difficulty")


RULES = (
    Rule(
        "groups_all_failed",
        "nobody solves the task in more than 0.9 of the groups",
        (
            _HARDER,
            Setting("demonstrations.policy", "a warm start"),
            Setting("env.options.reward.progress", "0.2 pays for parts of a solution"),
            Setting("ppo.group_size", "larger: a rare success is seen more often"),
        ),
        alarm(
            "batch.groups_failed",
            GROUPS_FAILED,
            "nobody solves the task in {figure:.0%} of the groups: it is too hard for this policy, and "
            "reward for success teaches nothing.",
        ),
    ),
    Rule(
        "groups_all_solved",
        "everybody solves the task in more than 0.9 of the groups",
        (_HARDER, Setting("ppo.updates", "fewer: the run is done")),
        alarm(
            "batch.groups_solved",
            GROUPS_SOLVED,
            "everybody solves the task in {figure:.0%} of the groups: there is little left to learn "
            "from these tasks.",
            "note",
        ),
    ),
    Rule(
        "starving_classes",
        "an error class was trained far less than its quota of late (`selection` with `+diversity`)",
        (
            Setting("selection_options.explore", "higher: every task comes up more often"),
            Setting("selection_options.low", "lower: its tasks may be too hard for the band"),
            Setting("selection_options.high", "higher: or too easy"),
        ),
        alarm(
            "selection_starving_classes",
            STARVING,
            "{figure:.0f} error classes were trained far less than their quota of late: what the report "
            "shows as starving is not learned.",
        ),
    ),
    Rule(
        "equal_groups",
        "rewards are equal in more than 0.75 of the groups (`credit: group`)",
        (
            Setting("ppo.group_size", "larger"),
            _HARDER,
            Setting("credit", "turn_gae, which compares across tasks"),
        ),
        equal_groups,
    ),
    Rule(
        "no_spread",
        "the rewards of a whole batch are equal",
        (Setting("env.options.reward.progress", "0.2 pays for parts of a solution"), _HARDER),
        alarm(
            "batch.reward_spread",
            NO_SPREAD,
            "all episodes of a batch have the same reward: there is nothing to learn from.",
            "critical",
            below=True,
        ),
    ),
    Rule(
        "few_tasks",
        "a batch has fewer than 8 tasks",
        (
            Setting("ppo.episodes_per_update", "larger"),
            Setting("ppo.group_size", "smaller"),
        ),
        alarm(
            "batch.tasks",
            MIN_TASKS,
            "a batch has {figure:.0f} tasks: updates follow the luck of which ones were drawn.",
            below=True,
        ),
    ),
    Rule(
        "credit_too_late",
        "0.9 of the reward falls on the last turn, episodes have 8 turns or more, and `gamma` leaves "
        "under half",
        (
            Setting("ppo.gamma", "1 - 0.69 / turns, or 1"),
            Setting("credit", "attention, or process with env.train_options.process_state"),
            Setting("env.options.reward.progress", "0.2 pays on the way"),
        ),
        credit_too_late,
    ),
    Rule(
        "late_credit",
        "more than 0.6 of what tokens earn falls on the last turn (`late_credit_share`), episodes have 8 "
        "turns or more, and success does not rise (`credit` with a value head)",
        (
            Setting(
                "ppo.gae_lambda",
                "1, while the value head explains little",
                unless=lambda now: now == 1,
            ),
            Setting(
                "credit",
                "attention, or process with env.train_options.process_state; or group with ppo.group_size 8, "
                "which needs no value head",
            ),
            Setting("env.options.reward.progress", "0.2 pays on the way"),
        ),
        late_credit,
    ),
    Rule(
        "no_evidence_of_learning",
        "the interval of no evaluation's change excludes 0",
        (
            Setting("ppo.updates", "more"),
            Setting("evaluations.*.num_tasks", "0 takes all tasks"),
            Setting("evaluations.*.samples", "4 narrows the interval a little"),
        ),
        no_evidence_of_learning,
    ),
    Rule(
        "evaluated_worse",
        "the interval of an evaluation's change is below 0, and the reward did not rise",
        (
            Setting("ppo.learning_rate", "halve it"),
            Setting("ppo.kl_coef", "0.01 holds on to the policy that training started from"),
            Setting("ppo.ramp_updates", "3"),
        ),
        evaluated_worse,
    ),
)
