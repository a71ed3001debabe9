"""Showing what differs between two states: a coloured table for a terminal, and one HTML page that needs nothing else.

`collect` counts every difference, keeps the first ones as text, and shows what was kept, and how many were left out. Formats for
programs (JSON lines, CSV, Parquet, Arrow) are `lakeidx.cli.output`.
"""
