"""Histories of one table that several programs work on at once, and the plain model that says what must be seen.

- `model`: what every snapshot, tag and branch must hold, from the raw snapshot files and the effect of every commit
- `machine`, `programs`: the steps, by handles that stay open and by batches that stop between stages; what each must see
- `foreign`, `calls`, `other_process`: what other programs do to the directory, what a handle is used for, a second process
- `keys`: keys that are floating point numbers, and index types that find keys by themselves
- `interleaved`: programs that take turns at every call of the store, none inside another; a rule that needs no order
- `runs`: seeded histories, run in numbers, and the smallest part of one that still fails

Imports from any layer. The model reads snapshot files as JSON and knows nothing of the product's code.
"""
