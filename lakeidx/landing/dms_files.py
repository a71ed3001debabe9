"""Files of AWS DMS: of one table each, which their folders name, ``<schema>/<table>/[<date>/]<file>``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lakeidx.errors import InvalidInputError


def table_of_folders(path: str) -> str:
    """Return the table that a file of AWS DMS is of.

    errors   InvalidInputError for a file that is not in two folders
    """
    folders = _table_folders(path)
    if len(folders) < 2:
        raise InvalidInputError("the folders of the file do not name its table: <schema>/<table>/<file>", path=path)
    return ".".join(folders[-2:])


def file_order(form: str | None) -> Callable[[str], Any]:
    """Return what landing files of a format are sorted by, of their paths: these, and of DMS a full load before its changes."""
    return _dms_order if form == "dms" else str


def _dms_order(path: str) -> tuple[list[str], bool, str]:
    return _table_folders(path), not path.rpartition("/")[2].startswith("LOAD"), path


def _table_folders(path: str) -> list[str]:
    folders = [name for name in path.rpartition("://")[2].split("/")[:-1] if name]
    while folders and folders[-1].isdecimal():
        folders.pop()
    return folders
