"""Lance by pylance, with a B-tree on the first key column."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import lance
import pyarrow as pa
import pyarrow.parquet as pq

from bench.lineitem import streamed
from bench.peers.base import KEYS, NEWER, SET_TO, SUMMED, UPDATED, NotSupportedError, Peer, matching


class ThisPeer(Peer):
    """The index is made by the load and kept up by the compaction."""

    def load(self, file: Path) -> None:
        self.table = lance.write_dataset(streamed(file), str(self.folder / "table"))
        self.table.create_scalar_index(KEYS[0], "BTREE")

    def upsert(self, file: Path) -> None:
        merge = self.table.merge_insert(list(KEYS)).when_matched_update_all().when_not_matched_insert_all()
        merge.execute(pq.read_table(file))

    def delete(self, file: Path) -> None:
        merge = self.table.merge_insert(list(KEYS))
        if not hasattr(merge, "when_matched_delete"):
            raise NotSupportedError(
                "merge_insert deletes no matched rows, and a condition takes no keys of two columns"
            )
        merge.when_matched_delete().execute(pq.read_table(file))

    def update(self) -> None:
        self.table.update({SUMMED: SET_TO}, where=UPDATED)

    def merge(self, file: Path) -> None:
        merge = self.table.merge_insert(list(KEYS)).when_matched_update_all(
            NEWER.format(source="source", target="target")
        )
        merge.when_not_matched_insert_all().execute(pq.read_table(file))

    def compact(self) -> None:
        self.table.optimize.compact_files(materialize_deletions_threshold=0.0)
        self.table.optimize.optimize_indices()

    def batches(self, columns: list[str] | None) -> Iterable[pa.Table | pa.RecordBatch]:
        yield from self.table.to_batches(columns=columns)

    def found(self, keys: pa.Table) -> pa.Table:
        wanted = ", ".join(map(str, keys.column(KEYS[0]).to_pylist()))
        return matching(self.table.to_table(filter=f"{KEYS[0]} IN ({wanted})"), keys)
