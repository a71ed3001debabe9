"""Paths of a table's files taken apart, to be compared with what made them."""

from __future__ import annotations

from dataclasses import dataclass

from lakeidx.errors import InvalidInputError
from lakeidx.format.file_names import FileName, parse_file_name
from lakeidx.format.partition_names import parse_bucket_dir, unescape
from lakeidx.format.paths import MAIN_BRANCH, TablePaths

_METADATA_DIRS = frozenset(
    {"schema", "snapshot", "manifest", "index", "statistics", "tag", "changelog", "consumer", "branch"}
)


def parse_partition_dir(name: str) -> tuple[str, str] | None:
    """Split one directory name ``key=value`` and unescape both; None when it is not of that form."""
    key, equals, value = name.partition("=")
    return (unescape(key), unescape(value)) if equals and key else None


@dataclass(frozen=True, slots=True)
class TablePath:
    """A file inside a table directory, taken apart.

    branch      ``main`` for files of the table itself
    directory   metadata directory (``snapshot`` ...), or None for files of a bucket
    partition   unescaped (key, value) texts, in path order
    """

    name: FileName
    branch: str = MAIN_BRANCH
    directory: str | None = None
    partition: tuple[tuple[str, str], ...] = ()
    bucket: int | None = None


def parse_path(paths: TablePaths, path: str) -> TablePath:
    """Parse the path of a file below the table's directory.

    errors   InvalidInputError when it is not below
    """
    prefix = paths.root.rstrip("/") + "/"
    if not path.startswith(prefix):
        raise InvalidInputError(f"not below {paths.root}", path=path)
    *parents, last = path[len(prefix) :].split("/")
    name = parse_file_name(last)
    branch = MAIN_BRANCH
    if len(parents) == 3 and parents[0] == "branch" and parents[1].startswith("branch-"):
        branch, parents = parents[1].removeprefix("branch-"), parents[2:]
    if len(parents) == 1 and parents[0] in _METADATA_DIRS:
        return TablePath(name, branch, parents[0])
    bucket = parse_bucket_dir(parents[-1]) if parents else None
    if bucket is None:
        return TablePath(name, branch)
    inner = parents[:-1]
    if paths.data_directory:
        top = paths.data_directory.strip("/").split("/")
        inner = inner[len(top) :] if inner[: len(top)] == top else inner
    pairs = [parse_partition_dir(p) for p in inner]
    return TablePath(name, branch, None, tuple(p for p in pairs if p is not None), bucket)
