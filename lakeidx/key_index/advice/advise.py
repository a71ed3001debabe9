"""Recommendation of an index type: keys measured on a sample, predicted costs of each type, a choice.

Measuring looks at a sample of a batch's keys, the key ranges in the manifests and the sample's true locations.
Predicting is arithmetic over those measures (`lakeidx.key_index.advice.model`): files touched, bytes read, memory and seconds per
batch, upkeep at the commit included. The recommendation is the cheapest type that can do what is needed.

source   sections 2 to 4 and 6 of the Hudi fact sheet (which index for which keys); constants from
         bench/bench_tagging.py
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt

from lakeidx.errors import InvalidInputError
from lakeidx.key_index.advice import model
from lakeidx.key_index.advice.advice import Advice
from lakeidx.key_index.advice.measures import Measures, Needs
from lakeidx.key_index.advice.model import Machine, WorkModel, predict
from lakeidx.key_index.advice.sizing import FPP, MAX_ENTRIES, NUM_BUCKETS, NUM_ENTRIES, TARGET_ROWS, sizing
from lakeidx.key_index.keys.file_ranges import file_slots
from lakeidx.key_index.keys.ranges import find_candidates
from lakeidx.key_index.locations import KeyBatch, KeyLocations, LiveFile
from lakeidx.key_index.registry import IndexType, index_types


def measure_workload(
    sample: KeyBatch,
    located: KeyLocations,
    files: Sequence[LiveFile],
    *,
    batch_rows: int,
    key_column_bytes: float | None = None,
) -> Measures:
    """Measure a workload on some keys of a batch.

    sample            keys drawn at random from a batch
    located           their true locations, files included (of `simple` or `bloom`; of a global form where keys move)
    files             all live files of the table
    batch_rows        keys of a whole batch
    key_column_bytes  from the footers of some files; default: the keys' text
    errors            InvalidInputError for an empty sample
    """
    n = len(sample)
    if not n:
        raise InvalidInputError("the sample has no keys")
    scale = batch_rows / n
    rows_of = np.array([f.meta.row_count for f in files], np.float64)
    number = {p: i for i, p in enumerate(dict.fromkeys(f.partition for f in files))}
    partition_of = np.array([number[f.partition] for f in files], np.int64)
    counts = np.zeros(len(files))
    pairs_possible = 0
    for i, partition in enumerate(sample.partitions):
        own = np.flatnonzero(partition_of == number.get(partition, -1))
        keys = np.flatnonzero(sample.partition == i)
        if not len(own) or not len(keys):
            continue
        slots = file_slots(sample, keys, [files[j] for j in own.tolist()], prune=True)
        found = find_candidates(slots)
        counts[own] = found.counts
        pairs_possible += len(own) * len(keys)
    seen = np.isin(np.arange(len(number)), [number[p] for p in sample.partitions if p in number])
    touched_rows = float(rows_of[seen[partition_of]].sum()) if len(files) else 0.0
    held = np.bincount(located.file[located.file >= 0], minlength=max(1, len(located.files)))
    key_bytes = sample.record_keys.nbytes / n
    known = located.known
    moved = known & (located.partition != sample.partition)
    return Measures(
        rows=int(rows_of.sum()),
        bytes=sum(f.meta.file_size for f in files),
        files=len(files),
        partitions=len(number),
        batch_rows=batch_rows,
        key_bytes=key_bytes,
        key_column_bytes=key_bytes if key_column_bytes is None else key_column_bytes,
        spread=float(counts.sum() / pairs_possible) if pairs_possible else 0.0,
        touched_files=_expected_hits(counts, scale),
        touched_rows=touched_rows,
        touched_partitions=float(seen.sum()),
        held_files=_expected_hits(held.astype(np.float64), scale),
        update_share=float(known.mean()),
        move_share=float(moved.sum() / max(1, int(known.sum()))),
        largest_file_rows=int(rows_of.max(initial=0)),
        text_keys=sample.codes.ints is None,
    )


def recommend(
    measures: Measures, needs: Needs | None = None, machine: Machine | None = None, *, fpp: float | None = None
) -> Advice:
    """Recommend an index type.

    needs   default: what the measures show (moves when keys moved)
    fpp     error rate of the filters that the files have; default: as recommended
    """
    wanted = needs or Needs(moves=measures.move_share > 0)
    sizes = sizing(measures)
    rate = fpp or float(sizes[FPP])
    profiles = {t.name: profile for t in index_types() if (profile := profile_of(t)) is not None}
    predictions = [
        predict(name, p.work, measures, machine or Machine(), fpp=rate, why_not=p.unsuited(wanted))
        for name, p in profiles.items()
    ]
    predictions.sort(key=lambda p: (p.why_not != "", p.seconds))
    chosen = predictions[0].index_type
    return Advice(
        index_type=chosen,
        options={"index.type": chosen, **{k: v for k, v in sizes.items() if k in profiles[chosen].sized_by}},
        measures=measures,
        predictions=tuple(predictions),
    )


def _expected_hits(counts: npt.NDArray[np.float64], scale: float) -> float:
    """Estimate how many files a whole batch hits, when a sample hits them so often: Poisson around the scaled count."""
    return float((1.0 - np.exp(-counts * max(1.0, scale))).sum())


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
