"""The shipped test kit, for stores of your own: the contract of every store, and a store that fails where a test says.

Imports from any layer; `store_contract` needs pytest. Product code never imports from here, and no expected value here is computed
by the product's own code. What only tests of lakeidx need is in ``tests/kit``.
"""
