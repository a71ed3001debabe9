"""Landing files of programs, whose columns have types: Arrow IPC, ORC and Avro; Parquet is read by `lakeidx.landing.read` itself.

Import `read_typed` and `open_typed`.
"""
