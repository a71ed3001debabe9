"""pypaimon as a program of its own, in its own environment: commands as JSON lines on stdin, answers on stdout.

``{"warehouse", "table", "do": "read" | "write" | "create", ...}``; imports nothing of lakeidx.
"""

import json
import sys

import pyarrow as pa
from pypaimon import CatalogFactory, Schema

TYPES = {"INT": pa.int32(), "BIGINT": pa.int64(), "STRING": pa.string()}


def create(catalog, request):  # type: ignore[no-untyped-def]
    """A table of the same spec that lakeidx takes."""
    spec = request["spec"]
    fields = [pa.field(f["name"], TYPES[f["type"]], f["name"] not in spec["primaryKeys"]) for f in spec["fields"]]
    schema = Schema.from_pyarrow_schema(
        pa.schema(fields),
        partition_keys=spec["partitionKeys"],
        primary_keys=spec["primaryKeys"],
        options=spec["options"],
    )
    catalog.create_database(request["table"].split(".")[0], True)
    catalog.create_table(request["table"], schema, False)


def read(table):  # type: ignore[no-untyped-def]
    """All rows."""
    builder = table.new_read_builder()
    return builder.new_read().to_arrow(builder.new_scan().plan().splits()).to_pylist()


def write(table, rows):  # type: ignore[no-untyped-def]
    """Upsert rows as one batch."""
    builder = table.new_batch_write_builder()
    writer, commit = builder.new_write(), builder.new_commit()
    columns = {f.name: str(f.type).replace(" NOT NULL", "") for f in table.fields}
    schema = pa.schema([(name, TYPES[t]) for name, t in columns.items()])
    writer.write_arrow(pa.Table.from_pylist(rows, schema=schema))
    commit.commit(writer.prepare_commit())
    writer.close()
    commit.close()


def answer(request):  # type: ignore[no-untyped-def]
    """Do what one line asks for."""
    catalog = CatalogFactory.create({"warehouse": request["warehouse"]})
    if request["do"] == "create":
        return create(catalog, request)  # type: ignore[no-untyped-call]
    table = catalog.get_table(request["table"])
    return read(table) if request["do"] == "read" else write(table, request["rows"])  # type: ignore[no-untyped-call]


def main():  # type: ignore[no-untyped-def]
    """Answer line by line."""
    answers, sys.stdout = sys.stdout, sys.stderr
    for line in sys.stdin:
        try:
            told = {"out": answer(json.loads(line))}  # type: ignore[no-untyped-call]
        except Exception as error:
            told = {"error": f"{type(error).__name__}: {error}"}
        answers.write(json.dumps(told) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()  # type: ignore[no-untyped-call]
