"""Profiles of the index types: the cost of a batch, why a type is out of the question, and the sizes to set."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from lakeidx.key_index.advice import model
from lakeidx.key_index.advice.measures import Needs
from lakeidx.key_index.advice.model import WorkModel
from lakeidx.key_index.advice.sizing import FPP, MAX_ENTRIES, NUM_BUCKETS, NUM_ENTRIES, TARGET_ROWS
from lakeidx.key_index.registry import IndexType

_CROSS_PARTITION = "the primary key leaves out partition columns: only index type state finds keys in other partitions"
_STATELESS = "store nothing outside the table"


def _in_own_partition(needs: Needs) -> str:
    """Judge a type that searches the row's own partition."""
    if needs.cross_partition:
        return _CROSS_PARTITION
    return "keys change partition; this type searches one partition" if needs.moves else ""


def _in_all_partitions(needs: Needs) -> str:
    """Judge a type that searches all partitions."""
    if needs.cross_partition:
        return _CROSS_PARTITION
    return "" if needs.moves else "no key changes partition: the type without 'global-' reads less"


def _computed(needs: Needs) -> str:
    """Judge a type that computes buckets."""
    return "other programs place new keys by another rule" if needs.other_writers else _in_own_partition(needs)


def _key_state(needs: Needs) -> str:
    """Judge a type that keeps a state outside the table."""
    return _STATELESS if needs.stateless and not needs.cross_partition else ""


def _on_a_server(needs: Needs) -> str:
    """Judge a type that keeps its keys in HBase."""
    if _key_state(needs):
        return _STATELESS
    if needs.other_writers:
        return "it does not see what other programs write"
    return _CROSS_PARTITION if needs.cross_partition else "" if needs.hbase else "needs an HBase"


def _for_tests(needs: Needs) -> str:
    """Judge a type that no production table should have."""
    return "for tests: every process builds its own index"


@dataclass(frozen=True, slots=True)
class Profile:
    """Profile of one type.

    work       what a batch costs with it
    unsuited   why it is out of the question for what is needed, ``""`` when it is not
    sized_by   options whose values follow from the workload
    """

    work: WorkModel
    unsuited: Callable[[Needs], str] = _in_own_partition
    sized_by: tuple[str, ...] = (TARGET_ROWS,)


_FILTERS = (TARGET_ROWS, NUM_ENTRIES, MAX_ENTRIES, FPP)
_PROFILES = {
    "hash": Profile(model.hash_work),
    "bucket": Profile(model.bucket_work, _computed, (NUM_BUCKETS,)),
    "bloom": Profile(model.bloom_work, sized_by=_FILTERS),
    "global-bloom": Profile(partial(model.bloom_work, everywhere=True), _in_all_partitions, _FILTERS),
    "simple": Profile(model.simple_work),
    "global-simple": Profile(partial(model.simple_work, everywhere=True), _in_all_partitions),
    "inmemory": Profile(model.in_memory_work, _for_tests),
    "state": Profile(model.state_work, _key_state),
    "hbase": Profile(model.hbase_work, _on_a_server),
}


def profile_of(index_type: IndexType) -> Profile | None:
    """Return what is known of a type; None: it is not recommended."""
    found = index_type.advice or _PROFILES.get(index_type.name)
    return found if isinstance(found, Profile) else None
