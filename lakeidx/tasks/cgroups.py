"""Limits of control groups, versions 1 and 2."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path


@cache
def cgroup_cores(root: Path) -> int | None:
    """Return the CPUs that the control groups of this process grant, rounded up; None without a limit.

    root   of the file system that /proc and /sys are read from
    """
    limits = [quota / period for quota, period in _found(root, "cpu", _quota) if quota > 0 and period > 0]
    return -int(-min(limits) // 1) if limits else None


@cache
def cgroup_bytes(root: Path) -> int | None:
    """Return the memory that the control groups of this process grant; None without a limit.

    root   of the file system that /proc and /sys are read from
    """
    return min((limit for (limit,) in _found(root, "memory", _memory)), default=None)


def _found(root: Path, controller: str, read: Callable[[Path], list[int]]) -> Iterator[list[int]]:
    """Yield the limits of every group that has one, from this process's up to the root."""
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers and controller not in controllers.split(","):
            continue
        mount = root / "sys/fs/cgroup" / (controller if controllers else "")
        # A process in a container may see the path that its group has outside: what is mounted is then its own group.
        group = mount / path.lstrip("/")
        for folder in {mount, group, *(p for p in group.parents if mount in p.parents)}:
            try:
                yield read(folder)
            except (OSError, ValueError):
                # "max" is no number: no limit.
                continue


def _quota(folder: Path) -> list[int]:
    """Read (microseconds granted, of how many): ``cpu.max`` of version 2, or the two files of version 1."""
    if (folder / "cpu.max").exists():
        return [int(n) for n in (folder / "cpu.max").read_text().split()]
    return [int((folder / name).read_text()) for name in ("cpu.cfs_quota_us", "cpu.cfs_period_us")]


def _memory(folder: Path) -> list[int]:
    """Read the bytes granted; version 1 has a number beyond all memory for no limit."""
    name = "memory.max" if (folder / "memory.max").exists() else "memory.limit_in_bytes"
    return [int((folder / name).read_text())]
