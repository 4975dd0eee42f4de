"""Findings as text for people and as JSON."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from agentic_gym.trainers.diagnosis.facts import RunFacts
from agentic_gym.trainers.diagnosis.findings import NEED, Finding


def to_dict(facts: RunFacts, findings: Sequence[Finding]) -> dict[str, Any]:
    """JSON-able; a figure that is not finite becomes null."""
    return {
        "run": facts.name,
        "updates": facts.updates,
        "findings": [
            {
                "name": f.name,
                "severity": f.severity,
                "figure": f.figure if math.isfinite(f.figure) else None,
                "threshold": f.threshold,
                "since_update": f.since,
                "until_update": f.until,
                "sentence": f.sentence,
                "settings": [{"key": s.key, "now": s.now, "advice": s.advice} for s in f.settings],
            }
            for f in findings
        ],
    }


def render(facts: RunFacts, findings: Sequence[Finding]) -> str:
    """Text for people: one paragraph a finding."""
    plural = "" if facts.updates == 1 else "s"
    lines = [f"{facts.name}: {facts.updates} update{plural}, {_count(len(findings))}"]
    if facts.updates < NEED:
        lines.append(f"Most rules need {NEED} updates: look again later.")
    for finding in findings:
        lines += ["", *_paragraph(finding)]
    return "\n".join(lines)


def _count(findings: int) -> str:
    return "nothing found" if not findings else f"{findings} finding{'' if findings == 1 else 's'}"


def _paragraph(finding: Finding) -> list[str]:
    sentence = finding.sentence[0].upper() + finding.sentence[1:]
    lines = [
        f"{finding.severity.upper()}  {finding.name}{_when(finding)}: {finding.figure:.3g} "
        f"(threshold {finding.threshold:.3g})",
        f"  {sentence}",
    ]
    for setting in finding.settings:
        now = "" if setting.now is None else f" (now {setting.now})"
        lines.append(f"  - {setting.key}{now}: {setting.advice}")
    return lines


def _when(finding: Finding) -> str:
    if finding.since is None:
        return ""
    if finding.until is None:
        return f", since update {finding.since}"
    if finding.until == finding.since:
        return f", at update {finding.since}"
    return f", updates {finding.since} to {finding.until}, over since"
