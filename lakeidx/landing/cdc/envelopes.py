"""The messages of change capture tools: where each keeps the operation, the row before and after it, and the time.

============  ==============================================  ====================================  ============================
format        operation                                       row after, row before                 written by
============  ==============================================  ====================================  ============================
debezium      ``op``: c r u d, t (truncate), m (message)      ``after``, ``before``                 Debezium, TiCDC, OceanBase
canal         ``type``: INSERT UPDATE DELETE, DDL             ``data[]``, ``old[]`` (what changed)  Canal, TiCDC, MaxCompute
maxwell       ``type``: insert update delete, bootstrap-*     ``data``, ``old`` (what changed)      Maxwell
ogg           ``op_type``: I U D, T (truncate)                ``after``, ``before``                 Oracle GoldenGate
dms-json      ``metadata.operation``: load insert …           ``data``, ``before-image``            AWS DMS to Kafka and Kinesis
============  ==============================================  ====================================  ============================
"""

from __future__ import annotations

from dataclasses import dataclass

INSERT, UPDATE, DELETE = 0, 1, 2
Path = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Envelope:
    """Places of rows, kinds and order in a tool's messages.

    op                operation
    after, before     rows
    many              `after` and `before` are lists of rows
    partial           `before` holds only the columns that changed
    deleted_in_after  the row of a delete is in `after`
    codes             operations of rows: what they do
    truncates         operations that empty the table
    skipped           operations that are no rows, with what they are counted as
    skipped_by        fields whose presence makes a message without operation one that is skipped
    time, time_unit   when the source committed the change; ``text`` is ISO, else the unit of a number
    tables            names of the source's table, joined by dots
    declared          field that holds column types of the source's DDL
    bytes_as          how bytes are written: hex, base64, or latin-1, a character each
    counts            numbers in columns of DATE and TIMESTAMP count from the epoch
    """

    name: str
    op: Path
    after: Path
    before: Path
    codes: dict[str, int]
    time: Path
    time_unit: str
    tables: tuple[Path, ...]
    many: bool = False
    partial: bool = False
    deleted_in_after: bool = False
    truncates: tuple[str, ...] = ()
    skipped: tuple[tuple[str, str], ...] = ()
    skipped_by: tuple[tuple[str, str], ...] = ()
    declared: str | None = None
    bytes_as: str = "hex"
    counts: bool = False


_DEBEZIUM_TABLES = tuple(("source", n) for n in ("db", "schema", "table", "collection"))
_DMS_TABLES = (("metadata", "schema-name"), ("metadata", "table-name"))
_MAXWELL_DDL = tuple(f"{what}-{verb}" for what in ("table", "database") for verb in ("create", "alter", "drop"))
#: Statements that Canal passes on; TRUNCATE is not among them.
_CANAL_DDL = ("CREATE", "ALTER", "ERASE", "RENAME", "CINDEX", "DINDEX", "QUERY", "TIDB_WATERMARK")
_DMS_CONTROL = ("create-table", "rename-table", "drop-table", "change-columns", "add-column", "drop-column",
                "rename-column", "column-type-change", "create-schema", "drop-schema")  # fmt: skip

ENVELOPES = {
    e.name: e
    for e in (
        Envelope(
            "debezium", ("op",), ("after",), ("before",), {"c": INSERT, "r": INSERT, "u": UPDATE, "d": DELETE},
            ("source", "ts_ms"), "ms", _DEBEZIUM_TABLES, truncates=("t",), skipped=(("m", "messages"),),
            skipped_by=(("ddl", "ddl"), ("tableChanges", "ddl"), ("status", "transaction marks")),
            bytes_as="base64", counts=True,
        ),
        Envelope(
            "canal", ("type",), ("data",), ("old",), {"INSERT": INSERT, "UPDATE": UPDATE, "DELETE": DELETE},
            ("es",), "ms", (("database",), ("table",)), many=True, partial=True, deleted_in_after=True, truncates=("TRUNCATE",),
            skipped=tuple((word, "ddl") for word in _CANAL_DDL), declared="mysqlType",
            bytes_as="latin-1",
        ),
        Envelope(
            "maxwell", ("type",), ("data",), ("old",),
            {"insert": INSERT, "bootstrap-insert": INSERT, "update": UPDATE, "delete": DELETE},
            ("ts",), "s", (("database",), ("table",)), partial=True, deleted_in_after=True,
            skipped=(
                *((word, "ddl") for word in _MAXWELL_DDL),
                ("bootstrap-start", "bootstrap marks"), ("bootstrap-complete", "bootstrap marks"),
            ),
            bytes_as="base64",
        ),
        Envelope(
            "ogg", ("op_type",), ("after",), ("before",), {"I": INSERT, "U": UPDATE, "D": DELETE},
            ("op_ts",), "text", (("table",),), truncates=("T",),
        ),
        Envelope(
            "dms-json", ("metadata", "operation"), ("data",), ("before-image",),
            {"load": INSERT, "insert": INSERT, "update": UPDATE, "delete": DELETE},
            ("metadata", "timestamp"), "text", _DMS_TABLES, partial=True, deleted_in_after=True, truncates=("truncate-table",),
            skipped=tuple((word, "ddl") for word in _DMS_CONTROL),
        ),
    )
}  # fmt: skip
