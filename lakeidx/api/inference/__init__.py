"""Tables inferred from files and rows: columns, key, index.

Import `lakeidx.api.inference.infer.infer_table`. How rows are written lives in `lakeidx.api.table`.
"""
