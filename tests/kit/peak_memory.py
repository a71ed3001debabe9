"""How much memory a process has held at most."""

from __future__ import annotations

from pathlib import Path


def peak_mib() -> int:
    """Return the most memory that this process has held, in MiB.

    Not ``ru_maxrss``, which a new process takes over from the one that started it.

    errors   OSError on systems without /proc
    """
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) // 1024
