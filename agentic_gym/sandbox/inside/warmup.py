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
    for plugin in _run_sample(pytest.main, common_args):
        _list_only_what_pytest_looks_for(plugin)
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


class _Census:
    """Keeps the plugins of a run."""

    plugins: list[object]

    def pytest_sessionfinish(self, session: Any) -> None:
        self.plugins = list(session.config.pluginmanager.get_plugins())


def _list_only_what_pytest_looks_for(plugin: object) -> None:
    """Shortens ``dir`` of a plugin of pytest's own to hooks and fixtures; all names stay reachable.

    Pytest looks at every name of every plugin, twice.
    """
    if isinstance(plugin, ModuleType):
        names = [name for name in vars(plugin) if _is_looked_for(name, vars(plugin)[name])]
        vars(plugin)["__dir__"] = lambda: names
        return
    kind = type(plugin)
    if kind.__module__.startswith("_pytest.") and "__dir__" not in vars(kind):
        names = [name for name in dir(kind) if _is_looked_for(name, getattr(kind, name, None))]
        setattr(kind, "__dir__", lambda _: names)  # noqa: B010 -- no override that types allow


def _is_looked_for(name: str, value: object) -> bool:
    if name.startswith("pytest_") or type(value).__name__ == "FixtureFunctionDefinition":
        return True
    return hasattr(value, "_pytestfixturefunction")


def _run_sample(main: Callable[..., Any], common_args: Sequence[str]) -> list[object]:
    folder = os.path.dirname(os.path.abspath(__file__))
    args = ["-c", os.devnull, "--rootdir", folder, "--noconftest", "-o", "python_files=sample.py"]
    census = _Census()
    streams = sys.stdout, sys.stderr
    with open(os.devnull, "w") as null:
        sys.stdout = sys.stderr = null
        try:
            for style in ("prepend", "importlib"):
                style_args = ["--capture=sys", f"--import-mode={style}", f"{folder}/sample.py"]
                main([*common_args, *args, *style_args], plugins=[census])
        finally:
            sys.stdout, sys.stderr = streams
    for name in [name for name in sys.modules if name.endswith("sample")]:
        del sys.modules[name]
    return census.plugins
