"""A table inferred from landing files: columns, primary key, and the index that its advice recommends."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet as pq

import lakeidx
from lakeidx.api.table import Table
from lakeidx.errors import InvalidInputError, LakeIdxError, NotFoundError
from lakeidx.landing.read import ENDINGS, LandingOptions, is_landing_file, landing_format, open_parquet
from lakeidx.landing.row_kinds import KIND_COLUMN
from lakeidx.landing.text.compressed import open_plain
from lakeidx.pipeline_file.model import check_document
from lakeidx.pipeline_file.yaml_lines import YamlDocument
from lakeidx.storage.base import FileInfo, ObjectStore
from lakeidx.storage.landing_folders import open_landing
from lakeidx.types import format_type, from_arrow

#: Files that are looked at: the first, the last, and some in between.
_SAMPLES = 4
_SAMPLE_ROWS = 100_000
_SAMPLE_BYTES = 16 << 20
#: Sizes that follow from fewer rows would not fit the table that comes of them.
_ADVICE_ROWS = 5_000
#: Columns of a key that is looked for, and columns that are tried, likely ones first.
_KEY_COLUMNS = 3
_KEY_CANDIDATES = 12


#: A new table may grow by any factor, and other programs may write it: no fixed number of buckets, nothing beside the table.
_NEEDS = {"other_writers": True, "stateless": True}


@dataclass(frozen=True, slots=True)
class InferredTable:
    """Table as it was inferred.

    attributes   a pipeline file without table, warehouse
    notes        what was decided why, one line each
    """

    attributes: dict[str, Any]
    notes: tuple[str, ...]


def infer_table(folder: str, *, keys: Sequence[str] = (), partition_by: Sequence[str] = ()) -> InferredTable:
    """Infer a table from the landing files of a folder.

    keys           columns of the primary key; none: the fewest columns whose values no two rows of a file share
    partition_by   columns that partition the table
    errors         NotFoundError for a folder without landing files; InvalidInputError when no key is found
    """
    store = open_landing(folder)
    files = sorted((f for f in store.list(folder) if not f.is_dir and is_landing_file(f.name)), key=lambda f: f.name)
    if not files:
        raise NotFoundError(f"no landing files ({ENDINGS})", path=folder)
    suffix = _suffix(files[-1].name)
    files = [f for f in files if _suffix(f.name) == suffix]
    samples = [_sample(store, f) for f in _some(files)]
    schema = pa.unify_schemas([s.schema for s in samples], promote_options="permissive")
    schema = pa.schema([f for f in schema if f.name != KIND_COLUMN])
    notes = [f"columns: as in {len(samples)} of {len(files)} files"]
    _check_columns(schema, [*keys, *partition_by], folder)
    if not keys:
        keys = _find_key(samples, schema, partition_by)
        notes.append(f"primary key: no two rows of a file share {', '.join(keys)}; give --key if it is another")
    keys = list(dict.fromkeys([*partition_by, *keys]))
    attributes: dict[str, Any] = {
        "landing": {"path": folder.rstrip("/"), "pattern": f"*{suffix}"},
        "fields": [{"name": f.name, "type": format_type(from_arrow(f.type, where=f"column {f.name}"))} for f in schema],
        "primaryKeys": keys,
        **({"partitionKeys": list(partition_by)} if partition_by else {}),
        "options": {"bucket": -1},
    }
    if any(set(s.column_names) - {KIND_COLUMN} != set(schema.names) for s in samples):
        attributes["landing"]["missing_columns"] = "null"
        notes.append("missing_columns: null, since some files lack columns")
    rows = sum(s.num_rows for s in samples)
    options, why = _advised([f.path for f in _some(files)], rows, keys, partition_by, attributes)
    attributes["options"].update(options)
    return InferredTable(attributes, (*notes, why))


def _advised(
    paths: Sequence[str], rows: int, keys: Sequence[str], partition_by: Sequence[str], attributes: dict[str, Any]
) -> tuple[dict[str, str], str]:
    """Return the options that `lakeidx advise` recommends, and a note about it; none when it cannot."""
    if len(paths) < 2:
        return {}, "index: the default (hash); lakeidx advise recommends one when there are two files or more"
    if rows < _ADVICE_ROWS:
        return {}, f"index: the default (hash); lakeidx advise needs {_ADVICE_ROWS} rows to say which fits"
    own = [k for k in keys if k not in partition_by]
    try:
        options = dict(
            Table.advise_files(paths, key=own, partition_by=partition_by, needs=lakeidx.Needs(**_NEEDS)).options
        )
        tried = {**attributes, "table": "d.t", "warehouse": "w", "options": {**attributes["options"], **options}}
        check_document(YamlDocument(tried), "advice")
    except LakeIdxError as error:
        return {}, f"index: the default (hash); lakeidx advise gave none: {error.message}"
    return options, f"index: lakeidx advise recommends {', '.join(f'{k} = {v}' for k, v in options.items())}"


def _find_key(samples: Sequence[pa.Table], schema: pa.Schema, partition_by: Sequence[str]) -> list[str]:
    names = [f.name for f in schema if _may_be_key(f.type) and not any(_nulls(s, f.name) for s in samples)]
    likely = sorted(
        names, key=lambda n: not (n.lower() in ("id", "key", "uuid") or n.lower().endswith(("_id", "_key")))
    )
    for size in range(1, _KEY_COLUMNS + 1):
        for chosen in itertools.combinations(likely[:_KEY_CANDIDATES], size):
            if all(_unique(s, [*partition_by, *chosen]) for s in samples):
                return list(chosen)
    raise InvalidInputError(
        f"no {_KEY_COLUMNS} columns or fewer are unique in a file: name the primary key with --key; the files have "
        f"{', '.join(schema.names)}"
    )


def _may_be_key(t: pa.DataType) -> bool:
    return str(t) in ("string", "large_string") or bool(pa.types.is_integer(t) or pa.types.is_temporal(t))


def _nulls(rows: pa.Table, name: str) -> bool:
    return name not in rows.column_names or rows.column(name).null_count > 0


def _unique(rows: pa.Table, names: Sequence[str]) -> bool:
    return bool(rows.select(list(dict.fromkeys(names))).group_by(names).aggregate([]).num_rows == rows.num_rows)


def _check_columns(schema: pa.Schema, wanted: Sequence[str], folder: str) -> None:
    unknown = [n for n in wanted if n not in schema.names]
    if unknown:
        raise InvalidInputError(
            f"there is no column {unknown[0]}; the files have {', '.join(schema.names)}", path=folder
        )


def _some(files: Sequence[FileInfo]) -> list[FileInfo]:
    """Choose a few files, over the whole list."""
    if len(files) <= _SAMPLES:
        return list(files)
    return [files[round(i * (len(files) - 1) / (_SAMPLES - 1))] for i in range(_SAMPLES)]


def _suffix(name: str) -> str:
    """Return the ending that names the format: ``.csv.gz``."""
    stem, _, last = name.rpartition(".")
    inner = stem.rpartition(".")[2]
    return f".{inner}.{last}" if last in ("gz", "zst") and inner else f".{last}"


def _sample(store: ObjectStore, file: FileInfo) -> pa.Table:
    """Read the first rows of a file with the types it has, or seems to have.

    errors   InvalidInputError for a file that cannot be read, naming it
    """
    kind = landing_format(file.path, LandingOptions())
    try:
        if kind == "parquet":
            return pa.concat_tables([*_first(open_parquet(store, file.path))])
        if kind == "arrow":
            with store.open_input(file.path) as source:
                is_file = source.read(6) == b"ARROW1"
                source.seek(0)
                reader = pa.ipc.open_file(source) if is_file else pa.ipc.open_stream(source)
                return reader.read_all().slice(0, _SAMPLE_ROWS)
        with open_plain(store, file.path) as source:
            text = bytes(source.read(_SAMPLE_BYTES))
        whole = pa.BufferReader(text[: text.rfind(b"\n") + 1] or text)
        return pa.csv.read_csv(whole) if kind == "csv" else pa.json.read_json(whole)
    except pa.ArrowException as error:
        raise InvalidInputError(f"the file cannot be read: {error}", path=file.path) from error


def _first(file: pq.ParquetFile) -> Iterator[pa.Table]:
    rows = 0
    yield file.schema_arrow.empty_table()
    for batch in file.iter_batches(batch_size=_SAMPLE_ROWS):
        yield pa.Table.from_batches([batch])
        rows += batch.num_rows
        if rows >= _SAMPLE_ROWS:
            return
