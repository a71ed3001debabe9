"""Java's order of values: scalar comparison, order keys and normalized keys of whole columns.

Import the functions that compare or sort.
Merging of sorted rows lives in `lakeidx.data.merge`.
"""
