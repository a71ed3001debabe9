"""Why an index type is out of the question for what is needed; ``""`` when it is not."""

from __future__ import annotations

from lakeidx.key_index.advice.measures import Needs

_CROSS_PARTITION = "the primary key leaves out partition columns: only index type state finds keys in other partitions"
_STATELESS = "store nothing outside the table"


def in_own_partition(needs: Needs) -> str:
    """Judge a type that searches the row's own partition."""
    if needs.cross_partition:
        return _CROSS_PARTITION
    return "keys change partition; this type searches one partition" if needs.moves else ""


def in_all_partitions(needs: Needs) -> str:
    """Judge a type that searches all partitions."""
    if needs.cross_partition:
        return _CROSS_PARTITION
    return "" if needs.moves else "no key changes partition: the type without 'global-' reads less"


def computed(needs: Needs) -> str:
    """Judge a type that computes buckets."""
    return "other programs place new keys by another rule" if needs.other_writers else in_own_partition(needs)


def key_state(needs: Needs) -> str:
    """Judge a type that keeps a state outside the table."""
    return _STATELESS if needs.stateless and not needs.cross_partition else ""


def on_a_server(needs: Needs) -> str:
    """Judge a type that keeps its keys in HBase."""
    if key_state(needs):
        return _STATELESS
    if needs.other_writers:
        return "it does not see what other programs write"
    return _CROSS_PARTITION if needs.cross_partition else "" if needs.hbase else "needs an HBase"


def for_tests(needs: Needs) -> str:
    """Judge a type that no production table should have."""
    return "for tests: every process builds its own index"
