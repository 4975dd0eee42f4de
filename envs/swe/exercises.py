"""Exercises for a model that knows nothing yet: to look lines up, and to see which ones are wrong.

They are made from *train* tasks alone, without end and without running anything: the right text of a
module, its functions in any order, in which the injector breaks several lines at once. A model that is
shown each train bug many times learns the bugs by heart, or the text that belongs to a line's number, and
leaves alone every line that none of them breaks. Here neither repeats, so comparing what stands there with
what should is the cheaper thing to learn; and that helps on lines that were never broken before.

Which lines are wrong is a hard thing to learn from its consequence alone. In *marked* exercises broken
lines end in ``" #"``: a model that predicts its prompt learns at the end of each line whether it is broken,
and easily that marked lines are to be repaired. Mixed with exercises without marks, the one leads to the
other.

Lines that tasks of another split break are never broken, and no line is ever broken into a text that such
a task shows. Rejected: exercises with real test output. They teach no more about lines than these do, and
each bug costs two runs in a sandbox.
"""

from __future__ import annotations

import itertools
import random
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from agentic_gym.envs.swe.editing import number_lines
from agentic_gym.envs.swe.injection.inject import mutate_all
from agentic_gym.envs.swe.pocket import line_repair
from agentic_gym.envs.swe.task import SWETask
from agentic_gym.errors import TaskError
from agentic_gym.tools import format_action

MARK = " #"
_DEFINITION = re.compile(r"(def|class|async def)\b|@")


@dataclass(frozen=True, slots=True)
class Exercise:
    """A conversation that was not played but written.

    Attributes:
        prompt: the user's message: a file with numbered lines.
        actions: the assistant's messages.  # [K]
        answers: results of the tools, for each action but the last.  # [K - 1]
    """

    prompt: str
    actions: tuple[str, ...]
    answers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Line:
    """A right line, and what it may be broken into."""

    text: str
    bugs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Module:
    """A module cut into its head (docstring, imports, constants) and its definitions."""

    path: str
    head: tuple[_Line, ...]
    definitions: tuple[tuple[_Line, ...], ...]


class Exercises:
    """Makes exercises; the same arguments give the same ones in the same order.

    Args:
        train: tasks with a bug of one line each; their modules are the material.
        spared: tasks of the other splits. They are used for nothing but leaving out what they hold.
        seed: of the choices.
        shuffled: share of the exercises in which a module's definitions change places.

    Raises:
        TaskError: no module has a line that may be broken.
    """

    def __init__(
        self,
        train: Iterable[SWETask],
        spared: Iterable[SWETask],
        *,
        seed: int,
        shuffled: float = 0.7,
    ) -> None:
        kept_lines: dict[str, set[str]] = defaultdict(set)
        kept_texts: set[str] = set()
        for task in spared:
            repair = line_repair(task)
            kept_lines[task.repo].add(repair.after.strip())
            kept_texts.add(repair.before.strip())
        examples = {task.repo: task for task in train}
        self._modules = [
            _module(path, lines)
            for name, task in sorted(examples.items())
            for path, lines in [_lines(task, kept_lines[name], kept_texts)]
            if any(line.bugs for line in lines)
        ]
        if not self._modules:
            raise TaskError("no exercises: every line of every module is spared, or there is none")
        self._rng = random.Random(seed)
        self._shuffled = shuffled

    def reading(self, *, num_lines: int = 12, max_bugs: int = 5) -> Exercise:
        """Lines of a file looked up by their numbers, one after the other.

        The file has bugs, so that its lines cannot be told from memory.
        """
        path, lines, _ = self._broken(max_bugs, marked=False)
        wanted = [self._rng.randint(1, len(lines)) for _ in range(num_lines)]
        looks = [("view", {"path": path, "start": n, "end": n}) for n in wanted]
        content = "\n".join(lines).encode()
        return Exercise(
            f"{path}\n{number_lines(content)}",
            (*(format_action([look]) for look in looks), format_action([("submit", {})])),
            tuple(number_lines(content, n, n) for n in wanted),
        )

    def repairing(self, *, max_bugs: int = 6, marked: float = 0.5) -> Exercise:
        """All the broken lines of a file put right in one message, in the order of the file.

        Args:
            max_bugs: most broken lines.
            marked: chance that they are marked.
        """
        path, lines, right = self._broken(max_bugs, marked=self._rng.random() < marked)
        edits = [
            ("edit_lines", {"path": path, "start": number, "text": f"{number}|{text}"})
            for number, text in right.items()
        ]
        prompt = f"{path}\n{number_lines(chr(10).join(lines).encode())}"
        return Exercise(prompt, (format_action(edits),), ())

    def _broken(self, max_bugs: int, *, marked: bool) -> tuple[str, list[str], dict[int, str]]:
        """A module with 1 to ``max_bugs`` bugs: its path, its lines, and right lines by number."""
        module = self._rng.choice(self._modules)
        layout = self._layout(module)
        breakable = [index for index, line in enumerate(layout) if line.bugs]
        count = min(self._rng.randint(1, max_bugs), len(breakable))
        lines = [line.text for line in layout]
        right: dict[int, str] = {}
        for index in sorted(self._rng.sample(breakable, count)):
            right[index + 1] = lines[index]
            lines[index] = self._rng.choice(layout[index].bugs) + MARK * marked
        return module.path, lines, right

    def _layout(self, module: _Module) -> list[_Line]:
        """The lines of a module, its definitions in their own order or another."""
        definitions = list(module.definitions)
        gap = 2
        if self._rng.random() < self._shuffled:
            self._rng.shuffle(definitions)
            gap = self._rng.randint(1, 3)
        layout = list(module.head)
        for definition in definitions:
            layout += [*([_Line("")] * gap if layout else []), *definition]
        return layout


def _lines(
    task: SWETask, kept_lines: set[str], kept_texts: set[str]
) -> tuple[str, tuple[_Line, ...]]:
    """Path and lines of a task's module, put right."""
    repair = line_repair(task)
    texts = task.base_files[repair.path].decode().splitlines()
    texts[repair.line - 1] = repair.after
    bugs: Mapping[int, list[str]] = defaultdict(list)
    for bug in mutate_all("\n".join(texts)):
        if bug.before.strip() not in kept_lines and bug.after.strip() not in kept_texts:
            bugs[bug.line].append(bug.after)
    lines = (_Line(text, tuple(bugs[number])) for number, text in enumerate(texts, 1))
    return repair.path, tuple(lines)


def _module(path: str, lines: Sequence[_Line]) -> _Module:
    starts = [
        index
        for index, line in enumerate(lines)
        if _DEFINITION.match(line.text) and not (index and lines[index - 1].text.startswith("@"))
    ]
    cuts = [0, *starts, len(lines)]
    head, *definitions = (_without_blank_end(lines[a:b]) for a, b in itertools.pairwise(cuts))
    return _Module(path, head, tuple(definitions))


def _without_blank_end(lines: Sequence[_Line]) -> tuple[_Line, ...]:
    end = len(lines)
    while end and not lines[end - 1].text.strip():
        end -= 1
    return tuple(lines[:end])
