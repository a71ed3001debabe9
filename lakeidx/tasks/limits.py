"""Processors and memory that this process may use: the machine's, and what its control groups leave of them."""

from __future__ import annotations

import os
import resource
import sys
from pathlib import Path

from lakeidx.tasks.cgroups import cgroup_bytes, cgroup_cores

_ROOT = Path("/")


def available_cores() -> int:
    """Return the processors this process may use; in a container, the CPUs that its limit grants, rounded up."""
    some = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)
    granted = cgroup_cores(_ROOT)
    return some if granted is None else max(1, min(some, granted))


def available_bytes() -> int:
    """Return the memory this process may use at most, including memory in use; in a container, its limit.

    A Python worker of Spark has the limit of `spark.executor.pyspark.memory` on its addresses.
    """
    whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    own, _ = resource.getrlimit(resource.RLIMIT_AS)
    limits = (whole, cgroup_bytes(_ROOT), None if own == resource.RLIM_INFINITY else own)
    return min(limit for limit in limits if limit is not None)


def peak_bytes() -> int:
    """Return the memory that this process has had at its largest."""
    # Kibibytes, but bytes on macOS.
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
