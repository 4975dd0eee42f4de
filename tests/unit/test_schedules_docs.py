"""docs/schedules.md says what the code reads."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from agentic_gym.trainers.run_config import RolloutSection, TrainConfig, schedule_of
from agentic_gym.trainers.schedules.plan import Switching
from agentic_gym.trainers.schedules.registry import schedule_names, schedule_options

PAGE = (Path(__file__).resolve().parents[2] / "docs/schedules.md").read_text(encoding="utf-8")
OPTIONS = PAGE.split("\n## Options\n")[1].split("\n## ")[0]
OF_ALL = ("max_retries", "max_lost_groups")


def documented(name: str) -> dict[str, Any]:
    """Options and defaults in the table of a schedule."""
    section = re.split(rf"^\*\*`{name}`\*\*", OPTIONS, flags=re.MULTILINE)[1]
    section = re.split(r"^(?:\*\*`|###)", section, flags=re.MULTILINE)[0]
    return dict(re.findall(r"^\| `(\w+)` \| `([^`]*)` \|", section, re.MULTILINE))


def written(value: Any) -> str:
    words = {True: "true", False: "false"}
    if value is None or isinstance(value, bool):
        return "none" if value is None else words[value]
    return str(list(value)) if isinstance(value, tuple) else str(value)


@pytest.mark.parametrize("name", schedule_names())
def test_the_options_and_their_defaults_are_on_the_page(name: str) -> None:
    known = schedule_options(name)
    own = {option: written(value) for option, value in known.items() if option not in OF_ALL}
    assert documented(name) == own
    if name != "plan":
        for option in OF_ALL:
            assert f"`{option}` ({known[option]}:" in OPTIONS


@pytest.mark.parametrize(
    "key", ["replicas", "longest_first", "stall_timeout_s", "relays", "relay_heartbeat_s"]
)
def test_the_defaults_of_further_keys_are_on_the_page(key: str) -> None:
    default = written(RolloutSection.model_fields[key].default).removesuffix(".0")
    assert re.search(rf"`rollout\.{key}`\s\({re.escape(default)}[:;)]", OPTIONS)


def test_the_rules_on_the_page_make_a_plan() -> None:
    blocks = re.findall(r"```yaml\n(.*?)```", OPTIONS, re.DOTALL)
    config = TrainConfig(**yaml.safe_load(blocks[0]))
    assert isinstance(schedule_of(config), Switching)
    rules = config.schedule_options["rules"]
    shown = {key for rule in rules for key in rule}
    table = OPTIONS.split("### Rules of a plan")[1].split("```")[0]
    rows = re.findall(r"^\| [a-z ]+ \| (.*?) \|", table, re.MULTILINE)
    keys = {key for row in rows for key in re.findall(r"`(\w+)`", row)}
    assert shown == keys | {"schedule"}
    assert keys == {"start", "end", "every", "at", "updates", "batches", "rate"}
