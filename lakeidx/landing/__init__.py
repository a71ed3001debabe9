"""Landing files in bounded pieces, cast to a table's schema, with row kinds.

Formats are Parquet, Arrow IPC, ORC, Avro, Excel, CSV and JSON, these two also as .gz and .zst.
Import `read_landing` and `cast_piece`; a row that does not cast is rejected with its reason.
Staging of rows lives in `lakeidx.batch.stages.ingest`.
"""
