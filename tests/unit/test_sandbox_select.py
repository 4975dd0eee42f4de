from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from agentic_gym.errors import ConfigError, SandboxError, SandboxUnavailable
from agentic_gym.sandbox import bubblewrap, cgroups, records, select
from agentic_gym.sandbox.base import Sandbox, SandboxSpec
from agentic_gym.sandbox.client import ClientSandbox
from agentic_gym.sandbox.pool import SandboxPool
from agentic_gym.sandbox.select import select_backend
from agentic_gym.sandbox.unsafe import UnsafeBackend


def test_unsafe_has_to_be_asked_for() -> None:
    with pytest.raises(ConfigError, match="allow_unsafe=True"):
        select_backend("unsafe")
    with pytest.raises(ConfigError, match="allow_unsafe=True"):
        UnsafeBackend()
    assert select_backend("unsafe", allow_unsafe=True).name == "unsafe"


def test_unknown_names_get_a_suggestion() -> None:
    with pytest.raises(ConfigError, match="Did you mean 'bubblewrap'"):
        select_backend("bublewrap")


@pytest.mark.parametrize("name", ["auto", "bubblewrap"])
def test_no_backend_works(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    select._working_bubblewrap.cache_clear()
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(SandboxUnavailable, match=r"use Docker.*allow_unsafe=True"):
        select_backend(name, allow_unsafe=True)


@pytest.mark.parametrize(
    ("message", "remedy"),
    [
        ("bwrap: No permissions to create new namespace", "unprivileged_userns_clone"),
        ("bwrap: Can't mount proc on /newroot/proc", "systempaths=unconfined"),
        ("", "without a message"),
    ],
)
def test_what_bwrap_says_is_explained(message: str, remedy: str) -> None:
    assert remedy in bubblewrap._explained(message)


class Leaky:
    """A backend that works and keeps little in."""

    name = "leaky"

    def __init__(self, **found: str) -> None:
        self.found = found

    def probe(self) -> Mapping[str, str]:
        return self.found

    def start(self, spec: SandboxSpec) -> Sandbox:
        raise SandboxError("not needed")


def test_what_does_not_isolate_is_not_chosen() -> None:
    select.refuse_open_doors(Leaky(files="own", network="none", memory="limited per process"))
    with pytest.raises(SandboxUnavailable, match=r"leaky runs here, .* not isolate files, network"):
        select.refuse_open_doors(Leaky(files="no", network="no", memory="limited as a whole"))


def test_the_client_is_a_sandbox() -> None:
    assert issubclass(ClientSandbox, Sandbox)


def test_a_pool_of_nothing_is_refused() -> None:
    with pytest.raises(ConfigError, match="size must be at least 1"):
        SandboxPool(UnsafeBackend(allow_unsafe=True), size=0)


def test_a_records_folder_of_someone_else_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    target = tmp_path / "elsewhere"
    target.mkdir()
    path = records.folder()
    path.rmdir()
    path.symlink_to(target)
    with pytest.raises(SandboxError, match="remove it or set TMPDIR"):
        records.folder()


def test_only_our_own_groups_are_ours() -> None:
    assert cgroups.is_ours(Path("/sys/fs/cgroup/memory/agentic-gym/abc"))
    assert not cgroups.is_ours(Path("/sys/fs/cgroup/memory/system.slice"))
    assert not cgroups.is_ours(Path("/tmp/agentic-gym/abc"))
