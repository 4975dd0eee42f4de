"""The Linux calls that Python does not wrap: namespaces, mounts, capabilities.

``clone3`` rather than ``unshare`` and ``fork``: a process can ``unshare`` its children's process
namespace only once, and going back (``setns``) needs a capability over the namespace that bwrap made.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal

CLONE_NEWNS = 0x00020000
CLONE_NEWIPC = 0x08000000
CLONE_NEWPID = 0x20000000
_SIGCHLD = 17
_SYS_CLONE3 = 435  # the same number on every architecture

MS_NOSUID, MS_NODEV, MS_NOEXEC = 2, 4, 8
_MNT_DETACH = 2

_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
_PR_CAPBSET_DROP = 24
_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_NO_NEW_PRIVS = 38
_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL = 47, 4
_CAPABILITY_VERSION_3 = 0x20080522

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long


class _CloneArgs(ctypes.Structure):
    _fields_ = [
        (name, ctypes.c_uint64)
        for name in [
            "flags",
            "pidfd",
            "child_tid",
            "parent_tid",
            "exit_signal",
            "stack",
            "stack_size",
            "tls",
        ]
    ]


def _checked(result: int, what: str) -> int:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")
    return result


def clone(flags: int) -> int:
    """``fork`` into new namespaces: 0 in the child, its pid in the parent.

    The child skips Python's after-fork work: it must not start threads and should soon exec or fork.
    """
    args = _CloneArgs(flags=flags, exit_signal=_SIGCHLD)
    size = ctypes.c_size_t(ctypes.sizeof(args))
    return _checked(_libc.syscall(ctypes.c_long(_SYS_CLONE3), ctypes.byref(args), size), "clone3")


def unshare(flags: int) -> None:
    """Moves this process to new namespaces."""
    _checked(_libc.unshare(flags), "unshare")


def mount(source: str, target: str, kind: str, flags: int, options: str = "") -> None:
    """Mounts a file system."""
    result = _libc.mount(
        source.encode(), target.encode(), kind.encode(), ctypes.c_ulong(flags), options.encode()
    )
    _checked(result, f"mount {kind} at {target}")


def unmount(target: str) -> None:
    """Detaches a mount; it goes when its last user goes."""
    _checked(_libc.umount2(target.encode(), _MNT_DETACH), f"unmount {target}")


def become_subreaper() -> None:
    """Makes this process the parent of its orphaned descendants."""
    _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def die_with_parent() -> None:
    """Has the kernel kill this process when the one that started it ends."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def refuse_tracing() -> None:
    """Keeps other processes of the same user out of this one's memory and descriptors."""
    _libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


def drop_capabilities() -> None:
    """Gives up every capability, for good and for every program started later."""
    for capability in range(64):
        if _libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0) != 0:
            break
    _libc.prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
    _checked(_libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs")
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    data = (ctypes.c_uint32 * 6)()
    _checked(_libc.capset(ctypes.byref(header), ctypes.byref(data)), "capset")


def limit(name: str, value: int) -> None:
    """Lowers one resource limit (``NPROC``, ``AS``, ``FSIZE``, …), never above the hard limit."""
    which = getattr(resource, f"RLIMIT_{name}", None)
    if which is None:
        return
    hard = resource.getrlimit(which)[1]
    bounded = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(which, (bounded, bounded))
