"""Planning and reading scans: pruning, file indexes, sections of sorted runs, incremental reads, explain.

Import `plan_scan` and `TableScan`.
Reading one data file lives in `lakeidx.data`.
"""
