"""The package as it is built, imported and declared."""

from __future__ import annotations

import ast
import importlib
import importlib.metadata
import importlib.util
import inspect
import os
import pickle
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

import agentic_gym
from agentic_gym import errors

ROOT = Path(__file__).resolve().parents[2]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
MAPPED = ("envs", "rewards", "trainers")

# Import names that belong to a declared distribution of another name, which vouches for them.
VOUCHED = {"markupsafe": "jinja2", "pydantic_core": "pydantic", "huggingface_hub": "transformers"}


def modules() -> Iterator[tuple[str, Path]]:
    """Every module on disk, through the links: dotted name and file."""
    for folder, subfolders, files in os.walk(ROOT / "agentic_gym", followlinks=True):
        subfolders[:] = sorted(name for name in subfolders if name not in {"data", "__pycache__"})
        for file in sorted(files):
            if file.endswith(".py"):
                path = Path(folder) / file
                dotted = ".".join(path.relative_to(ROOT).with_suffix("").parts)
                yield dotted.removesuffix(".__init__"), path


MODULES = dict(modules())


def test_the_packages_that_are_built_are_those_on_disk() -> None:
    on_disk = {
        name if path.name == "__init__.py" else name.rpartition(".")[0]
        for name, path in MODULES.items()
    }
    assert sorted(PROJECT["tool"]["setuptools"]["packages"]) == sorted(on_disk)
    for package in on_disk:
        assert (MODULES[package]).name == "__init__.py", f"{package} has no __init__.py"


@pytest.mark.parametrize("name", MAPPED)
def test_top_folders_are_linked_and_mapped(name: str) -> None:
    link = ROOT / "agentic_gym" / name
    assert link.is_symlink()
    assert os.readlink(link) == f"../{name}"
    assert PROJECT["tool"]["setuptools"]["package-dir"][f"agentic_gym.{name}"] == name


@pytest.mark.parametrize("name", MAPPED)
def test_top_folders_refuse_a_second_import_name(name: str) -> None:
    spec = importlib.util.spec_from_file_location(name, ROOT / name / "__init__.py")
    assert spec is not None
    assert spec.loader is not None
    with pytest.raises(ImportError, match=f"import agentic_gym.{name}"):
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


def test_data_files_are_matched_by_the_patterns_that_are_built() -> None:
    patterns = PROJECT["tool"]["setuptools"]["package-data"]["*"]
    missed = []
    for package in PROJECT["tool"]["setuptools"]["packages"]:
        home = MODULES[package].parent
        for path in home.glob("data/**/*"):
            relative = path.relative_to(home)
            if path.is_file() and "__pycache__" not in relative.parts:
                # In these patterns a star ends at a slash.
                depth = len(relative.parts)
                fitting = (p for p in patterns if p.count("/") + 1 == depth)
                if not any(fnmatch(str(relative), pattern) for pattern in fitting):
                    missed.append(str(path))
    assert missed == []


def test_entry_points_lead_to_modules() -> None:
    scripts = PROJECT["project"]["scripts"].values()
    groups = PROJECT["project"]["entry-points"].values()
    targets = [*scripts, *(target for group in groups for target in group.values())]
    lost = [t for t in targets if t.partition(":")[0] not in MODULES]
    assert lost == []


def imported_names(path: Path) -> set[str]:
    """First parts of everything that a file imports, also within functions."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module.partition(".")[0])
    return names - set(sys.stdlib_module_names) - {"agentic_gym"}


def test_everything_imported_is_declared() -> None:
    project = PROJECT["project"]
    extras = project["optional-dependencies"]
    texts = [*project["dependencies"], *extras["train"], *extras["simulate"]]
    declared = {Requirement(text).name.lower().replace("_", "-") for text in texts}
    owners = importlib.metadata.packages_distributions()
    undeclared = {}
    for module, path in MODULES.items():
        for name in imported_names(path):
            found = {owner.lower().replace("_", "-") for owner in owners.get(name, [name])}
            if not declared & (found | {VOUCHED.get(name, name)}):
                undeclared[name] = module
    assert undeclared == {}


@pytest.mark.slow
def test_importing_is_cheap_and_loads_nothing_heavy() -> None:
    code = (
        "import sys, time, agentic_gym; "
        "heavy = {'torch', 'transformers', 'docker', 'trl', 'ray'} & set(sys.modules); "
        "print(time.process_time(), *heavy)"
    )
    runs = [
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        for _ in range(3)
    ]
    outputs = [run.stdout.split() for run in runs]
    assert [heavy for _, *heavy in outputs] == [[], [], []]
    assert min(float(seconds) for seconds, *_ in outputs) < 0.4


def rank(name: str) -> tuple[int, str]:
    """Constants, then classes, then functions, each by name."""
    return (0 if name.isupper() else 1 if name[0].isupper() else 2, name)


def test_public_names_are_sorted_and_true() -> None:
    assert agentic_gym.__all__ == sorted(set(agentic_gym.__all__), key=rank)
    assert set(agentic_gym.__all__) <= set(dir(agentic_gym))
    for name in agentic_gym.__all__:
        assert getattr(agentic_gym, name).__name__ == name
    with pytest.raises(AttributeError, match="no_such_name"):
        agentic_gym.no_such_name  # noqa: B018


def exports(path: Path) -> list[str] | None:
    """The literal ``__all__`` of a file, or None."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            names = ast.literal_eval(node.value)
            assert isinstance(names, list)
            return names
    return None


@pytest.mark.slow  # some of these modules load torch
def test_every_export_list_is_sorted_and_true() -> None:
    lists = {name: found for name, path in MODULES.items() if (found := exports(path)) is not None}
    assert "agentic_gym.store" in lists
    for name, exported in lists.items():
        module = importlib.import_module(name)
        assert exported == sorted(set(exported), key=rank), name
        assert [e for e in exported if not hasattr(module, e)] == [], name


def drawn_tree() -> dict[str, tuple[str | None, str | None]]:
    """Class name to (parent, builtin parent), as the docstring of ``errors`` draws it."""
    tree: dict[str, tuple[str | None, str | None]] = {}
    path: list[str] = []
    for line in (errors.__doc__ or "").splitlines():
        match = re.match(r"    ((?:[│ ]   )*(?:[├└]── )?)(\w+)(?:\s+\((\w+)\))?(?:\s.*)?$", line)
        if match is None:
            continue
        depth = len(match[1]) // 4
        path[depth:] = [match[2]]
        tree[match[2]] = (path[depth - 1] if depth else None, match[3])
    return tree


def real_errors() -> dict[str, type[errors.AgenticGymError]]:
    return {
        name: value
        for name, value in vars(errors).items()
        if inspect.isclass(value) and issubclass(value, errors.AgenticGymError)
    }


def test_the_drawn_error_tree_is_the_real_one() -> None:
    real: dict[str, tuple[str | None, str | None]] = {}
    for name, error in real_errors().items():
        ours = [b.__name__ for b in error.__bases__ if issubclass(b, errors.AgenticGymError)]
        others = [b.__name__ for b in error.__bases__ if b.__name__ not in ours]
        real[name] = (ours[0], others[0] if others else None) if ours else (None, None)
    assert drawn_tree() == real
    assert len(real) > 20


@pytest.mark.parametrize("name", sorted(real_errors()))
def test_errors_survive_pickling(name: str) -> None:
    arguments = ("agentic-gym[train]", "training") if name == "MissingDependency" else ("why",)
    error = real_errors()[name](*arguments)
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert str(copy) == str(error)
    assert vars(copy) == vars(error)


def test_files_are_small() -> None:
    long = {
        name: lines
        for name, path in MODULES.items()
        if (lines := len(path.read_text(encoding="utf-8").splitlines())) > 400
    }
    assert long == {}
