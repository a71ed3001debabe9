"""Tables of Spark's catalog: ``CREATE TABLE flights USING lakeidx LOCATION '/lake/db.db/flights'``.

Spark gives a Python source the options of such a table once, when it asks for the columns of a table that is created without any
(``V2SessionCatalog.createTable``). Whoever reads it later gets the columns the catalog keeps, and no options: Spark 4's
``PythonDataSourceV2.getTable(schema, partitioning, properties)`` makes its ``PythonTable`` of the schema only. So the options
stay in the metadata of the first column, which the catalog keeps and hands back with every read.

A write gets the columns of the *query* that is written, with whatever metadata they bring from the tables they were read from: they
say where rows come from, not where they go. So the table that is written is the ``path`` among the options of the write itself, and
a write without one is refused: ``INSERT INTO flights WITH (path = '/lake/db.db/flights') SELECT ...``. Writes into a temporary view
have the options of the view.

Frames of ``spark.read.format("lakeidx").load(...)`` have no such metadata: their options come with each call.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Collection, Mapping, Sequence

import pyspark
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql.types import StructField, StructType

from lakeidx.errors import InvalidInputError
from lakeidx.spark.read_options import has_option

log = logging.getLogger(__name__)

#: Name of the metadata. Spark takes metadata of this name, meant for columns of its file sources, out of the columns of queries
#: (`removeInternalMetadata`): files that are written from one do not have it, nor has a name that is created from one.
KEY = "__file_source_generated_metadata_col"
#: What only the catalog gives.
_FROM_CATALOG = "provider"
_OF_LAKEIDX, _LOCATION = "Provider: lakeidx", "Location: "
_SECRET = ("secret", "token", "password", "access_key", "access-key")
#: Names that are looked at after an upsert; each takes Spark milliseconds, and a request where the catalog is a service.
_FEW_NAMES = 200
_HOW_TO_REFRESH = "where one of this table is cached, call spark.catalog.refreshTable(name)"
#: Whose INSERT has the options of its name in the query instead of its own (SPARK-58330, mended in 4.2.1).
_TAKES_OPTIONS_OF_READS = "4.2.0"
_HOW_TO_CREATE = "CREATE TABLE name USING lakeidx LOCATION '/lake/db.db/table'"


def with_options(schema: StructType, options: Mapping[str, str]) -> StructType:
    """Return the columns with the options in the metadata of the first, when the catalog reads them.

    errors   InvalidInputError for an option with a secret: frames and the files they are written to would show it
    """
    if _FROM_CATALOG not in options:
        return schema
    kept = {k: v for k, v in options.items() if k == "path" or has_option(k.lower())}
    for key in kept:
        if any(word in key.lower() for word in _SECRET):
            raise InvalidInputError(f"{key}: the catalog would show it to everybody; set it in the environment instead")
    first = schema.fields[0]
    metadata = {**first.metadata, KEY: json.dumps(kept)}
    return StructType([StructField(first.name, first.dataType, first.nullable, metadata), *schema.fields[1:]])


def options_of_read(options: Mapping[str, str], schema: StructType) -> Mapping[str, str]:
    """Return the options of a read: the given ones over those the catalog's table was created with.

    errors   InvalidInputError when there is no path: the table was created with columns, or from a query
    """
    found = [f.metadata[KEY] for f in schema.fields if KEY in f.metadata]
    if "path" in options:
        return options
    if not found:
        raise InvalidInputError(
            "Spark does not say where the table is: this name was created with columns, or from a query. DROP TABLE name, then "
            f"{_HOW_TO_CREATE}; lakeidx.spark.create(..., name=) makes both, and lakeidx.spark.sql reads and writes it as it is; "
            "a frame names its table by .load(...) or .option('path', ...)"
        )
    return {**json.loads(found[0]), **options}


def place_of_name(session: SparkSession, parts: Sequence[str]) -> str | None:
    """Return where the table of a name of the catalog is; None where it is none of lakeidx, or was created with options.

    Spark shows options as one text, in which their ends cannot be told. Names of its catalog have no ``$``: what follows one
    (``orders$files``) follows the place.
    """
    *space, last = parts
    name, dollar, behind = last.partition("$")
    among = f"IN {'.'.join(quoted(p) for p in space)} " if space else ""
    try:
        rows = session.sql(f"SHOW TABLE EXTENDED {among}LIKE '{escaped(name)}'").collect()
    except AnalysisException:
        return None
    found = [row for row in rows if row["tableName"].lower() == name.lower()]
    if len(found) != 1 or found[0]["isTemporary"]:
        return None
    lines = found[0]["information"].splitlines()
    if _OF_LAKEIDX not in lines or any(line.startswith("Storage Properties: ") for line in lines):
        return None
    place = next((line.removeprefix(_LOCATION) for line in lines if line.startswith(_LOCATION)), None)
    return place and place + dollar + behind


def quoted(name: str) -> str:
    """Return a name as it stands in Spark's SQL."""
    return "`" + name.replace("`", "``") + "`"


def only_in_catalog(schema: StructType, columns: Collection[str]) -> list[str]:
    """Return the columns of a name that its table does not have, because Spark's catalog was altered; they are read as null."""
    if not any(KEY in f.metadata for f in schema.fields):
        return []
    found = [n for n in schema.names if n not in columns]
    if found:
        log.warning(
            "only Spark's catalog has the column %s, read as null: lakeidx table alter --add, DROP TABLE name and %s",
            ", ".join(found), _HOW_TO_CREATE,
        )  # fmt: skip
    return found


def options_of_write(options: Mapping[str, str]) -> Mapping[str, str]:
    """Return the options of a write, which name the table themselves.

    errors   InvalidInputError when there is no path
    """
    if "path" not in options:
        dropped = "Spark 4.2.0 drops it where the query reads the same name: read a view, or use a newer Spark. "
        raise InvalidInputError(
            "Spark does not say which table is written: INSERT INTO name WITH (path = '/lake/db.db/table') SELECT ..., "
            ".writeTo(name).option('path', ...), .save('/lake/db.db/table') or .start('/lake/db.db/table') do. "
            f"{dropped if pyspark.__version__ == _TAKES_OPTIONS_OF_READS else ''}A name that was "
            f"created with columns, or is to be made of a query: DROP TABLE IF EXISTS name, then {_HOW_TO_CREATE}, or "
            "lakeidx.spark.create(..., name=)"
        )
    return options


def refresh_names(session: SparkSession, table: str) -> None:
    """Let go of what Spark has cached under names of lakeidx's tables (``CACHE TABLE``), after a write that Spark did not see.

    Names of the session's current database are looked at, when they are few; a warning says so where
    this cannot be done. It raises nothing: the rows are committed.

    table   the directory that was written, for the warning: places can be spelled in several ways, so all names are refreshed
    """
    try:
        # A temporary view is the state of when it was made.
        names = [row["tableName"] for row in session.sql("SHOW TABLES").collect() if not row["isTemporary"]]
        if len(names) > _FEW_NAMES:
            log.warning("%s: of %d names none was refreshed; %s", table, len(names), _HOW_TO_REFRESH)
            return
        for name in names:
            if _is_cached(session, quoted(name)) and _is_of_lakeidx(session, name):
                session.catalog.refreshTable(quoted(name))
    except Exception as error:
        # Also what a catalog, its client or the network raise.
        log.warning("%s: Spark's names were not refreshed (%s); %s", table, str(error).split("\n")[0], _HOW_TO_REFRESH)


def escaped(text: str) -> str:
    """Return a text as it stands between the quotes of Spark's SQL."""
    return text.replace("\\", "\\\\").replace("'", "\\'")


def _is_cached(session: SparkSession, name: str) -> bool:
    try:
        return session.catalog.isCached(name)
    except AnalysisException:
        # Such as a view of a table that is gone: nobody can read it.
        return False


def _is_of_lakeidx(session: SparkSession, name: str) -> bool:
    # DESCRIBE has no provider for tables of Python sources.
    rows = session.sql(f"SHOW TABLE EXTENDED LIKE '{escaped(name)}'").collect()
    return any(_OF_LAKEIDX in row["information"].splitlines() for row in rows if row["tableName"] == name)
