"""Lets others come in at each storage call of a reader in turn: they write, compact every bucket, and expire all but the newest.

What they do is done once, on a copy: at the call only files are put and deleted. Snapshots are deleted last, as an expiry does.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from unittest import mock

from lakeidx.api.table import Table
from lakeidx.errors import LakeIdxError
from lakeidx.storage import open_store
from lakeidx.testing.fault_store import FaultStore
from tests.kit.shared_table import calls
from tests.kit.small_tables import make_table, upsert

#: Modules in which readers open the store of a table.
OPENERS = ("lakeidx.table.handle",)


@dataclass(frozen=True)
class Overtaken:
    """A table, and what others make of it."""

    folder: Path
    options: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        made = make_table(self.folder / "before", options={"num-sorted-run.compaction-trigger": "2", **self.options})
        upsert(made, [(1, 1, "a"), (1, 2, "b"), (2, 1, "c")])
        calls.tag(made, "one", 1)
        for text in ("old", "new"):
            upsert(made, [(1, 1, text)])
        upsert(made, [(1, 5, "x"), (2, 7, "y")])
        shutil.copytree(self.folder / "before", self.folder / "after")
        later = Table.open(self._table("after"))
        upsert(later, [(2, 9, "other")])
        calls.compact(later, True)
        upsert(Table.open(later.uri), [(2, 9, "other")])
        for _ in range(2):
            calls.expire(Table.open(later.uri), 1)

    def each_call(self, act: Callable[[str], object]) -> Counter[str]:
        """Do something with the table's path once for each storage call it makes: what came of it, as text, and how often.

        Errors of lakeidx are their messages; a count of calls is that of a run that nobody disturbs.
        """
        found: Counter[str] = Counter()
        calls_made = self._run(act, None)[0]
        for number in range(calls_made):
            found[self._run(act, number)[1]] += 1
        assert sum(found.values()) == calls_made > 0
        return found

    def _run(self, act: Callable[[str], object], at: int | None) -> tuple[int, str]:
        self._restore()
        made: list[str] = []

        def strike(verb: str, path: str) -> None:
            made.append(verb)
            if len(made) - 1 == at:
                self._come_in()

        def opened(uri: str, options: Mapping[str, object] | None = None) -> FaultStore:
            store = FaultStore(open_store(uri, options))
            store.fail(act=strike, times=1 << 30)
            return store

        with ExitStack() as patched:
            for place in OPENERS:
                if place in sys.modules:
                    patched.enter_context(mock.patch(f"{place}.open_store", opened))
            try:
                came = f"{act(self._table('now'))}"
            except LakeIdxError as error:
                if at is None:
                    raise
                came = str(error)
        return len(made), came

    def _come_in(self) -> None:
        after, now = self.folder / "after", self.folder / "now"
        put, deleted = self._changes
        for name in put:
            (now / name).parent.mkdir(parents=True, exist_ok=True)
            (now / f"{name}.new").hardlink_to(after / name)
            (now / f"{name}.new").replace(now / name)
        for name in deleted:
            with suppress(FileNotFoundError):
                (now / name).unlink()

    def _restore(self) -> None:
        """Make the table what it was before: links of the same files, since stores put new files in place of old ones."""
        now, (wanted, folders) = self.folder / "now", self._before
        there, also = _tree(now)
        for name in there.keys() - {n for n, inode in wanted.items() if there.get(n) == inode}:
            (now / name).unlink()
            del there[name]
        for name in sorted(also - folders, reverse=True):
            (now / name).rmdir()
        for name in sorted(folders - also):
            (now / name).mkdir()
        for name in wanted.keys() - there.keys():
            (now / name).hardlink_to(self.folder / "before" / name)

    @cached_property
    def _before(self) -> tuple[dict[str, int], set[str]]:
        return _tree(self.folder / "before")

    @cached_property
    def _changes(self) -> tuple[list[Path], list[Path]]:
        """Files that others put, and those that they delete."""
        there, wanted = (_files(self.folder / name) for name in ("before", "after"))
        put = [n for n, path in wanted.items() if n not in there or there[n].read_bytes() != path.read_bytes()]
        return put, sorted(there.keys() - wanted.keys(), key=lambda n: "snapshot" in n.parts)

    def _table(self, name: str) -> str:
        return str(self.folder / name / "wh/d.db/t")


def _tree(root: Path) -> tuple[dict[str, int], set[str]]:
    """Files by the numbers that their file system gives them, and folders, the root among them where it is there."""
    files, folders = dict[str, int](), set[str]()
    for folder, _, names in os.walk(root):
        at = os.path.relpath(folder, root)
        folders.add(at)
        files |= {os.path.normpath(f"{at}/{name}"): os.stat(f"{folder}/{name}").st_ino for name in names}
    return files, folders


def _files(root: Path) -> dict[Path, Path]:
    return {p.relative_to(root): p for p in root.rglob("*") if p.is_file()}
