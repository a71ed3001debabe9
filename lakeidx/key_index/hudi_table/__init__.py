"""Tables that Hudi wrote, as `lakeidx hudi tag` reads them: timeline, file slices, key columns.

Import `lakeidx.key_index.hudi_table.table`.
Paimon tables are seen through `lakeidx.key_index.table_view`.
"""
