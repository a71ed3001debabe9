"""pypaimon and pypaimon-rust as a program in an environment of its own: commands as JSON lines on stdin, answers on stdout.

``{"warehouse", "table", "engine": "python" | "rust", "do": "read" | "write" | "copy" | "create", ...}``.
Imports nothing of lakeidx.
"""

# The packages are not in the environment of the tests, so no types are known here.
# mypy: ignore-errors

import json
import sys

import pyarrow as pa
import pyarrow.compute as pc
from pypaimon import CatalogFactory, Schema
from pypaimon_rust.datafusion import PaimonCatalog

TYPES = {"INT": pa.int32(), "BIGINT": pa.int64(), "STRING": pa.string()}
#: Row kinds as files have them.
KINDS = {"+I": 0, "-U": 1, "+U": 2, "-D": 3}


def create(catalog, request):
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


def arrow(columns, rows):
    """Rows with the columns of the table, and their kinds where they have any."""
    schema = [(name, TYPES[t.replace(" NOT NULL", "")]) for name, t in columns]
    return pa.Table.from_pylist([{n: row[n] for n, _ in schema} for row in rows], schema=pa.schema(schema))


class Python:
    """pypaimon. A row is deleted by a column that is named as that of the kinds."""

    def __init__(self, warehouse):
        self.catalog = CatalogFactory.create({"warehouse": warehouse})

    def read(self, name):
        """All rows."""
        builder = self.catalog.get_table(name).new_read_builder()
        return builder.new_read().to_arrow(builder.new_scan().plan().splits())

    def write(self, name, rows):
        """Upsert rows as one batch, or delete them: `v` says the kind then."""
        table = self.catalog.get_table(name)
        if isinstance(rows, list) and any(row.get("_kind", "+I") != "+I" for row in rows):
            table = table.copy({"rowkind.field": "v"})
            rows = [{**row, "v": row["_kind"]} for row in rows]
        builder = table.new_batch_write_builder()
        writer, commit = builder.new_write(), builder.new_commit()
        typed = isinstance(rows, pa.Table)
        writer.write_arrow(rows if typed else arrow([(f.name, str(f.type)) for f in table.fields], rows))
        commit.commit(writer.prepare_commit())
        writer.close()
        commit.close()


class Rust:
    """pypaimon-rust. A row is deleted by the column of the kinds as files have it."""

    def __init__(self, warehouse):
        self.catalog = PaimonCatalog({"warehouse": warehouse})

    def read(self, name):
        """All rows."""
        builder = self.catalog.get_table(name).new_read_builder()
        batches = builder.new_read().read_arrow(builder.new_scan().plan().splits())
        return pa.Table.from_batches(iter(batches.read_next_batch, None))

    def write(self, name, rows):
        """Upsert rows as one batch, or delete them."""
        table = self.catalog.get_table(name)
        data, kinds = rows, []
        if isinstance(rows, list):
            data = arrow([(f.name(), str(f.field_type())) for f in table.schema().fields()], rows)
            kinds = [KINDS[row.get("_kind", "+I")] for row in rows]
        if any(kinds):
            data = data.append_column("_VALUE_KIND", pa.array(kinds, pa.int8()))
        builder = table.new_batch_write_builder()
        writer = builder.new_write()
        for batch in data.to_batches():
            writer.write_arrow(batch)
        builder.new_commit().commit(writer.prepare_commit())


def copied(rows, below, added):
    """The rows whose first column, an int32, is below a number, with another number added to it."""
    rows = rows.filter(pc.less(rows.column(0), below))
    return rows.set_column(0, rows.schema.field(0), pc.add(rows.column(0), pa.scalar(added, pa.int32())))


def answer(request):
    """Do what one line asks for."""
    engine = {"python": Python, "rust": Rust}[request.get("engine", "python")](request["warehouse"])
    if request["do"] == "create":
        return create(engine.catalog, request)
    if request["do"] == "read" and request.get("into"):
        rows = engine.read(request["table"])
        with pa.ipc.new_file(request["into"], rows.schema) as file:
            return file.write_table(rows)
    if request["do"] == "read":
        return engine.read(request["table"]).to_pylist()
    if request["do"] == "copy":
        rows = copied(engine.read(request["table"]), request["below"], request["added"])
        return engine.write(request["table"], rows)
    return engine.write(request["table"], request["rows"])


def main():
    """Answer line by line."""
    answers, sys.stdout = sys.stdout, sys.stderr
    for line in sys.stdin:
        try:
            told = {"out": answer(json.loads(line))}
        except Exception as error:
            told = {"error": f"{type(error).__name__}: {error}"}
        answers.write(json.dumps(told) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
