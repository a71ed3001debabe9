"""How many processors this process may use: those of its affinity, and of the limits of its control group."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path


def available_cores() -> int:
    """Return the processors this process may use; in a container, the CPUs that its limit grants, rounded up."""
    some = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)
    granted = _granted()
    return some if granted is None else max(1, min(some, granted))


@cache
def _granted() -> int | None:
    return cgroup_cores(Path("/"))


def cgroup_cores(root: Path) -> int | None:
    """Return the CPUs that the control groups of this process grant, rounded up; None without a limit.

    root   of the file system that /proc and /sys are read from
    """
    limits = [quota / period for quota, period in _quotas(root) if quota > 0 and period > 0]
    return -int(-min(limits) // 1) if limits else None


def _quotas(root: Path) -> Iterator[tuple[int, int]]:
    """Yield (microseconds granted, of how many) of every group from this process's up to the root that has a limit."""
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers and "cpu" not in controllers.split(","):
            continue
        mount = root / "sys/fs/cgroup" / ("cpu" if controllers else "")
        # A process in a container may see the path that its group has outside: what is mounted is then its own group.
        group = mount / path.lstrip("/")
        for folder in {mount, group, *(p for p in group.parents if mount in p.parents)}:
            found = _quota(folder)
            if found is not None:
                yield found


def _quota(folder: Path) -> tuple[int, int] | None:
    """Return the limit of one group: ``cpu.max`` of version 2, or the two files of version 1."""
    try:
        if (folder / "cpu.max").exists():
            quota, period = (folder / "cpu.max").read_text().split()
        else:
            quota = (folder / "cpu.cfs_quota_us").read_text()
            period = (folder / "cpu.cfs_period_us").read_text()
        return int(quota), int(period)
    except (OSError, ValueError):
        # "max" is no number: no limit.
        return None
