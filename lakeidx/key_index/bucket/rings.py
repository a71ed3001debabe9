"""Consistent hashing rings of a table's partitions: where they are kept, and when they are resized.

A partition's ring starts as every writer derives it (`consistent.initial_metadata`). A resize writes a new metadata
file ``<index dir>/consistent-hashing/<partition>/<instant>.hashing_meta`` before its commit, and an empty marker
``<instant>.commit`` after it; the instant is a 14-digit sequence number, ``-`` and the commit's name. The newest ring
counts that

1.  fits the snapshot: every bucket with files is one of its nodes. A ring from before a resize does not fit after it, and
    one from after it does not fit when the table was rolled back;
2.  was committed: its marker is there, or the table knows its commit, or one of the buckets that only it has holds files.
    The last proof is for a writer that died before it left the marker, and whose snapshot has expired. It holds because
    a new bucket's number is one that no ring file of the partition has.

So a resize is valid exactly when its rewritten files are there. (Hudi's own rule lost rings whose commit was archived,
HUDI-6047; its proof by file id prefixes is the model of the last one.)

Where Hudi names a bucket by a file id prefix, that prefix starts with the bucket's number here (8 digits), as in Hudi's
simple bucket index.

source   org.apache.hudi.index.bucket.ConsistentBucketIndexUtils,
         org.apache.hudi.client.clustering.plan.strategy.BaseConsistentHashingBucketClusteringPlanStrategy, release
         1.0.2
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from urllib.parse import quote, unquote

from lakeidx.errors import CommitConflictError, InternalError, InvalidInputError
from lakeidx.key_index.bucket.consistent_hashing import (
    COMMIT_SUFFIX,
    FILE_SUFFIX,
    INITIAL_INSTANT,
    HashingMetadata,
    Node,
    decode_metadata,
    encode_metadata,
    initial_metadata,
    merge_nodes,
    resized_ring,
    split_node,
)
from lakeidx.key_index.bucket.ids import bucket_of_file_id, new_file_id_prefix
from lakeidx.key_index.options import IndexOptions
from lakeidx.key_index.port import IndexContext
from lakeidx.storage.files import join

_FOLDER = "consistent-hashing"


def bucket_of_node(node: Node) -> int:
    """Return the bucket of a node."""
    if node.file_id_prefix is None:
        raise InternalError(f"node {node.value} of a ring has no bucket")
    return bucket_of_file_id(node.file_id_prefix)


@dataclass(frozen=True, slots=True, kw_only=True)
class Resize:
    """Buckets of one partition to be rewritten together.

    partition   its directory path below the table
    seq_no      of the ring this was planned on
    parents     buckets that are emptied
    children    nodes that take their place (those that only go away are among them, without a bucket)
    """

    partition: str
    seq_no: int
    parents: tuple[int, ...]
    children: tuple[Node, ...]

    @property
    def buckets(self) -> tuple[int, ...]:
        """Buckets that get the rows."""
        return tuple(bucket_of_node(n) for n in self.children if n.file_id_prefix is not None)


class HashRings:
    """The rings of one table."""

    def __init__(self, context: IndexContext) -> None:
        self._context = context

    def load(self, partition: str, live: Collection[int] = (), *, foreign: bool = False) -> HashingMetadata:
        """Load the ring of a partition (its directory path).

        live     buckets that have files in the snapshot
        foreign  other writers may have opened buckets that no ring has: then the newest ring whose commit is known
        errors   CorruptFileError for a metadata file that cannot be read; InvalidInputError when no ring has all live
                 buckets
        """
        names = self._names(partition)
        marked = {n.removesuffix(COMMIT_SUFFIX) for n in names if n.endswith(COMMIT_SUFFIX)}
        # Newest first; of several attempts at one resize the marked one first.
        instants = sorted(self._instants(names), key=lambda i: (_number(i), i in marked), reverse=True)
        wanted = set(live)
        for instant in instants:
            ring = self._read(partition, instant)
            if not wanted <= _buckets(ring):
                continue
            if instant in marked or self._was_committed(partition, ring, instants, wanted):
                self._mark_once(partition, instant, marked)
                return ring
        ring = self._initial(partition)
        if wanted <= _buckets(ring):
            return ring
        if foreign:
            good = (i for i in instants if i in marked or self._context.view.is_committed([_commit_of(i)])[0])
            newest = next(good, None)
            return ring if newest is None else self._read(partition, newest)
        raise InvalidInputError(
            f"no ring of partition {partition!r} has its buckets {', '.join(map(str, sorted(wanted)[:5]))}: another writer "
            "placed rows by another rule, hoodie.bucket.index.num.buckets was changed, or the ring's files are lost",
            path=self._folder(partition),
        )

    def _was_committed(
        self, partition: str, ring: HashingMetadata, instants: Sequence[str], live: Collection[int]
    ) -> bool:
        """List the proofs for a ring without a marker."""
        if self._context.view.is_committed([_commit_of(ring.instant)])[0]:
            return True
        older = [self._read(partition, i) for i in instants if _number(i) < _number(ring.instant)]
        known = _buckets(self._initial(partition)).union(*(_buckets(r) for r in older))
        return bool((_buckets(ring) - known) & set(live))

    def _mark_once(self, partition: str, instant: str, marked: Collection[str]) -> None:
        if instant not in marked:
            self._mark(partition, instant)

    def taken(self, partition: str) -> set[int]:
        """Return bucket numbers that some ring file of the partition has, abandoned attempts included."""
        rings = [self._read(partition, instant) for instant in self._instants(self._names(partition))]
        return _buckets(self._initial(partition)).union(*(_buckets(r) for r in rings))

    def save(self, resizes: Sequence[Resize], commit: str, live: Mapping[str, Collection[int]] | None = None) -> None:
        """Write the rings that a commit's resizes lead to; they are valid once the commit is there.

        live     buckets with files, by partition; see `load`
        errors   CommitConflictError when a ring is not the one a resize was planned on
        """
        by_partition: dict[str, list[Resize]] = {}
        for item in resizes:
            by_partition.setdefault(item.partition, []).append(item)
        for partition, items in by_partition.items():
            ring = self.load(partition, (live or {}).get(partition, ()))
            if any(item.seq_no != ring.seq_no for item in items):
                raise CommitConflictError(f"the ring of partition {partition!r} was resized by another process")
            instant = f"{ring.seq_no + 1:014d}-{quote(commit, safe='')}"
            new = resized_ring(ring, instant, [node for item in items for node in item.children])
            self._context.store.put(join(self._folder(partition), new.file_name), encode_metadata(new))

    def confirm(self, resizes: Sequence[Resize], commit: str) -> None:
        """Mark the rings of a commit that is in the table as committed, so that nobody has to look the commit up."""
        for partition in {item.partition for item in resizes}:
            for instant in self._of_commit(partition, commit):
                self._mark(partition, instant)

    def give_up(self, resizes: Sequence[Resize], commit: str) -> None:
        """Delete the rings of a commit that is certainly not in the table."""
        for partition in {item.partition for item in resizes}:
            for instant in self._of_commit(partition, commit):
                self._context.store.delete(join(self._folder(partition), instant + FILE_SUFFIX))

    def _of_commit(self, partition: str, commit: str) -> list[str]:
        return [i for i in self._instants(self._names(partition)) if _commit_of(i) == commit]

    def _names(self, partition: str) -> list[str]:
        return [f.name for f in self._context.store.list(self._folder(partition)) if not f.is_dir]

    def _instants(self, names: Sequence[str]) -> list[str]:
        return [n.removesuffix(FILE_SUFFIX) for n in names if n.endswith(FILE_SUFFIX)]

    def _read(self, partition: str, instant: str) -> HashingMetadata:
        path = join(self._folder(partition), instant + FILE_SUFFIX)
        return decode_metadata(self._context.store.get(path), path)

    def _initial(self, partition: str) -> HashingMetadata:
        return _numbered(initial_metadata(partition, self._context.options.hoodie_bucket_index_num_buckets))

    def _mark(self, partition: str, instant: str) -> None:
        self._context.store.put(join(self._folder(partition), instant + COMMIT_SUFFIX), b"")

    def _folder(self, partition: str) -> str:
        return join(self._context.index_dir, _FOLDER, partition or ".")


def _number(instant: str) -> str:
    return instant.partition("-")[0]


def _commit_of(instant: str) -> str:
    return unquote(instant.partition("-")[2])


def _buckets(ring: HashingMetadata) -> set[int]:
    return {bucket_of_node(n) for n in ring.nodes}


def plan_resizes(
    ring: HashingMetadata,
    sizes: Mapping[int, int],
    options: IndexOptions,
    *,
    target_bytes: int,
    taken: Collection[int] = (),
) -> list[Resize]:
    """Plan which buckets of a partition to split and to merge.

    sizes         bytes per bucket; a bucket without files has none
    target_bytes  wanted file size; thresholds of the options are multiples of it
    taken         bucket numbers that may not be given to a new bucket
    returns       splits while there are fewer than max.num.buckets, then merges while there are more than
                  min.num.buckets
    """
    default = options.hoodie_bucket_index_num_buckets
    most = options.hoodie_bucket_index_max_num_buckets or default
    least = options.hoodie_bucket_index_min_num_buckets or default
    split_above = target_bytes * options.hoodie_bucket_index_split_threshold
    merge_upto = target_bytes * options.hoodie_bucket_index_merge_threshold
    size_of = [sizes.get(bucket_of_node(n), 0) for n in ring.nodes]
    numbers = _FreeNumbers({bucket_of_node(n) for n in ring.nodes} | set(taken))
    out: list[Resize] = []
    busy: set[int] = set()
    count = len(ring.nodes)
    for at, node in enumerate(ring.nodes):
        if size_of[at] <= split_above or count >= most:
            continue
        children = split_node(ring, at, new_prefix=numbers.prefix)
        if children is not None:
            busy.add(at)
            count += 1
            out.append(_resize_of(ring, [bucket_of_node(node)], children))
    for run in _merge_runs(size_of, busy, merge_upto, count - least):
        merged = merge_nodes(ring, run, new_prefix=numbers.prefix)
        out.append(_resize_of(ring, [bucket_of_node(ring.nodes[i]) for i in run], merged))
    return out


def _merge_runs(sizes: Sequence[int], busy: set[int], limit: float, budget: int) -> list[list[int]]:
    """Find runs of neighbouring small buckets, each grown backward, then forward, round the ring; a run of k uses k - 1 of the
    budget.
    """
    n, used, out = len(sizes), set(busy), []
    for at in range(n):
        if at in used or sizes[at] > limit:
            continue
        run, total = [at], sizes[at]
        for forward in (False, True):
            while budget > 0 and len(run) < n:
                following = (run[-1] + 1) % n if forward else (run[0] - 1) % n
                if following in used or following in run or total + sizes[following] > limit:
                    break
                run = [*run, following] if forward else [following, *run]
                total += sizes[following]
                budget -= 1
        if len(run) > 1:
            used.update(run)
            out.append(run)
    return out


def _resize_of(ring: HashingMetadata, parents: Sequence[int], children: Sequence[Node]) -> Resize:
    return Resize(partition=ring.partition, seq_no=ring.seq_no, parents=tuple(parents), children=tuple(children))


class _FreeNumbers:
    """Hands out bucket numbers that no one has, smallest first."""

    def __init__(self, taken: set[int]) -> None:
        self._taken = taken

    def prefix(self) -> str:
        number = next(i for i in range(len(self._taken) + 1) if i not in self._taken)
        self._taken.add(number)
        return new_file_id_prefix(number)


def _numbered(ring: HashingMetadata) -> HashingMetadata:
    """Write bucket i into the prefix of node i of the derived ring; the rest of each prefix is unchanged."""
    assert ring.instant == INITIAL_INSTANT
    nodes = tuple(
        Node(n.value, new_file_id_prefix(i, prefix=n.file_id_prefix), n.tag) for i, n in enumerate(ring.nodes)
    )
    return replace(ring, nodes=nodes)
