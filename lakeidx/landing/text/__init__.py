"""Landing files of text: CSV and JSON lines in blocks of whole records, plain or compressed, each record with its line.

Import `read_csv`, `read_jsonl` and `open_plain`; `lakeidx.landing.read` picks among them.
Casts to the table's types do not belong here, see `lakeidx.landing.cast_rows`; messages of changes are in `lakeidx.landing.cdc`.
"""
