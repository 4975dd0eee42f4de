"""What of the host a bubblewrap sandbox can see, as bwrap arguments.

Read-only: the programs of the operating system, this interpreter's installation, pytest and the packages
it needs, a few files of ``/etc``. Nothing of ``/home``, ``/root``, ``/var``, ``/srv`` or of this
environment's other packages.
"""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path

from agentic_gym.errors import SandboxUnavailable

HOME = "/opt/gym"
PACKAGES = ("pytest", "pluggy", "iniconfig", "packaging", "pygments")
_SYSTEM_FOLDERS = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
_OWN_FOLDERS = ("/run", "/workspace", "/tmp", "/proc", "/dev")
_ETC = ("ld.so.cache", "ld.so.conf", "ld.so.conf.d", "alternatives", "localtime", "mime.types")
_ETC_FILES = {
    "passwd": "root:x:0:0::/:/bin/sh\nagent:x:1000:1000::/tmp:/bin/bash\n",
    "group": "root:x:0:\nagent:x:1000:\n",
    "hosts": "127.0.0.1 localhost sandbox\n::1 localhost\n",
    "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
}


def boot_command() -> list[str]:
    """Starts the supervisor inside."""
    boot = f"{HOME}/lib/agentic_gym/sandbox/inside/boot.py"
    return [interpreter(), "-I", "-S", boot, "supervisor"]


@functools.cache
def interpreter() -> str:
    """The real interpreter behind a virtual environment."""
    return os.path.realpath(getattr(sys, "_base_executable", None) or sys.executable)


@functools.cache
def packages_folder() -> str:
    """Where the base interpreter looks for installed packages: ours are put there."""
    code = "import json, site; print(json.dumps(site.getsitepackages()))"
    text = subprocess.run(
        [interpreter(), "-I", "-c", code], capture_output=True, check=True, timeout=30, text=True
    ).stdout
    for folder in json.loads(text):
        if os.path.isdir(folder):
            return str(folder)
    raise SandboxUnavailable(
        f"{interpreter()} has no folder for packages ({text.strip()}), so pytest cannot be shown in "
        "the sandbox: use a Python installation that has one"
    )


class View:
    """Collects bwrap arguments, and the descriptors that they speak of; closes these at the end.

    Args:
        packages: further distributions that code in the sandbox can import.
    """

    def __init__(self, packages: Sequence[str] = ()) -> None:
        self.args: list[str] = []
        self.fds: list[int] = []
        self._folders: set[str] = {"/"}
        try:
            self._system()
            self._python((*PACKAGES, *packages))
        except BaseException:
            self.close()
            raise
        for folder in (*_OWN_FOLDERS, "/var"):
            self._folder(folder)
        self.args += ["--symlink", "/tmp", "/var/tmp"]

    def __enter__(self) -> View:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the descriptors; what has inherited them keeps its own."""
        while self.fds:
            os.close(self.fds.pop())

    def bind(self, source: str, target: str) -> None:
        """Shows a file or folder, read-only."""
        self._folder(os.path.dirname(target))
        self.args += ["--ro-bind", source, target]

    def data(self, content: str, target: str, perms: str = "0444") -> None:
        """Shows a file with this content."""
        self._folder(os.path.dirname(target))
        fd = os.memfd_create("gym")
        os.write(fd, content.encode())
        os.lseek(fd, 0, os.SEEK_SET)
        self.fds.append(fd)
        self.args += ["--perms", perms, "--ro-bind-data", str(fd), target]

    def _folder(self, path: str) -> None:
        # Named one by one: the parents that bwrap makes by itself only their owner can enter.
        for parent in [*reversed(Path(path).parents), Path(path)]:
            if str(parent) not in self._folders:
                self._folders.add(str(parent))
                self.args += ["--dir", str(parent)]

    def _system(self) -> None:
        self.bind("/usr", "/usr")
        self._folders.add("/usr")
        for name in _SYSTEM_FOLDERS:
            path = Path("/", name)
            if path.is_symlink():
                self.args += ["--symlink", os.readlink(path), str(path)]
            elif path.is_dir():
                self.bind(str(path), str(path))
        for name in _ETC:
            source = os.path.realpath(f"/etc/{name}")
            if os.path.exists(source):
                self.bind(source, f"/etc/{name}")
        for name, content in _ETC_FILES.items():
            self.data(content, f"/etc/{name}")

    def _python(self, names: Sequence[str]) -> None:
        prefix = os.path.realpath(sys.base_prefix)
        target = packages_folder()
        if not f"{prefix}/".startswith("/usr/"):
            if f"/{prefix.split('/')[1]}" in _OWN_FOLDERS:
                raise SandboxUnavailable(
                    f"the Python installation {prefix} lies where the sandbox has folders of its own "
                    f"({', '.join(_OWN_FOLDERS)}): use one elsewhere"
                )
            self.bind(prefix, prefix)
        self.args += ["--tmpfs", target]
        self._folders |= {target, *map(str, Path(target).parents)}
        for name in names:
            for source in _distribution(name):
                self.bind(source, f"{target}/{os.path.basename(source)}")
        self.args += ["--remount-ro", target]
        inside = str(Path(__file__).parent / "inside")
        self.bind(inside, f"{HOME}/lib/agentic_gym/sandbox/inside")
        self._folder(f"{HOME}/bin")
        for name in ("python", "python3"):
            self.args += ["--symlink", interpreter(), f"{HOME}/bin/{name}"]
        script = f"#!{interpreter()}\nimport sys, pytest\nsys.exit(pytest.main())\n"
        self.data(script, f"{HOME}/bin/pytest", "0555")


@functools.cache
def _distribution(name: str) -> tuple[str, ...]:
    """The top-level files and folders of an installed distribution, its metadata among them."""
    try:
        files = metadata.distribution(name).files or []
    except metadata.PackageNotFoundError:
        raise SandboxUnavailable(f"{name} is not installed here: pip install {name}") from None
    tops = sorted({file.parts[0] for file in files} - {"..", "__pycache__"})
    paths = [str(metadata.distribution(name).locate_file(top)) for top in tops]
    if not paths:
        raise SandboxUnavailable(f"{name} does not say which files it has: reinstall it with pip")
    return tuple(os.path.realpath(path) for path in paths if os.path.exists(path))
