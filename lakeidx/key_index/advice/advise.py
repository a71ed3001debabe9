"""Which index type suits a table: measure its keys on a sample, predict what each type would cost, recommend one.

Measuring looks at a sample of a batch's keys, the key ranges in the manifests and the sample's true locations.
Predicting is arithmetic over those measures (`advise_model`): files touched, bytes read, memory and seconds per
batch, upkeep at the commit included. The recommendation is the cheapest type that can do what is needed.

source   sections 2 to 4 and 6 of the Hudi fact sheet (which index for which keys); constants from
         bench/bench_tagging.py
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lakeidx.errors import InvalidInputError
from lakeidx.key_index.advice.model import Machine, Prediction, predict
from lakeidx.key_index.keys.file_ranges import file_slots
from lakeidx.key_index.keys.ranges import find_candidates
from lakeidx.key_index.locations import KeyBatch, KeyLocations, LiveFile

#: Candidate files per key, as a share of the partition's files, up to which keys count as ordered, and as partly
#: ordered.
ORDERED_SPREAD, PARTLY_SPREAD = 0.2, 0.7
_BUCKET_BYTES = 1 << 30
_DEFAULT_TARGET_ROWS = 2_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Measures:
    """What decides about the cost of an index.

    rows, bytes         of the table's live files (rows count every version of a key)
    files, partitions   live data files, partitions with files
    batch_rows          keys per batch
    key_bytes           mean bytes of a record key's text
    key_column_bytes    mean compressed bytes of a key in a data file
    spread              candidate files per key by key range, as a share of the files of its partition: near 0 for
                        keys in order of files, 1 when every file may hold every key
    touched_files       files that some key of a whole batch may be in, by range
    touched_rows        rows of the partitions that a batch touches
    touched_partitions  partitions that a batch touches
    held_files          files that hold a key of a whole batch
    update_share        share of a batch's keys that are known
    move_share          share of the known keys that live in another partition than their row's
    largest_file_rows   rows of the largest file
    text_keys           False when keys are compared as numbers
    """

    rows: int
    bytes: int
    files: int
    partitions: int
    batch_rows: int
    key_bytes: float
    key_column_bytes: float
    spread: float
    touched_files: float
    touched_rows: float
    touched_partitions: float
    held_files: float
    update_share: float
    move_share: float
    largest_file_rows: int
    text_keys: bool = True

    @property
    def key_order(self) -> str:
        """ordered, partly ordered or random."""
        if self.spread <= ORDERED_SPREAD:
            return "ordered"
        return "partly ordered" if self.spread <= PARTLY_SPREAD else "random"


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """What the index must be able to do.

    moves          keys change partition, and a key is to live in one at a time
    other_writers  Java Paimon, or other programs, write the table, too
    stateless      store nothing outside the table (no local disk, no server)
    hbase          an HBase with Thrift is there
    cross_partition   the primary key leaves out partition columns (Paimon's cross-partition mode)
    """

    moves: bool = False
    other_writers: bool = False
    stateless: bool = False
    hbase: bool = False
    cross_partition: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """A recommendation.

    index_type     the cheapest that meets the needs
    options        table options that go with it: sizes that follow from the measures
    predictions    every type, cheapest first; those that do not meet the needs say why
    """

    index_type: str
    options: Mapping[str, str]
    measures: Measures
    predictions: tuple[Prediction, ...]


def measure(
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
        found = find_candidates(slots, tree=False, rng=np.random.default_rng(0))
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


def advise(
    measures: Measures, needs: Needs | None = None, machine: Machine | None = None, *, fpp: float | None = None
) -> Advice:
    """Recommend an index type.

    needs   default: what the measures show (moves when keys moved)
    fpp     error rate of the filters that the files have; default: as recommended
    """
    wanted = needs or Needs(moves=measures.move_share > 0)
    sizes = sizing(measures)
    predictions = []
    for kind, why_not in _candidates(measures, wanted).items():
        predictions.append(predict(kind, measures, machine or Machine(), fpp=fpp or float(sizes[FPP]), why_not=why_not))
    predictions.sort(key=lambda p: (p.why_not != "", p.seconds))
    chosen = predictions[0].index_type
    return Advice(
        index_type=chosen,
        options={"index.type": chosen, **{k: v for k, v in sizes.items() if _belongs(k, chosen)}},
        measures=measures,
        predictions=tuple(predictions),
    )


TARGET_ROWS = "dynamic-bucket.target-row-num"
NUM_BUCKETS = "hoodie.bucket.index.num.buckets"
NUM_ENTRIES = "hoodie.index.bloom.num_entries"
_MAX_ENTRIES = "hoodie.bloom.index.filter.dynamic.max.entries"
FPP = "hoodie.index.bloom.fpp"


def sizing(measures: Measures) -> dict[str, str]:
    """Return the option values that follow from the measures, for every type.

    Buckets of about 1 GiB, and no more rows than Paimon's default; filters for the largest file and a quarter more,
    with an error rate that leaves less than half a false positive per batch.
    """
    row_bytes = measures.bytes / measures.rows if measures.rows else 100.0
    target = min(_DEFAULT_TARGET_ROWS, max(100_000, int(_BUCKET_BYTES / max(1.0, row_bytes))))
    largest = max(1, measures.partitions)
    buckets = max(1, math.ceil(2 * measures.bytes / largest / _BUCKET_BYTES))
    entries = max(1000, math.ceil(measures.largest_file_rows * 1.25))
    pairs = max(1.0, measures.batch_rows * max(1.0, measures.spread * measures.files / largest))
    fpp = min(0.01, max(1e-9, 0.5 / pairs))
    return {
        TARGET_ROWS: str(_round(target)),
        NUM_BUCKETS: str(buckets),
        NUM_ENTRIES: str(_round(entries)),
        _MAX_ENTRIES: str(_round(entries)),
        FPP: f"{10.0 ** math.floor(math.log10(fpp)):.10f}".rstrip("0"),
    }


def _candidates(measures: Measures, needs: Needs) -> dict[str, str]:
    """List every type, and why it is ruled out ("" = it is not)."""
    out = dict.fromkeys(
        ("hash", "bucket", "bloom", "simple", "global-bloom", "global-simple", "state", "inmemory", "hbase"), ""
    )
    if needs.moves:
        for kind in ("hash", "bucket", "bloom", "simple"):
            out[kind] = "keys change partition, and it looks in the row's own partition only"
    else:
        for kind in ("global-bloom", "global-simple"):
            out[kind] = "no key changes partition: the form that looks in the row's own partition does less"
    if needs.cross_partition:
        for kind in out:
            if kind not in ("state", "inmemory"):
                out[kind] = (
                    "the primary key leaves out partition columns: only index type state finds keys in other partitions"
                )
    if needs.other_writers:
        out["bucket"] = "other programs place new keys by another rule"
        out["hbase"] = "it does not see what other programs write"
    if needs.stateless and not needs.cross_partition:
        for kind in ("state", "hbase"):
            out[kind] = "store nothing outside the table"
    if not needs.hbase:
        out["hbase"] = out["hbase"] or "there is no HBase"
    out["inmemory"] = "for tests: every process builds it again"
    return out


def _belongs(key: str, kind: str) -> bool:
    if key in (NUM_ENTRIES, _MAX_ENTRIES, FPP):
        return "bloom" in kind
    if key == NUM_BUCKETS:
        return kind == "bucket"
    return kind != "bucket"


def _expected_hits(counts: npt.NDArray[np.float64], scale: float) -> float:
    """Estimate how many files a whole batch hits, when a sample hits them so often: Poisson around the scaled count."""
    return float((1.0 - np.exp(-counts * max(1.0, scale))).sum())


def _round(value: int) -> int:
    """Round up to two digits."""
    step = 10 ** max(0, len(str(value)) - 2)
    return int(-(-value // step) * step)
