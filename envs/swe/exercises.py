"""Exercises for a model that knows nothing yet: to look lines up, and to see which ones are wrong.

They are made from *train* tasks alone, without end and without running anything: the right text of a
module, its functions in any order, in which the injector breaks several lines at once. A model that is
shown each train bug many times learns the bugs by heart, or the text that belongs to a line's number, and
leaves alone every line that none of them breaks. Here neither repeats, so comparing what stands there with
what should is the cheaper thing to learn; and that helps on lines that were never broken before.

*Rewriting* asks for the right text of every line, in any order: to find a line by its number, to copy it,
and to change what is wrong on the way. *Repairing* asks for the broken lines alone. Which ones these are is
hard to learn from that alone, so a share of the exercises is marked: broken lines end in ``" #"``. A model
that predicts its prompt then learns at the end of each line whether it is broken, and easily that marked
lines are asked for; the one leads to the other.

The answer is plain ``number|text`` lines, without the tool calls of real episodes: these would be two
thirds of the tokens, and are quickly learned from demonstrations.

Lines that tasks of another split break are never broken, and no line is ever broken into a text that such
a task shows. Rejected: exercises with real test output. They teach no more about lines than these do, and
each bug costs two runs in a sandbox.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from agentic_gym.envs.swe.blocks import definitions
from agentic_gym.envs.swe.editing import number_lines
from agentic_gym.envs.swe.injection.inject import mutate_all
from agentic_gym.envs.swe.pocket import line_repair
from agentic_gym.envs.swe.task import SWETask
from agentic_gym.errors import TaskError

MARK = " #"


@dataclass(frozen=True, slots=True)
class Exercise:
    """A question and its answer.

    Attributes:
        prompt: path of a file and its lines, numbered.
        answer: right lines, numbered.
    """

    prompt: str
    answer: str


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

    def rewriting(self, *, max_bugs: int = 8) -> Exercise:
        """The right text of every line that is not blank, in random order."""
        module, layout, broken = self._broken(max_bugs)
        texts = self._texts(layout, broken)
        wanted = [index for index, line in enumerate(layout) if line.text.strip()]
        self._rng.shuffle(wanted)
        return _exercise(module, texts, layout, wanted)

    def repairing(self, *, max_bugs: int = 8, marked: float = 0.5) -> Exercise:
        """The right text of the broken lines, in the order of the file.

        Args:
            max_bugs: most broken lines.
            marked: chance that they are marked.
        """
        module, layout, broken = self._broken(max_bugs)
        mark = MARK if self._rng.random() < marked else ""
        return _exercise(module, self._texts(layout, broken, mark), layout, broken)

    def _broken(self, max_bugs: int) -> tuple[_Module, list[_Line], list[int]]:
        """A module, its lines as they are laid out, and the indices of 1 to ``max_bugs`` to break."""
        module = self._rng.choice(self._modules)
        layout = self._layout(module)
        breakable = [index for index, line in enumerate(layout) if line.bugs]
        count = min(self._rng.randint(1, max_bugs), len(breakable))
        return module, layout, sorted(self._rng.sample(breakable, count))

    def _texts(self, layout: Sequence[_Line], broken: Sequence[int], mark: str = "") -> list[str]:
        texts = [line.text for line in layout]
        for index in broken:
            texts[index] = self._rng.choice(layout[index].bugs) + mark
        return texts

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


def _exercise(
    module: _Module, texts: Sequence[str], layout: Sequence[_Line], wanted: Sequence[int]
) -> Exercise:
    prompt = f"{module.path}\n{number_lines(chr(10).join(texts).encode())}"
    return Exercise(prompt, "\n".join(f"{i + 1}|{layout[i].text}" for i in wanted))


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
    parts = definitions([line.text for line in lines])
    head, *rest = (tuple(lines[part.start : part.stop]) for part in parts)
    return _Module(path, head, tuple(rest))
