"""The command line. It knows no command by itself: packages declare theirs as entry points.

The group is ``agentic_gym.commands``; each entry point is a :class:`Command`. So nothing on a lower
floor imports what is above it, and an installed package can add a command of its own.
"""

from __future__ import annotations

import importlib.metadata
import os
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from agentic_gym.errors import AgenticGymError, UserError
from agentic_gym.suggest import did_you_mean

GROUP = "agentic_gym.commands"
EXIT_USER_ERROR = 2
EXIT_OTHER_ERROR = 3
EXIT_INTERRUPTED = 130


@dataclass(frozen=True, slots=True)
class Command:
    """One command.

    Attributes:
        name: the word after ``agentic-gym``.
        help: one line.
        run: takes the remaining arguments and returns the exit status.
    """

    name: str
    help: str
    run: Callable[[list[str]], int]


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit status.

    0 is success, 2 an error that the user can fix, 3 any other error of ours, 130 an interrupt.
    ``--debug`` before the command shows tracebacks.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    debug = bool(arguments) and arguments[0] == "--debug"
    if debug:
        arguments = arguments[1:]
    entries = {entry.name: entry for entry in importlib.metadata.entry_points(group=GROUP)}
    if not arguments or arguments[0] in {"-h", "--help", "help"}:
        print(_usage(entries))
        return 0
    if arguments[0] == "--version":
        print(importlib.metadata.version("agentic-gym"))
        return 0
    name, rest = arguments[0], arguments[1:]
    if name not in entries:
        print(_unknown(name, list(entries)), file=sys.stderr)
        return EXIT_USER_ERROR
    try:
        return run_guarded(
            lambda argv: entries[name].load().run(argv),
            rest,
            name=f"agentic-gym {name}",
            debug=debug,
        )
    except ModuleNotFoundError as error:
        if debug or error.name is None or error.name.startswith("agentic_gym"):
            raise
        print(_missing(name, error.name), file=sys.stderr)
        return EXIT_USER_ERROR


def run_guarded(
    run: Callable[[list[str]], int], argv: Sequence[str], *, name: str, debug: bool = False
) -> int:
    """Runs a command or script; its errors become one line and the exit status, as in :func:`main`.

    Args:
        run: takes the arguments and returns the exit status.
        argv: the arguments.
        name: of the command, before its errors.
        debug: show tracebacks too.
    """
    try:
        try:
            status = run(list(argv))
        except SystemExit:  # --help
            sys.stdout.flush()
            raise
        sys.stdout.flush()  # here, where a closed pipe is caught, rather than at exit
        return status
    except BrokenPipeError:
        # The reader went away (``| head``): nothing is wrong, and nothing may be written on exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return EXIT_INTERRUPTED
    except AgenticGymError as error:
        if debug:
            traceback.print_exc()
        print(f"{name}: {type(error).__name__}: {error}", file=sys.stderr)
        return EXIT_USER_ERROR if isinstance(error, UserError) else EXIT_OTHER_ERROR


def _usage(entries: Mapping[str, importlib.metadata.EntryPoint]) -> str:
    lines = ["usage: agentic-gym [--debug] COMMAND …", "", "commands:"]
    for name in sorted(entries):
        try:
            text = entries[name].load().help
        except Exception as error:  # one broken plugin must not hide the others
            text = f"(cannot be loaded: {error})"
        lines.append(f"  {name:<10} {text}")
    lines += ["", "agentic-gym COMMAND --help tells more."]
    return "\n".join(lines)


def _missing(command: str, module: str) -> str:
    return (
        f"agentic-gym {command} needs {module}, which is not installed. "
        "`agentic-gym doctor` shows which extra brings it: pip install 'agentic-gym[EXTRA]'"
    )


def _unknown(name: str, known: Sequence[str]) -> str:
    hint = did_you_mean(name, known)
    return f"agentic-gym: no command {name!r}.{hint} Commands: {', '.join(sorted(known))}."
