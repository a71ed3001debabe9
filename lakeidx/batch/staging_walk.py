"""Walk through the staging directory of a table: which batches are there, and how far they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count

from pydantic import BaseModel

from lakeidx.batch.artifacts import HELD_NAME, WRITING_FOLDER, CommitReport, is_batch_id, stage_name, staging_root
from lakeidx.format.paths import MAIN_BRANCH, TablePaths
from lakeidx.storage.base import FileInfo, ObjectStore
from lakeidx.tasks.in_parallel import parallel_walk

#: Begins no batch id.
_BRANCH_FOLDER = "_branch-"


#: Batches up to which one request lists what each has, about.
_IN_ONE_WALK = 200


@dataclass(frozen=True, slots=True)
class StagedBatch:
    """Entry of a listing of batches.

    paths   of its branch
    files   by path below the batch's directory
    """

    paths: TablePaths
    batch_id: str
    files: Mapping[str, FileInfo]

    @property
    def run(self) -> int:
        """Which run of the batch counts, from 1."""
        return next(n for n in count(1) if f"superseded-{n}.json" not in self.files)

    def has(self, model: type[BaseModel]) -> bool:
        """Return True when the run that counts has the report of a stage's first attempt."""
        return f"{self._folder}{stage_name(model)}.json" in self.files

    @property
    def is_held(self) -> bool:
        """True when the run that counts was held, and is not committed or discarded."""
        return f"{self._folder}{HELD_NAME}" in self.files and not self.has(CommitReport)

    @property
    def _folder(self) -> str:
        return "" if self.run == 1 else f"run-{self.run}/"


def walk_staging(store: ObjectStore, paths: TablePaths) -> tuple[list[StagedBatch], list[FileInfo]]:
    """List all batches of a table and its branches that are staged, by branch and id, and the notes of those that run in memory.

    cost   about a request per thousand files
    """
    root = staging_root(replace(paths, branch=MAIN_BRANCH))
    found: dict[tuple[str, str], dict[str, FileInfo]] = {}
    notes: list[FileInfo] = []
    for file in parallel_walk(store, root, enough=_IN_ONE_WALK):
        batch_id, _, name = file.path[len(root) + 1 :].partition("/")
        branch = ""
        if batch_id.startswith(_BRANCH_FOLDER):
            branch, (batch_id, _, name) = batch_id.removeprefix(_BRANCH_FOLDER), name.partition("/")
        if name and is_batch_id(batch_id):
            found.setdefault((branch, batch_id), {})[name] = file
        elif name and batch_id == WRITING_FOLDER:
            notes.append(file)
    staged = [StagedBatch(replace(paths, branch=b or MAIN_BRANCH), i, files) for (b, i), files in sorted(found.items())]
    return staged, notes


def batch_ids(store: ObjectStore, paths: TablePaths) -> Sequence[str]:
    """Return the ids of all batches of a branch that still have a staging directory."""
    return sorted(f.name for f in store.list(staging_root(paths)) if f.is_dir and is_batch_id(f.name))
