"""A table inferred from landing files: columns, primary key, and the index that its advice recommends."""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

import lakeidx
from lakeidx.api.inference.column_types import ColumnTypes, infer_types
from lakeidx.api.inference.samples import Sample, read_sample
from lakeidx.api.table import Table
from lakeidx.errors import InvalidInputError, LakeIdxError, NotFoundError
from lakeidx.landing.kind_rules import KIND_COLUMN
from lakeidx.landing.read import ENDINGS, LandingOptions, is_landing_file
from lakeidx.pipeline_file.model import PipelineConfig, check_document
from lakeidx.pipeline_file.sections import LandingConfig
from lakeidx.pipeline_file.yaml_lines import YamlDocument
from lakeidx.storage.base import FileInfo
from lakeidx.storage.files import parent_of
from lakeidx.storage.landing_folders import open_landing

#: Files that are looked at: the first, the last, and some in between.
_SAMPLES = 4
#: Sizes that follow from fewer rows would not fit the table that comes of them.
_ADVICE_ROWS = 5_000
#: Columns of a key that is looked for, and columns that are tried, likely ones first.
_KEY_COLUMNS = 3
_KEY_CANDIDATES = 12


#: Types of what is measured or said of a thing, which does not name it.
_MEASURED = ("DECIMAL", "DOUBLE", "FLOAT", "BOOLEAN")

#: A new table may grow by any factor, and other programs may write it: no fixed number of buckets, nothing beside the table.
_NEEDS = {"other_writers": True, "stateless": True}


@dataclass(frozen=True, slots=True)
class InferredTable:
    """Table as it was inferred.

    attributes   a pipeline file without table, warehouse
    notes        what was decided why, one line each
    unread       lines of files that are no rows, one line each
    comments     on columns, by name
    files        all of the place
    """

    attributes: dict[str, Any]
    notes: tuple[str, ...]
    unread: tuple[str, ...] = ()
    comments: Mapping[str, str] = field(default_factory=dict)
    files: tuple[str, ...] = ()


def infer_table(
    place: str | Sequence[str],
    *,
    keys: Sequence[str] = (),
    partition_by: Sequence[str] = (),
    options: LandingOptions | None = None,
) -> InferredTable:
    """Infer a table from landing files.

    place          a folder, or files of one
    keys           columns of the primary key; none: the fewest columns whose values no two rows of a file share
    partition_by   columns that partition the table
    options        by which the files are read, as far as that is known
    errors         NotFoundError for a folder without landing files; InvalidInputError when no key is found, and for files that
                   disagree
    """
    places = [place] if isinstance(place, str) else list(place)
    folder, files, notes = _files(places, options or LandingOptions())
    whole = folder.rstrip("/") == places[0].rstrip("/")
    samples = _samples(folder, files, options or LandingOptions())
    used = samples[0].options
    rows = _joined(samples)
    found = infer_types(rows, used, written=samples[0].written)
    _refuse_disagreement(samples, found)
    names = {n: _plain_name(n) for n in rows.column_names}
    mine = {**{v: v for v in names.values()}, **names}
    _check_columns(rows.schema, [n for n in (*keys, *partition_by) if n not in mine], folder)
    keys, partition_by = [mine[k] for k in keys], [mine[p] for p in partition_by]
    tables = [
        s.rows.rename_columns([names[n] for n in s.rows.column_names if n in names]) for s in _without_kinds(samples)
    ]
    schema = pa.schema([(names[f.name], f.type) for f in rows.schema])
    if not keys:
        measured = [names[n] for n, t in found.types.items() if str(t).partition("(")[0] in _MEASURED]
        keys = find_key(_with_nulls(tables, found.options), schema, partition_by, never=measured)
        notes.append(f"primary key: no two rows of a file share {', '.join(keys)}; give --key if it is another")
    notes += [f"columns: as in {len(samples)} of {len(files)} files", _evidence(tables, keys)]
    keys = list(dict.fromkeys([*partition_by, *keys]))
    renamed = {"columns": other} if (other := {n: m for n, m in names.items() if n != m}) else {}
    attributes: dict[str, Any] = {
        "landing": {"path": folder, "pattern": _pattern(files, whole=whole), **_spelled(found.options), **renamed},
        "fields": [{"name": names[n], "type": t} for n, t in found.types.items()],
        "primaryKeys": keys,
        **({"partitionKeys": list(partition_by)} if partition_by else {}),
        "options": {"bucket": -1},
    }
    lacking = [n for n in rows.column_names if any(n in s.lacking or n not in s.rows.column_names for s in samples)]
    if lacking and used.missing == LandingOptions().missing:
        attributes["landing"]["missing_columns"] = "null"
        notes.append(f"missing_columns: null, since some rows lack {', '.join(names[n] for n in lacking)}")
    notes += _guesses(samples, found, names)
    advised, why = _advised([f.path for f in _some(files)], rows.num_rows, keys, partition_by, attributes)
    attributes["options"].update(advised)
    return InferredTable(
        attributes,
        (*notes, why),
        tuple(f"{s.path} line {b.line}: {' '.join(b.reason.split())}" for s in samples for b in s.unread),
        {names[n]: comment for n, comment in found.comments.items()},
        tuple(f.path for f in files),
    )


def _files(places: Sequence[str], options: LandingOptions) -> tuple[str, list[FileInfo], list[str]]:
    """Return the folder, the files of one kind in it, and what was left out."""
    found: list[FileInfo] = []
    for place in places:
        store = open_landing(place, options.storage_options or None)
        inside = [f for f in store.list(place) if not f.is_dir]
        alone = None if inside else store.info(place)
        found += inside if alone is None else [alone]
    known = sorted((f for f in found if options.format or is_landing_file(f.name)), key=lambda f: f.name)
    if not known:
        others = ", ".join(sorted(f.name for f in found)[:3])
        raise NotFoundError(
            f"no landing files ({ENDINGS})" + (f"; of {others} the kind is unknown: say --format" if others else ""),
            path=places[0],
        )
    folders = {parent_of(f.path) for f in known}
    if len(folders) > 1:
        raise InvalidInputError(f"the files are of several folders: {', '.join(sorted(folders))}; give those of one")
    suffix = _suffix(known[-1].name)
    files = [f for f in known if _suffix(f.name) == suffix]
    left = [f.name for f in found if f.name not in {k.name for k in files}]
    notes = [f"left out {len(left)} files that do not end in {suffix}: {', '.join(sorted(left)[:5])}"] if left else []
    return folders.pop(), files, notes


def _pattern(files: Sequence[FileInfo], *, whole: bool) -> str:
    """Return a pattern of the names; of a whole folder all of the kind."""
    if len(files) == 1 and not whole:
        return files[0].name
    first, last = min(f.name for f in files), max(f.name for f in files)
    same = next((i for i, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), 0)
    return f"{'' if whole else first[:same]}*{_suffix(first)}"


def _samples(folder: str, files: Sequence[FileInfo], options: LandingOptions) -> list[Sample]:
    """Read some files, all as the first is read; InvalidInputError when others are written otherwise."""
    store = open_landing(folder, options.storage_options or None)
    samples = [read_sample(store, f.path, options) for f in _some(files)]
    other = next((s for s in samples if s.options != samples[0].options), None)
    if other is not None:
        raise InvalidInputError(
            f"it is not written as {samples[0].path}: {'; '.join(other.guessed) or 'as usual'}, there "
            f"{'; '.join(samples[0].guessed) or 'as usual'}; give files that are written alike",
            path=other.path,
        )
    return samples


def _without_kinds(samples: Sequence[Sample]) -> list[Sample]:
    return [
        replace(s, rows=s.rows.drop_columns([KIND_COLUMN])) if KIND_COLUMN in s.rows.column_names else s
        for s in samples
    ]


def _joined(samples: Sequence[Sample]) -> pa.Table:
    plain = _without_kinds(samples)
    first = plain[0]
    for other in plain[1:]:
        if not set(other.rows.column_names) & set(first.rows.column_names):
            raise InvalidInputError(
                f"it has no column of {first.path} ({', '.join(first.rows.column_names)}): make a table of each",
                path=other.path,
            )
        try:
            pa.unify_schemas([first.rows.schema, other.rows.schema], promote_options="permissive")
        except pa.ArrowException as error:
            raise InvalidInputError(
                f"it does not go with {first.path}: {error}; make a table of each", path=other.path
            ) from error
    return pa.concat_tables([s.rows for s in plain], promote_options="permissive")


def _refuse_disagreement(samples: Sequence[Sample], found: ColumnTypes) -> None:
    """Refuse a column that is text only because one of the files has other values than the others."""
    for name in (n for n, t in found.types.items() if t == "STRING" and len(samples) > 1):
        kinds = {}
        for sample in samples:
            if name in sample.rows.column_names and sample.rows.column(name).null_count < sample.rows.num_rows:
                kinds[infer_types(sample.rows.select([name]), sample.options, written=sample.written).types[name]] = (
                    sample.path
                )
        if len(kinds) > 1 and "STRING" in kinds:
            other = next(t for t in kinds if t != "STRING")
            raise InvalidInputError(
                f"column {name} is text here, and {other} in {kinds[other]}: mend one of the files, or give files that are alike",
                path=kinds["STRING"],
            )


def _plain_name(name: str) -> str:
    """Return a name of a column that needs no quotes in SQL."""
    if re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII):
        return name
    plain = unicodedata.normalize("NFKD", name.replace("ß", "ss")).encode("ascii", "ignore").decode().lower()
    plain = re.sub(r"\W+", "_", plain).strip("_")
    return name if not plain or plain[0].isdigit() else plain


def _spelled(options: LandingOptions) -> dict[str, Any]:
    """Return options of the reader that are not the usual ones, as a pipeline file has them."""
    usual = LandingOptions()
    names = LandingConfig.model_fields.keys() - {"path", "pattern", "storage_options"}
    changed = {n: getattr(options, n) for n in LandingOptions.__dataclass_fields__ if n in names}
    return {n: list(v) if isinstance(v, tuple) else v for n, v in changed.items() if v != getattr(usual, n)}


def _guesses(samples: Sequence[Sample], found: ColumnTypes, names: Mapping[str, str]) -> list[str]:
    """Say what was guessed about buckets, columns and files."""
    notes = ["buckets: -1, as many as it takes; dynamic-bucket.target-row-num says how many keys each has"]
    notes += [f"{names[n]}: {comment}" for n, comment in found.comments.items()]
    nulls = [v for v in found.options.null_values if v not in samples[0].options.null_values]
    notes += [f"null_values: {', '.join(map(repr, nulls))} means null"] if nulls else []
    return notes + [f"{s.path}: {g}" for s in samples for g in s.guessed]


def _evidence(tables: Sequence[pa.Table], keys: Sequence[str]) -> str:
    """Say how many rows the key tells apart, and how many have none."""
    rows = sum(t.num_rows for t in tables)
    nulls = sum(
        _nulls(t, k) and t.column(k).null_count if k in t.column_names else t.num_rows for t in tables for k in keys
    )
    present = [t for t in tables if all(k in t.column_names for k in keys)]
    values = sum(t.select(list(keys)).group_by(list(keys)).aggregate([]).num_rows for t in present)
    twice = "each another" if values == rows else f"{rows - values} rows have the key of an earlier one of their file"
    return f"{', '.join(keys)}: {rows:,} rows, {twice}, {nulls or 'none'} null"


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
        check_document(YamlDocument(tried), "advice", PipelineConfig)
    except LakeIdxError as error:
        return {}, f"index: the default (hash); lakeidx advise gave none: {error.message}"
    return options, f"index: lakeidx advise recommends {', '.join(f'{k} = {v}' for k, v in options.items())}"


def _with_nulls(tables: Sequence[pa.Table], options: LandingOptions) -> list[pa.Table]:
    """Return texts that mean null as nulls."""
    spelled = pa.array(options.null_values, pa.string())

    def column(values: pa.ChunkedArray) -> pa.ChunkedArray:
        return pc.if_else(pc.is_in(values, spelled), None, values) if pa.types.is_string(values.type) else values

    return [pa.table({n: column(t.column(n)) for n in t.column_names}) if t.num_columns else t for t in tables]


def find_key(
    samples: Sequence[pa.Table], schema: pa.Schema, partition_by: Sequence[str], *, never: Sequence[str] = ()
) -> list[str]:
    """Find the fewest columns, likely ones first, that no two rows of a sample share.

    never    columns that are none of a key
    errors   InvalidInputError when there are none
    """
    names = [
        f.name
        for f in schema
        if f.name not in never and _may_be_key(f.type) and not any(_nulls(s, f.name) for s in samples)
    ]
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
