"""The page itself: facts into the template, and the result onto the disk."""

from __future__ import annotations

import importlib.resources
import os
import re
from collections.abc import Sequence
from pathlib import Path

import jinja2

import agentic_gym
from agentic_gym.errors import StoreError
from agentic_gym.evaluation import percent
from agentic_gym.report.charts import interval_axis, interval_bar, line_chart, stacked_bar
from agentic_gym.report.facts import Facts, gather
from agentic_gym.store import RunStore

FILE_NAME = "report.html"
CONFIG_NAME = "config.yaml"
_MAX_CHARS = 6000
_FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


def write_report(run_folder: str | os.PathLike[str], *, credit_of: Sequence[str] = ()) -> Path:
    """Writes ``report.html`` into a run's folder, in place of an earlier one. Returns its path.

    The run is called as its store says (state ``name``), or else as its folder.

    Args:
        run_folder: of the run.
        credit_of: ids of trained trajectories whose credit is shown, beside some of the last batch.

    Raises:
        StoreError: there is no readable store in the folder, or no credit of such a trajectory in it.
    """
    folder = Path(run_folder)
    with RunStore(folder, readonly=True) as store:
        facts = gather(store, credit_of=credit_of)
        name = str(store.get_state("name", folder.resolve().name))
    path = folder / CONFIG_NAME
    try:
        config = path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
    except OSError as error:
        raise StoreError(f"{path} cannot be read: {error}") from error
    target = folder / FILE_NAME
    partial = target.with_name(f"{FILE_NAME}.{os.getpid()}.partial")
    partial.write_text(render(facts, name=name, config=config), encoding="utf-8")
    partial.replace(target)
    return target


def render(facts: Facts, *, name: str, config: str = "") -> str:
    """The whole page as text.

    Args:
        facts: what to show.
        name: of the run.
        config: its configuration, as YAML.
    """
    template = importlib.resources.files("agentic_gym").joinpath("data/report.html.j2")
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["clip"] = clip
    environment.filters["percent"] = percent
    environment.globals.update(
        interval_axis=interval_axis,
        interval_bar=interval_bar,
        line_chart=line_chart,
        stacked_bar=stacked_bar,
    )
    page = environment.from_string(template.read_text(encoding="utf-8")).render(
        facts=facts, name=name, config=config, version=agentic_gym.__version__
    )
    return printable(page)


def printable(text: str) -> str:
    """Shows control characters as symbols; lone surrogates, which cannot be encoded, become U+FFFD.

    Example:
        >>> printable("a\\x00b")
        'a␀b'
    """
    return _FORBIDDEN.sub(_symbol, text)


def clip(text: str, limit: int = _MAX_CHARS) -> str:
    """Head and tail of a long text."""
    if len(text) <= limit:
        return text
    left_out = len(text) - limit
    return f"{text[: limit // 2]}\n[… {left_out:,} characters left out …]\n{text[-limit // 2 :]}"


def _symbol(match: re.Match[str]) -> str:
    code = ord(match.group())
    if code < 0x20:
        return chr(0x2400 + code)
    return "␡" if code == 0x7F else "\ufffd"
