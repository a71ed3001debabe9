"""Options of index type ``hbase``: Hudi's names with Hudi's defaults, and some of lakeidx's own.

source   org.apache.hudi.config.HoodieHBaseIndexConfig, release 1.0.2
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from lakeidx.key_index.options import IndexOptions
from lakeidx.options.descriptors import boolean, integer, number, opt_text, text


class HBaseOptions(IndexOptions):
    """Options of a table whose locations are in HBase."""

    # HBase
    index_hbase_thrift_host = text("index.hbase.thrift.host", "localhost", "Host of HBase's Thrift server.")
    index_hbase_thrift_port = integer("index.hbase.thrift.port", 9090, "Its port.", least=1, most=65535)
    index_hbase_timeout_ms = integer("index.hbase.timeout-ms", 15000, "Time limit of one request.", least=1)
    hoodie_index_hbase_table = opt_text("hoodie.index.hbase.table", "HBase table of the index; it must exist.")
    hoodie_index_hbase_get_batch_size = integer("hoodie.index.hbase.get.batch.size", 100, "Keys per get.", least=1)
    hoodie_index_hbase_put_batch_size = integer("hoodie.index.hbase.put.batch.size", 100, "Rows per put.", least=1)
    hoodie_index_hbase_put_batch_size_autocompute = boolean(
        "hoodie.index.hbase.put.batch.size.autocompute", False, "Compute the put batch size from the QPS limit instead."
    )
    hoodie_index_hbase_qps_fraction = number(
        "hoodie.index.hbase.qps.fraction", 0.5, "Share of the servers' limit this writer may use."
    )
    hoodie_index_hbase_max_qps_per_region_server = integer(
        "hoodie.index.hbase.max.qps.per.region.server", 1000, "Requests per second one region server serves.", least=1
    )
    hoodie_index_hbase_sleep_ms_for_put_batch = integer(
        "hoodie.index.hbase.sleep.ms.for.put.batch", 0, "Pause after each put batch.", least=0
    )
    hoodie_index_hbase_sleep_ms_for_get_batch = integer(
        "hoodie.index.hbase.sleep.ms.for.get.batch", 0, "Pause after each get batch.", least=0
    )
    hoodie_hbase_index_update_partition_path = boolean(
        "hoodie.hbase.index.update.partition.path", False, "hbase: a key may move to the row's partition."
    )
    hoodie_index_hbase_bucket_number = integer(
        "hoodie.index.hbase.bucket.number", 8, "Row key prefixes of the rebalanced form.", least=1
    )
    index_hbase_max_requests_per_second = integer(
        "index.hbase.max-requests-per-second", 0, "Keys read or written per second; 0 = Hudi's rule.", least=0
    )
    index_hbase_attempts = integer("index.hbase.attempts", 5, "Attempts of one request, with growing pauses.", least=1)
    index_hbase_rebalanced = boolean(
        "index.hbase.rebalanced", False, "Row keys start with a hash (Hudi: another index class)."
    )

    unused: ClassVar[Mapping[str, str]] = {
        **IndexOptions.unused,
        "hoodie.index.hbase.rollback.sync": "the locations before an aborted commit are always restored",
        "hoodie.index.hbase.zkquorum": "HBase is reached through its Thrift server, which knows the cluster",
        "hoodie.index.hbase.zkport": "as hoodie.index.hbase.zkquorum",
        "hoodie.index.hbase.zknode.path": "as hoodie.index.hbase.zkquorum",
        "hoodie.index.hbase.zk.session_timeout_ms": "as hoodie.index.hbase.zkquorum",
        "hoodie.index.hbase.zk.connection_timeout_ms": "as hoodie.index.hbase.zkquorum",
        "hoodie.index.hbase.zkpath.qps_root": "as hoodie.index.hbase.zkquorum",
        "hoodie.index.hbase.qps.allocator.class": "a Java class; the default one returns hoodie.index.hbase.qps.fraction",
        "hoodie.index.hbase.dynamic_qps": "Hudi has no allocator that reads it",
        "hoodie.index.hbase.min.qps.fraction": "as hoodie.index.hbase.dynamic_qps",
        "hoodie.index.hbase.max.qps.fraction": "as hoodie.index.hbase.dynamic_qps",
        "hoodie.index.hbase.desired_puts_time_in_secs": "as hoodie.index.hbase.dynamic_qps",
        "hoodie.index.hbase.security.authentication": "Thrift's own settings decide who may connect",
        "hoodie.index.hbase.kerberos.user.keytab": "as hoodie.index.hbase.security.authentication",
        "hoodie.index.hbase.kerberos.user.principal": "as hoodie.index.hbase.security.authentication",
        "hoodie.index.hbase.regionserver.kerberos.principal": "as hoodie.index.hbase.security.authentication",
        "hoodie.index.hbase.master.kerberos.principal": "as hoodie.index.hbase.security.authentication",
    }

    @classmethod
    def of(cls, options: IndexOptions) -> HBaseOptions:
        """Return the options of a table as these."""
        return options if isinstance(options, HBaseOptions) else cls(options.raw)
