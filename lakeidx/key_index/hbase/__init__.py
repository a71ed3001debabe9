"""The HBase index: locations of keys in an HBase table, over Thrift.

Import the index through `lakeidx.key_index.registry`.
Nothing else in lakeidx talks to HBase.
"""
