"""Makes pytest ready to be forked: about two fifths of the time of ``pytest.main`` on seven tests.

What every run would do again is done once here: importing pytest's plugins, registering them, and
finding hooks and fixtures among their names, which is the larger part. It leans on two inner names of
pytest; where a version lacks them, runs are slower and otherwise the same.
"""

from __future__ import annotations

import gc
import importlib
import os
import site
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

# Imported by pytest only when a run needs them.
_LATE_IMPORTS = ("difflib", "pdb", "unittest", "_pytest._argcomplete", "tracemalloc", "pprint")


def warm_up(common_args: Sequence[str]) -> Callable[[list[str], Any], int]:
    """Loads pytest and returns ``main(args, plugin)``, to be called once, in a fork.

    Args:
        common_args: what every run's arguments begin with.
    """
    site.setquit()  # ``exit`` and ``help``, which -S leaves out
    site.sethelper()
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    sys.dont_write_bytecode = True
    import _pytest.config
    import pytest

    for name in _LATE_IMPORTS:
        importlib.import_module(name)
    for name in _pytest.config.default_plugins:
        _list_only_what_pytest_looks_for(importlib.import_module(f"_pytest.{name}"))
    _run_sample(pytest.main, common_args)
    prepared = _pytest.config.get_config([*common_args], [])
    gc.collect()
    gc.freeze()  # the collector would otherwise write to every page that forks share

    def reuse(args: Any = None, plugins: Any = None, **_: Any) -> Any:
        kind = type(prepared.invocation_params)
        prepared.invocation_params = kind(args=args, plugins=plugins, dir=Path.cwd())
        prepared.pluginmanager.consider_preparse(args, exclude_only=True)
        return prepared

    def main(args: list[str], plugin: Any) -> int:
        _pytest.config.get_config = reuse
        return int(pytest.main([*common_args, *args], plugins=[plugin]))

    return main


def _list_only_what_pytest_looks_for(module: ModuleType) -> None:
    """Shortens ``dir(module)`` to hooks and fixtures; all names stay reachable."""
    names = [
        name
        for name, value in vars(module).items()
        if name.startswith("pytest_")
        or type(value).__name__ == "FixtureFunctionDefinition"
        or hasattr(value, "_pytestfixturefunction")
    ]
    vars(module)["__dir__"] = lambda: names


def _run_sample(main: Callable[..., Any], common_args: Sequence[str]) -> None:
    folder = os.path.dirname(os.path.abspath(__file__))
    args = ["-c", os.devnull, "--rootdir", folder, "--noconftest", "-o", "python_files=sample.py"]
    streams = sys.stdout, sys.stderr
    with open(os.devnull, "w") as null:
        sys.stdout = sys.stderr = null
        try:
            for style in ("prepend", "importlib"):
                import_mode = f"--import-mode={style}"
                main([*common_args, *args, "--capture=sys", import_mode, f"{folder}/sample.py"])
        finally:
            sys.stdout, sys.stderr = streams
    for name in [name for name in sys.modules if name.endswith("sample")]:
        del sys.modules[name]
