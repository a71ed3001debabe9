"""File indexes of a data file: their options, building them beside the file, and evaluating predicates with them.

`options` finds the indexes that a table requests, `write` builds them and `evaluate` asks them; `container` holds the payloads of a
file, `kinds` the index types, `registry` finds a type by its name. Which files a scan skips is decided in `lakeidx.table.scan`;
indexes of keys live in `lakeidx.key_index`.
"""
