"""What released programs see of the matrix: Java Paimon, pypaimon and pypaimon-rust."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import lakeidx
from lakeidx.types import BYTES_ROOTS, TIMESTAMP_ROOTS, DataType, Root
from tests.kit.java_paimon import JavaPaimon
from tests.kit.matrix_out import Shown, WayOut, of_arrow, of_text
from tests.kit.matrix_values import VARIANT, Column
from tests.kit.pypaimon_tools import PyPaimon


def of_java(value: Any, t: DataType) -> Any:
    """Return a value as the witness prints it; what is a key of a map is text there."""
    if value is None:
        return None
    if t.root is Root.VARIANT:
        assert value == '{"a":1}', value
        return VARIANT
    if t.root is Root.ROW:
        return tuple(of_java(value[f.name], f.type) for f in t.fields)
    if t.root is Root.ARRAY and t.element is not None:
        return [of_java(v, t.element) for v in value]
    if t.root is Root.MAP and t.key is not None and t.element is not None:
        return [(of_java(k, t.key), of_java(v, t.element)) for k, v in value.items()]
    if t.root is Root.TIME:
        return int(value) * 10**6
    if t.root is Root.FLOAT:
        return float(np.float32(value))
    if t.root is Root.DOUBLE:
        return float(value)
    if t.root in TIMESTAMP_ROOTS:
        text = value.lstrip("+") + (":00" if value.count(":") == 1 else "")
        return of_text(text + ("Z" if t.root is Root.TIMESTAMP_LTZ else ""), t)
    if t.root is Root.DECIMAL:
        return Decimal(value)
    if t.root in BYTES_ROOTS or t.root is Root.DATE:
        return of_text(value, t)
    return int(value) if "INT" in t.root else value


def _java(table: lakeidx.Table, columns: Sequence[Column], _: Path) -> Shown:
    rows = JavaPaimon(*_place(table)).json("read")
    # The witness has no words for a MULTISET.
    columns = [c for c in columns if c.type.root is not Root.MULTISET]
    return {r["id"]: {c.name: of_java(r.get(c.name), c.type) for c in columns} for r in rows}


def _place(table: lakeidx.Table) -> tuple[str, str]:
    place = Path(table.uri)
    return str(place.parents[1]), f"{place.parent.stem}.{place.name}"


def _copied_by_java(table: lakeidx.Table, below: int, added: int) -> None:
    JavaPaimon(*_place(table)).run("copy", str(below), str(added))


def _compacted_by_java(table: lakeidx.Table) -> None:
    JavaPaimon(*_place(table)).run("compact", "write-only=false")


@contextmanager
def _python(table: lakeidx.Table) -> Iterator[tuple[PyPaimon, str]]:
    warehouse, name = _place(table)
    made = PyPaimon(Path(warehouse))
    try:
        yield made, name
    finally:
        made.close()


def _pypaimon(engine: str, table: lakeidx.Table, columns: Sequence[Column], folder: Path) -> Shown:
    with _python(table) as (reader, name):
        reader.read_into(folder / "read.arrow", name, engine)
    with pa.ipc.open_file(str(folder / "read.arrow")) as file:
        return of_arrow(file.read_all(), columns)


def _copied_by_python(engine: str, table: lakeidx.Table, below: int, added: int) -> None:
    with _python(table) as (writer, name):
        writer.copy(name, below, added, engine)


@dataclass(frozen=True)
class Judge:
    """A released program.

    reads     what it sees of a table
    copies    writes the rows with an id below a number once more, with another number added to it
    but       words of types that it does not read
    compacts  a table, where it can
    """

    reads: WayOut
    copies: Callable[[lakeidx.Table, int, int], None]
    but: tuple[str, ...] = ()
    compacts: Callable[[lakeidx.Table], None] | None = None


JUDGES = {
    "Java": Judge(WayOut(_java), _copied_by_java, (), _compacted_by_java),
    "pypaimon": Judge(WayOut(partial(_pypaimon, "python")), partial(_copied_by_python, "python"), (Root.MULTISET,)),
    "pypaimon-rust": Judge(
        WayOut(partial(_pypaimon, "rust")), partial(_copied_by_python, "rust"), (Root.MULTISET, Root.MAP)
    ),
}
