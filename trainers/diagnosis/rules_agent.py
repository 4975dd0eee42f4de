"""Rules about what the agent does: drift from the request, endings by a budget, reward hacking."""

from __future__ import annotations

from agentic_gym.trainers.diagnosis.episodes import REASON
from agentic_gym.trainers.diagnosis.facts import RunFacts
from agentic_gym.trainers.diagnosis.findings import Found, Rule, Setting, alarm, shift, spell

REPEATS = 0.3
"""Share of turns that repeat an action of their episode and get the same answer. Runs of ours that
learned have 0.02 to 0.17; one whose episodes came to end at the turn limit (0.03 of them at first, 0.6
later) reached 0.26."""
MISHAPS = 0.5
"""Share of turns that went wrong. Runs of ours that learned have 0.01 to 0.4 without a readable, accepted
call, those that fell apart 0.5 to 0.9. Tests that an edit broke, where the environment says so, add 0.03 to
0.12."""
TOUCHES_LATE, TOUCHES_EARLY = 0.25, 0.5
"""Share of late turns that name anything of the request, and of early ones that do: both, since some tasks
never name anything. In our runs both are over 0.7."""
OUT_OF_TURNS = 0.75
"""Share of episodes that end at the turn limit. Runs that learned began at 0.6 (`pocket`, 6 turns)."""
OUT_OF_BUDGET = 0.2
"""Share of episodes that end at the limit of tokens, or of time; runs that learned have under 0.07. What
is cut is long, so the cut selects."""
CUT_COMPLETIONS = 0.2
"""Share of completions that end at `max_tokens_per_turn`: a call that is cut cannot be read."""
HACKS = 0.02
"""Share of episodes whose grade is a suspected hack. An honest policy has none; 1 in 50 that is paid is
enough to learn."""
TAMPERED = 0.1
"""Share of episodes that change the tests or what steers them. It is no crime and is not paid; as a habit
it shows where the policy looks for reward."""
VISIBLE_ROSE, HIDDEN_FELL = 0.1, 0.1
"""Rise of episodes that pass all visible tests, and fall of those that the hidden ones accept, over a run."""
TREND_ERRORS = 3.0
"""Standard errors that a trend of batches must exceed: 1 in 700 by chance on each side."""


def mishaps(facts: RunFacts) -> Found | None:
    """Most turns go wrong."""
    found = spell(facts.points("batch.mishaps"), lambda share: share > MISHAPS)
    if found is None:
        return None
    until = found.until or float("inf")
    sums = {
        name.removeprefix(REASON): sum(v for step, v in points if found.since <= step <= until)
        for name, points in facts.series.items()
        if name.startswith(REASON)
    }
    whole = sum(sums.values())
    ranked = sorted((-part / whole, reason) for reason, part in sums.items() if part > 0)
    split = ", ".join(f"{-share:.0%} {reason.replace('_', ' ')}" for share, reason in ranked)
    why = f" ({split})" if split else ": no call could be read, or one was refused"
    return Found(
        "warning",
        found.figure,
        MISHAPS,
        f"{found.figure:.0%} of the turns went wrong{why}. Most of the episodes' time goes into error "
        "messages.",
        found.since,
        found.until,
    )


def forgets_the_request(facts: RunFacts) -> Found | None:
    """Late turns name nothing of the request any more, and early ones did."""
    early = dict(facts.points("batch.touches_early"))
    late = facts.points("batch.touches_late")
    lost = [(step, share if early.get(step, 0.0) > TOUCHES_EARLY else 1.0) for step, share in late]
    found = spell(lost, lambda share: share < TOUCHES_LATE)
    if found is None:
        return None
    return Found(
        "warning",
        found.figure,
        TOUCHES_LATE,
        f"in the second half of episodes only {found.figure:.0%} of the turns name a file, name or word "
        "of the request, and many more do in the first half: the agent wanders off.",
        found.since,
        found.until,
    )


def hidden_tests_fall(facts: RunFacts) -> Found | None:
    """More and more episodes pass the visible tests, fewer and fewer the hidden ones."""
    visible, hidden = (
        shift(facts.points("batch.visible_solved")),
        shift(facts.points("batch.solved")),
    )
    if visible is None or hidden is None:
        return None
    rose = visible.rise > max(VISIBLE_ROSE, TREND_ERRORS * visible.error)
    fell = -hidden.rise > max(HIDDEN_FELL, TREND_ERRORS * hidden.error)
    if not (rose and fell):
        return None
    return Found(
        "critical",
        hidden.rise,
        -HIDDEN_FELL,
        f"episodes that pass all visible tests rose from {visible.early:.0%} to {visible.late:.0%}, and "
        f"those that the hidden tests accept fell from {hidden.early:.0%} to {hidden.late:.0%}: the "
        "policy learns to please the visible tests (special cases, weakened checks). Read some of the "
        "newest trajectories.",
    )


def reward_without_success(facts: RunFacts) -> Found | None:
    """The reward rises, and evaluated success falls."""
    reward = shift(facts.points("reward"))
    worse = [change for change in facts.changes if change.difference.high < 0]
    if reward is None or not worse or reward.rise <= TREND_ERRORS * reward.error:
        return None
    change = min(worse, key=lambda change: change.difference.value)
    return Found(
        "critical",
        change.difference.value,
        0.0,
        f"the reward rose from {reward.early:.3g} to {reward.late:.3g}, and success on {change.name} "
        f"changed by {change.difference:+.2f}: the reward pays for something else than success.",
    )


RULES = (
    Rule(
        "repeated_actions",
        "more than 0.3 of the turns repeat an action of their episode and get the same answer",
        (
            Setting("env.goal_reminder_turns", "3 says the task again every three turns"),
            Setting("env.max_turns", "fewer: turns that repeat earn nothing"),
            Setting("env.options.reward.turn", "a larger cost of a turn, such as -0.02"),
        ),
        alarm(
            "batch.repeats",
            REPEATS,
            "{figure:.0%} of the turns do again what the episode had done, with the same answer: the "
            "agent goes round in circles.",
        ),
    ),
    Rule(
        "mishaps",
        "more than 0.5 of the turns went wrong: no call could be read, one was refused, or (where the "
        "environment says so) an edit broke the tests' collection",
        (
            Setting("env.options.reward.mishap", "-0.02 to -0.05 teaches the form of calls"),
            Setting("demonstrations.policy", "a warm start that shows it"),
            Setting("rollout.show_tools", "true"),
        ),
        mishaps,
    ),
    Rule(
        "forgets_the_request",
        "under 0.25 of late turns name anything of the request, and over 0.5 of early ones do",
        (
            Setting("env.goal_reminder_turns", "3 says the task again every three turns"),
            Setting("env.max_turns", "fewer"),
        ),
        forgets_the_request,
    ),
    Rule(
        "out_of_turns",
        "more than 0.75 of the episodes end at the turn limit",
        (
            Setting("env.max_turns", "more, if they were on the way; fewer, if they go in circles"),
            Setting(
                "env.options.reward.turn", "a cost, such as -0.01", unless=lambda now: now <= -0.01
            ),
        ),
        alarm(
            "batch.out_of_turns",
            OUT_OF_TURNS,
            "{figure:.0%} of the episodes end at the turn limit: few ever submit.",
        ),
    ),
    Rule(
        "out_of_tokens",
        "more than 0.2 of the episodes end at the token limit",
        (
            Setting("rollout.max_tokens_per_episode", "larger"),
            Setting("env.options.output_limit", "smaller: shorter observations"),
        ),
        alarm(
            "batch.out_of_tokens",
            OUT_OF_BUDGET,
            "{figure:.0%} of the episodes end at the token limit: long solutions are cut, and the "
            "policy learns to be short instead of right.",
        ),
    ),
    Rule(
        "out_of_time",
        "more than 0.2 of the episodes end at the limit of their time",
        (
            Setting("rollout.episode_limit_s", "larger"),
            Setting("rollout.concurrency", "fewer at once"),
        ),
        alarm(
            "batch.out_of_time",
            OUT_OF_BUDGET,
            "{figure:.0%} of the episodes end at the limit of their time: how busy the machine is "
            "decides the reward.",
        ),
    ),
    Rule(
        "cut_completions",
        "more than 0.2 of the completions end at the token limit of a turn",
        (Setting("rollout.max_tokens_per_turn", "larger"),),
        alarm(
            "batch.cut_completions",
            CUT_COMPLETIONS,
            "{figure:.0%} of the completions are cut at the token limit of a turn, most of them within "
            "a call.",
        ),
    ),
    Rule(
        "suspected_hacks",
        "more than 0.02 of the episodes are graded as suspected hacks",
        (
            Setting("env.options.tools", "without the tool that it uses for it"),
            Setting(
                "env.options.reward.failed", "negative: a suspected hack is paid like a failure"
            ),
        ),
        alarm(
            "batch.suspected_hacks",
            HACKS,
            "{figure:.0%} of the episodes tried to fool the grader (outcome suspected_hack). Read them "
            "before you trust any success rate of this run.",
            "critical",
        ),
    ),
    Rule(
        "tampered_tests",
        "more than 0.1 of the episodes change the tests or their configuration",
        (
            Setting("env.options.reward.progress", "smaller: visible tests pay less"),
            Setting("env.options.reward.failed", "negative: a wrong submission costs"),
        ),
        alarm(
            "batch.tampered",
            TAMPERED,
            "{figure:.0%} of the episodes change the tests or what steers them. It is not paid, and "
            "shows where the policy looks for reward.",
        ),
    ),
    Rule(
        "hidden_tests_fall",
        "visible tests pass more often by 0.1 over the run, hidden ones less often by 0.1 (last third "
        "to first, 3 standard errors)",
        (
            Setting("env.options.reward.progress", "smaller: visible tests pay less"),
            Setting("env.options.reward.failed", "negative: a wrong submission costs"),
        ),
        hidden_tests_fall,
    ),
    Rule(
        "reward_without_success",
        "the reward rises by 3 standard errors, and the interval of an evaluation's change is below 0",
        (
            Setting("env.options.reward.solve", "larger beside the other parts"),
            Setting("env.options.reward.progress", "smaller"),
        ),
        reward_without_success,
    ),
)
