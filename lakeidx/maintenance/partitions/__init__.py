"""Partitions as a whole: their figures, which of them expire, dropping them, and marking them done.

Import `list_partitions`, `drop_partitions`, `expire_partitions`, `mark_partitions_done`. Rows of partitions are written and read
elsewhere.
"""
