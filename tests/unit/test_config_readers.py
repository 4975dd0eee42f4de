"""Every configuration key has a reader: a key that nothing reads is a wrong experiment.

Found in the syntax trees, without imports: a field of a ``StrictConfig`` counts as read where an attribute
of its name is loaded outside of the configuration classes. Another object's attribute of the same name
hides an unread key; nothing is reported that is read.
"""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def trees() -> Iterator[tuple[Path, ast.Module]]:
    for top in ("agentic_gym", "examples"):
        for folder, subfolders, files in os.walk(ROOT / top, followlinks=True):
            subfolders[:] = [name for name in subfolders if name not in {"data", "__pycache__"}]
            for file in files:
                if file.endswith(".py"):
                    path = Path(folder) / file
                    yield path, ast.parse(path.read_text(encoding="utf-8"))


TREES = dict(trees())


def config_classes() -> dict[str, ast.ClassDef]:
    classes = {
        node.name: node
        for tree in TREES.values()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
    }
    found = {"StrictConfig"}
    while True:
        more = {
            name
            for name, node in classes.items()
            if any(ast.unparse(base).rpartition(".")[2] in found for base in node.bases)
        }
        if more <= found:
            return {name: classes[name] for name in found - {"StrictConfig"}}
        found |= more


CLASSES = config_classes()


def names_read() -> set[str]:
    """Names of attributes that are loaded anywhere but in the bodies of configuration classes."""
    inside = {id(node) for cls in CLASSES.values() for node in ast.walk(cls)}
    return {
        node.attr
        for tree in TREES.values()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Load)
        and id(node) not in inside
    }


READ = names_read()


def test_there_are_configurations() -> None:
    assert "DoctorConfig" in CLASSES


@pytest.mark.parametrize("name", sorted(CLASSES))
def test_every_key_is_read(name: str) -> None:
    fields = [
        node.target.id
        for node in CLASSES[name].body
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    ]
    unread = [field for field in fields if field not in READ]
    assert unread == [], f"{name}: nothing reads {unread}; remove them"
