"""Paimon's system tables that are made of metadata: of a table (``TABLE$files``), and of a whole warehouse (``sys.tables``).

Import `rows.system_rows`, and `names` for what there is; `described` and `filed` make the rows of tables about a table and about
its files. Rows of the table itself (``$audit_log``, ``$binlog``, ``$ro``, ``$row_tracking``) belong to `lakeidx.table.scan`.
"""
