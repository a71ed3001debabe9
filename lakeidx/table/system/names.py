"""Names of Paimon's system tables, and the paths they are read by: ``/lake/db.db/t$files``.

source   org.apache.paimon.table.system.SystemTableLoader, a build after release 2.0.0
"""

from __future__ import annotations

from lakeidx.errors import InvalidInputError, did_you_mean

#: Tables of one state of a table: they can be asked of an older one.
OF_A_STATE = (
    "files", "manifests", "partitions", "buckets", "statistics", "table_indexes", "file_key_ranges", "file_indexes"
)  # fmt: skip
#: Tables of what a table has now.
OF_NOW = ("snapshots", "schemas", "options", "tags", "branches", "consumers", "aggregation_fields")
#: The table's own rows, in another form.
OF_ROWS = ("ro", "row_tracking", "audit_log", "binlog")
#: All of them.
SYSTEM_TABLES = (*OF_NOW, *OF_A_STATE, *OF_ROWS)


def check_system_name(name: str, *, path: str | None = None) -> str:
    """Return the name of a system table in lower case, as Java takes it in any.

    errors   InvalidInputError naming the tables there are
    """
    found = name.lower()
    if found not in SYSTEM_TABLES:
        raise InvalidInputError(f"there is no system table {name!r}; {did_you_mean(found, SYSTEM_TABLES)}", path=path)
    return found


def split_system_name(uri: str) -> tuple[str, str | None]:
    """Split the path of a system table (``/lake/db.db/t$files``) into the table's and the name; None for another path.

    errors   InvalidInputError for a system table that there is not
    """
    root, dollar, name = uri.rstrip("/").rpartition("$")
    if not dollar or "/" in name or name.startswith("branch_"):
        return uri, None
    return root, check_system_name(name, path=root)
