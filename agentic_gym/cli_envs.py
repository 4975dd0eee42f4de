"""``agentic-gym envs``: lists the registered environments, and checks one."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass
from typing import Annotated, Literal

import tyro

from agentic_gym.checker import check_env
from agentic_gym.cli import Command
from agentic_gym.registration import describe, registered


@dataclass(frozen=True)
class List:
    """List the registered environments."""

    format: Literal["text", "json"] = "text"
    """Text for people, or one JSON array."""


@dataclass(frozen=True)
class Check:
    """Check that an environment keeps the contract; its tools are run with strange arguments."""

    id: tyro.conf.Positional[str]
    """As registered, or module:namespace/name-vN; the module may lie in the current folder."""
    seed: int = 0
    """Seed of the episodes."""


_Subcommand = (
    Annotated[List, tyro.conf.subcommand("list")] | Annotated[Check, tyro.conf.subcommand("check")]
)


def run(argv: list[str]) -> int:
    """Runs ``list`` (also without arguments) or ``check``."""
    chosen = tyro.cli(_Subcommand, args=argv or ["list"], prog="agentic-gym envs")
    if isinstance(chosen, Check):
        if ":" in chosen.id and os.getcwd() not in sys.path:
            sys.path.insert(0, os.getcwd())  # as `python -m` does
        check_env(chosen.id, seed=chosen.seed)
        print(f"{chosen.id} keeps the contract")
        return 0
    rows = [{"id": id, **describe(spec)} for id, spec in registered().items()]
    if chosen.format == "json":
        print(json.dumps(rows))
        return 0
    width = max((len(row["id"]) for row in rows), default=0)
    for row in rows:
        budgets = ", ".join(f"{key}={value}" for key, value in row["options"].items())
        print(f"{row['id']:<{width}}  {row['entry_point']}" + (f"  ({budgets})" if budgets else ""))
    return 0


COMMAND = Command("envs", "list the registered environments, or check one", run)
