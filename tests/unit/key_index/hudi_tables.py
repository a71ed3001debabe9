"""Small Hudi tables made by hand, byte for byte as the format sheet says, for what the golden tables do not show."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq

from lakeidx.codec.hudi.bloom import new_filter
from lakeidx.codec.rows.rowbytes import RowBytes
from lakeidx.format.hudi.footer import format_footer

_STAT = {
    "type": "record",
    "name": "HoodieWriteStat",
    "namespace": "org.apache.hudi.avro.model",
    "fields": [
        {"name": "fileId", "type": ["null", "string"], "default": None},
        {"name": "path", "type": ["null", "string"], "default": None},
    ],
}
_STATS = ["null", {"type": "map", "values": {"type": "array", "items": _STAT}}]
_COMMIT = {
    "type": "record",
    "name": "HoodieReplaceCommitMetadata",
    "namespace": "org.apache.hudi.avro.model",
    "fields": [
        {"name": "partitionToWriteStats", "type": _STATS, "default": None},
        {
            "name": "partitionToReplaceFileIds",
            "type": ["null", {"type": "map", "values": {"type": "array", "items": "string"}}],
            "default": None,
        },
    ],
}


class HandMadeTable:
    """A table directory; every method adds files to it."""

    def __init__(self, root: Path, *, layout: int, properties: Mapping[str, str] | None = None) -> None:
        self.root, self.layout = root, layout
        self.timeline = root / ".hoodie" if layout == 1 else root / ".hoodie" / "timeline"
        self.timeline.mkdir(parents=True)
        self.properties = {
            "hoodie.table.name": "t",
            "hoodie.table.type": "COPY_ON_WRITE",
            "hoodie.table.version": "6" if layout == 1 else "8",
            "hoodie.timeline.layout.version": str(layout),
            "hoodie.table.recordkey.fields": "id",
            **(properties or {}),
        }
        text = "".join(f"{k}={v}\n" for k, v in self.properties.items())
        (root / ".hoodie" / "hoodie.properties").write_text(text, encoding="latin-1")

    @property
    def path(self) -> str:
        return str(self.root)

    def instant(
        self,
        time: str,
        action: str = "commit",
        state: str = "completed",
        content: Mapping[str, Any] | None = None,
    ) -> None:
        """All files an instant leaves up to a state."""
        names = [f"{time}.{action}.requested"]
        if state != "requested":
            names.append(f"{time}.inflight" if action == "commit" else f"{time}.{action}.inflight")
        for name in names:
            (self.timeline / name).touch()
        if state != "completed":
            return
        action = {"compaction": "commit", "clustering": "replacecommit"}.get(action, action)
        if self.layout == 1:
            text = "" if content is None else json.dumps(content)
            (self.timeline / f"{time}.{action}").write_text(text)
            return
        with (self.timeline / f"{time}_{int(time) + 5}.{action}").open("wb") as out:
            fastavro.writer(out, _COMMIT, [dict(content or {})])

    def partition(self, name: str) -> Path:
        folder = self.root / name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / ".hoodie_partition_metadata").write_text("partitionDepth=1\n")
        return folder

    def file(
        self,
        instant: str,
        file_id: str,
        keys: Sequence[str],
        *,
        partition: str = "",
        token: str = "0-1-2",
        footer: Mapping[bytes, bytes] | None = None,
        row_group_size: int | None = None,
    ) -> str:
        """A base file with a filter and range of its keys, or with the footer given."""
        if footer is None:
            packed = RowBytes.from_list([k.encode() for k in keys])
            bloom = new_filter("SIMPLE", num_entries=max(1, len(keys)), fpp=0.01, max_entries=0)
            bloom.add(packed)
            ends = sorted(packed.to_list(), key=lambda k: k.decode().encode("utf-16-be"))
            footer = format_footer(bloom, min_key=ends[0], max_key=ends[-1])
        name = f"{file_id}_{token}_{instant}.parquet"
        table = pa.table({"_hoodie_record_key": list(keys), "id": list(keys), "v": list(range(len(keys)))})
        table = table.replace_schema_metadata(dict(footer))
        pq.write_table(table, self.partition(partition) / name, row_group_size=row_group_size)
        return name
