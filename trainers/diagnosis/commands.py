"""``agentic-gym diagnose``: what is wrong with a run, in the words of a practitioner.

Nothing heavy is imported before the command runs, and torch not even then.
"""

from __future__ import annotations

import json
from pathlib import Path

from agentic_gym.cli import Command
from agentic_gym.errors import ConfigError

_USAGE = """usage: agentic-gym diagnose DIR [--json]

Reads the store of a run (which may still be running) and says what is wrong with it: each finding with the
figure, the threshold, since which update it holds, and the settings to change. All are in docs/diagnosis.md.

  DIR      run folder, or its run.sqlite alone
  --json   one JSON object instead of text"""


def run(argv: list[str]) -> int:
    """Runs the command: ``DIR [--json]``. The status is 0 whatever is found.

    Raises:
        ConfigError: the words are wrong, or the run's configuration cannot be read.
        StoreError: there is no readable store.
    """
    if {"-h", "--help"} & set(argv):
        print(_USAGE)
        return 0
    unknown = [word for word in argv if word.startswith("-") and word != "--json"]
    if unknown:
        raise ConfigError(f"diagnose knows no {unknown[0]!r}: agentic-gym diagnose DIR [--json]")
    folders = [word for word in argv if word != "--json"]
    if len(folders) != 1:
        raise ConfigError(f"diagnose takes one run folder, not {len(folders)}: give DIR")
    from agentic_gym.trainers.diagnosis.facts import gather
    from agentic_gym.trainers.diagnosis.report import render, to_dict
    from agentic_gym.trainers.diagnosis.rules import diagnose

    facts = gather(Path(folders[0]))
    findings = diagnose(facts)
    if "--json" in argv:
        print(json.dumps(to_dict(facts, findings), indent=2))
    else:
        print(render(facts, findings))
    return 0


DIAGNOSE = Command("diagnose", "say what is wrong with a run, and which setting to change", run)
