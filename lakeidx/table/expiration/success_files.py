"""Marks for other programs that a tag or a partition is there: success files, with the times of its first and last mark.

source   org.apache.paimon.partition.file.SuccessFile, org.apache.paimon.tag.SuccessFileTagCallback, release 1.4.2
"""

from __future__ import annotations

import json
import time

from lakeidx.errors import CorruptFileError, NotFoundError
from lakeidx.storage.base import ObjectStore
from lakeidx.table.metadata import TableMetadata


def write_success_file(store: ObjectStore, path: str) -> None:
    """Write a success file, or renew its time; CorruptFileError for another file in its place."""
    now = time.time_ns() // 1_000_000
    try:
        first = int(json.loads(store.get(path))["creationTime"])
    except NotFoundError:
        first = now
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptFileError(f"it is no success file: {error}", path=path) from error
    store.put(path, f'{{\n  "creationTime" : {first},\n  "modificationTime" : {now}\n}}'.encode())


def mark_tag(metadata: TableMetadata, name: str, *, there: bool = True) -> None:
    """Tell of a tag that was made or is gone: Iceberg readers, and by a success file where ``tag.create-success-file`` is set."""
    schema = metadata.latest_schema()
    if schema.table_options.writes_iceberg:
        from lakeidx.table.iceberg.publish import publish_tags

        publish_tags(metadata, schema)
    if not schema.table_options.tag_create_success_file:
        return
    path = f"{metadata.paths.tag_dir}/tag-success-file/{name}_SUCCESS"
    if there:
        write_success_file(metadata.store, path)
    elif metadata.store.exists(path):
        metadata.store.delete(path)
