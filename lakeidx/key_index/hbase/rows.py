"""Row keys and columns of Hudi's HBase index.

====================  =================================================================================================
part                  content, all UTF-8 text
====================  =================================================================================================
row key               the record key, or ``<bucket>`` + record key for the rebalanced form, against hot regions
column family         ``_s``
commit_ts             instant of the commit that inserted the key (updates leave it)
file_name             the file group's id, not a file name
partition_path        the partition's path
====================  =================================================================================================

source   org.apache.hudi.index.hbase.{SparkHoodieHBaseIndex,RebalancedSparkHoodieHBaseIndex}, release 1.0.2
"""

from __future__ import annotations

from lakeidx.codec.hudi.hashes import java_string_hash

FAMILY = b"_s"
COMMIT_TS = b"_s:commit_ts"
_FILE_NAME = b"_s:file_name"
_PARTITION_PATH = b"_s:partition_path"
COLUMNS = (COMMIT_TS, _FILE_NAME, _PARTITION_PATH)


def rebalanced_row_key(record_key: str, buckets: int) -> str:
    """Return the row key of the rebalanced form: abs(java hash) mod buckets, padded to the width of buckets - 1, then the key.

    Java's abs of the smallest int stays negative, so such a key's number has a sign.
    """
    h = java_string_hash(record_key)
    number = -(-h % buckets) if h == -(2**31) else abs(h) % buckets
    width = len(str(buckets - 1))
    # Java pads a negative number inside the same width, sign included.
    return f"{number:0{width}d}{record_key}"
