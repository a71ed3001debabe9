"""Waits for a disk: for names in directories, those of new directories included."""

from __future__ import annotations

import contextlib
import os


def directory_of(path: str) -> str:
    """Return the directory a path is in: its own working directory for a name alone."""
    parent, slash, _ = path.rpartition("/")
    return parent or slash or "."


def sync_directory(path: str) -> None:
    """Wait until the names in a directory are on the disk, if the file system supports that."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_directories(path: str, *, sync: bool) -> None:
    """Make a directory and those above it that are not there; `sync`: return when the disk has the names of all of them."""
    missing, at = list[str](), path
    while at and not os.path.isdir(at):
        missing.append(at)
        at = os.path.dirname(at)
    os.makedirs(path, exist_ok=True)
    if sync:
        for directory in missing:
            sync_directory(directory_of(directory))
