"""The shipped test kit: what tests of lakeidx, and of programs that build on it, share.

- stores: one that fails where a test says, one that counts, and the contract of every store
- tables: small tables, histories of a table and of every index type with the plain dictionaries they must equal,
  the files that can be reached
- measures: the most memory a process has held
- references: slow, obvious merge engines and bucket assigner

Imports from any layer; `store_contract` needs pytest.
Product code never imports from here, and no expected value here is computed by the product's own code.
"""
