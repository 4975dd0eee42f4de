"""All rules, and what they find in a run."""

from __future__ import annotations

from collections.abc import Iterator

from agentic_gym.errors import ConfigError
from agentic_gym.trainers.diagnosis import (
    rules_agent,
    rules_gradients,
    rules_learning,
    rules_policy,
    rules_rollout,
    rules_versions,
)
from agentic_gym.trainers.diagnosis.facts import RunFacts
from agentic_gym.trainers.diagnosis.findings import SEVERITIES, Finding, Rule, Setting
from agentic_gym.trainers.schedules.registry import schedule_options

RULES: tuple[Rule, ...] = (
    *rules_policy.RULES,
    *rules_gradients.RULES,
    *rules_versions.RULES,
    *rules_learning.RULES,
    *rules_agent.RULES,
    *rules_rollout.RULES,
)
_OPTION, _ENV_OPTION = "schedule_options.", "env.options."
_TRAIN_OPTION = "env.train_options."
_SWE = "agentic_gym/SWE-v0"
"""The environment whose options the rules name."""


def diagnose(facts: RunFacts) -> tuple[Finding, ...]:
    """What is wrong: the gravest first, what still holds before what is over."""
    findings = []
    for rule in RULES:
        found = rule.check(facts)
        if found is not None:
            findings.append(
                Finding(
                    rule.name,
                    found.severity,
                    found.figure,
                    found.threshold,
                    found.since,
                    found.until,
                    found.sentence,
                    tuple(_readable(rule, facts)),
                )
            )
    return tuple(
        sorted(findings, key=lambda f: (SEVERITIES.index(f.severity), f.until is not None))
    )


def _readable(rule: Rule, facts: RunFacts) -> Iterator[Setting]:
    """The rule's settings that this run's schedule and environment read, with what they are now."""
    for setting in rule.settings:
        if setting.key.startswith(_ENV_OPTION) and facts.settings.get("env.id", _SWE) != _SWE:
            continue
        if setting.key.startswith(_OPTION) and not _reads(
            facts.settings.schedule, setting.key.removeprefix(_OPTION)
        ):
            continue
        key = _where(setting.key, facts)
        now = facts.settings.get(key)
        if now is None or not setting.unless(now):
            yield Setting(key, setting.advice, now)


def _where(key: str, facts: RunFacts) -> str:
    """The key as the run has it: an option may be one of the training environment alone."""
    own = key.replace(_ENV_OPTION, _TRAIN_OPTION, 1) if key.startswith(_ENV_OPTION) else key
    return key if facts.settings.get(own) is None else own


def _reads(schedule: str | None, option: str) -> bool:
    if schedule is None:
        return True
    try:
        return option in schedule_options(schedule)
    except ConfigError:  # one of the user's own that cannot be imported here
        return True
