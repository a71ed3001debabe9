"""Hudi's consistent hashing buckets: nodes on a ring, their split and merge, and the metadata file.

A key's place on the ring is XXH32 of its index values joined, & 0x7FFFFFFF; its bucket is the first node with value
>= that place, else the first node. A split puts a node half way to its predecessor; a merge leaves the last of
neighbouring nodes.

Metadata file ``<instant>.hashing_meta``: pretty-printed JSON {version 0, partitionPath, instant, numBuckets, seqNo,
nodes: [{value, fileIdPrefix, tag}]}. numBuckets stays the initial number for ever; the count of buckets is
len(nodes).

source   org.apache.hudi.common.model.{HoodieConsistentHashingMetadata,ConsistentHashingNode},
         org.apache.hudi.index.bucket.ConsistentBucketIdentifier, release 1.0.2; golden/hudi/consistent.json
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import pairwise
from uuid import UUID, uuid4

import numpy as np
import numpy.typing as npt

from lakeidx.codec.hudi.hashes import xxh32_many
from lakeidx.codec.rows.rowbytes import RowBytes
from lakeidx.errors import CorruptFileError, InvalidInputError
from lakeidx.key_index.bucket.ids import joined_values

RING = 0x7FFFFFFF
INITIAL_INSTANT = "00000000000000"
FILE_SUFFIX = ".hashing_meta"
COMMIT_SUFFIX = ".commit"


class NodeTag(StrEnum):
    """Marks of a node while a resize is in progress."""

    NORMAL = "NORMAL"
    REPLACE = "REPLACE"
    DELETE = "DELETE"


@dataclass(frozen=True, slots=True)
class Node:
    """One bucket.

    value            its place on the ring; it takes the places after its predecessor up to and including this one
    file_id_prefix   None for a node that goes away
    """

    value: int
    file_id_prefix: str | None
    tag: NodeTag = NodeTag.NORMAL


@dataclass(frozen=True, slots=True, kw_only=True)
class HashingMetadata:
    """The ring of one partition at one instant; nodes ascend by value."""

    partition: str
    instant: str = INITIAL_INSTANT
    num_buckets: int
    seq_no: int = 0
    nodes: tuple[Node, ...]
    version: int = 0

    @property
    def file_name(self) -> str:
        """Name of its file within the partition's metadata folder."""
        return self.instant + FILE_SUFFIX


def initial_metadata(partition: str, num_buckets: int) -> HashingMetadata:
    """Derive the ring that every writer derives for a partition without metadata; its file id prefixes are derived, too.

    errors   InvalidInputError unless num_buckets >= 1
    """
    if num_buckets < 1:
        raise InvalidInputError(f"the number of buckets must be at least 1, not {num_buckets}")
    step = (RING + num_buckets - 1) // num_buckets
    nodes, previous = [], 0
    for i in range(1, num_buckets + 1):
        value = min(step * i, RING)
        raw = previous.to_bytes(8, "big") + value.to_bytes(8, "big") + partition.encode("utf-8")
        nodes.append(Node(value, str(_name_based_uuid(raw))))
        previous = value
    return HashingMetadata(partition=partition, num_buckets=num_buckets, nodes=tuple(nodes))


def _name_based_uuid(raw: bytes) -> UUID:
    """Return Java's ``UUID.nameUUIDFromBytes``: version 3 without a name space."""
    digest = bytearray(hashlib.md5(raw, usedforsecurity=False).digest())
    digest[6] = digest[6] & 0x0F | 0x30
    digest[8] = digest[8] & 0x3F | 0x80
    return UUID(bytes=bytes(digest))


def ring_places(record_keys: RowBytes, fields: Sequence[str]) -> npt.NDArray[np.int32]:
    """Compute the ring positions of n record keys (UTF-8).

    returns  int32[n], 0..0x7FFFFFFF
    """
    return xxh32_many(joined_values(record_keys, fields)) & np.int32(RING)


def nodes_of(metadata: HashingMetadata, places: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
    """Return the positions in `metadata.nodes` of the buckets of many places.

    returns  int32[n]
    """
    values = np.array([n.value for n in metadata.nodes], np.int64)
    found = np.searchsorted(values, places, side="left")
    return np.where(found == len(values), 0, found).astype(np.int32)


NewPrefix = Callable[[], str]


def _random_prefix() -> str:
    return str(uuid4())


def split_node(
    metadata: HashingMetadata, position: int, *, new_prefix: NewPrefix = _random_prefix
) -> tuple[Node, Node] | None:
    """Split one node in two, or None when its stretch of the ring cannot be halved."""
    node = metadata.nodes[position]
    before = metadata.nodes[position - 1].value
    middle = (before + node.value + (0 if before < node.value else RING + 1)) >> 1 & RING
    if middle in (before, node.value):
        return None
    return Node(middle, new_prefix(), NodeTag.REPLACE), Node(node.value, new_prefix(), NodeTag.REPLACE)


def merge_nodes(
    metadata: HashingMetadata, positions: Sequence[int], *, new_prefix: NewPrefix = _random_prefix
) -> tuple[Node, ...]:
    """Merge a run of neighbours: all but the last node are removed, the last gets their ranges.

    positions   neighbouring positions, in ring order (the run may pass the end of the ring)
    errors      InvalidInputError unless they are two or more neighbours
    """
    count = len(metadata.nodes)
    neighbours = all((b - a) % count == 1 for a, b in pairwise(positions))
    if len(positions) < 2 or not neighbours or len(set(positions)) != len(positions):
        raise InvalidInputError(f"nodes {list(positions)} of {count} are not two or more neighbours on the ring")
    gone = tuple(Node(metadata.nodes[p].value, None, NodeTag.DELETE) for p in positions[:-1])
    return (*gone, Node(metadata.nodes[positions[-1]].value, new_prefix(), NodeTag.REPLACE))


def resized_ring(metadata: HashingMetadata, instant: str, children: Sequence[Node]) -> HashingMetadata:
    """Apply a resize committed at `instant` to the ring: children replace nodes of the same value, all normal again."""
    by_value = {node.value: node for node in metadata.nodes}
    for child in children:
        if child.tag is NodeTag.DELETE:
            by_value.pop(child.value, None)
        else:
            by_value[child.value] = replace(child, tag=NodeTag.NORMAL)
    nodes = tuple(by_value[v] for v in sorted(by_value))
    if not nodes:
        raise InvalidInputError("a resize must leave a bucket")
    return replace(metadata, instant=instant, seq_no=metadata.seq_no + 1, nodes=nodes)


def encode_metadata(metadata: HashingMetadata) -> bytes:
    """Encode the metadata file, in the form of Hudi's JSON printer."""
    nodes = ", ".join(
        "{\n"
        f'    "value" : {n.value},\n'
        f'    "fileIdPrefix" : {json.dumps(n.file_id_prefix, ensure_ascii=False)},\n'
        f'    "tag" : "{n.tag.value}"\n'
        "  }"
        for n in metadata.nodes
    )
    text = (
        "{\n"
        f'  "version" : {metadata.version},\n'
        f'  "partitionPath" : {json.dumps(metadata.partition, ensure_ascii=False)},\n'
        f'  "instant" : {json.dumps(metadata.instant)},\n'
        f'  "numBuckets" : {metadata.num_buckets},\n'
        f'  "seqNo" : {metadata.seq_no},\n'
        f'  "nodes" : [ {nodes} ]\n'
        "}"
    )
    return text.encode("utf-8")


def decode_metadata(data: bytes, path: str | None = None) -> HashingMetadata:
    """Read a metadata file.

    errors   CorruptFileError when it is not one, its nodes do not ascend, or there are none
    """
    try:
        raw = json.loads(data.decode("utf-8"))
        nodes = tuple(Node(int(n["value"]), n["fileIdPrefix"], NodeTag(n["tag"])) for n in raw["nodes"])
        found = HashingMetadata(
            partition=str(raw["partitionPath"]),
            instant=str(raw["instant"]),
            num_buckets=int(raw["numBuckets"]),
            seq_no=int(raw["seqNo"]),
            nodes=nodes,
            version=int(raw["version"]),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptFileError(f"not consistent hashing metadata: {error}", path=path) from error
    values = [n.value for n in nodes]
    if not values or values != sorted(set(values)) or values[0] < 0 or values[-1] > RING:
        raise CorruptFileError("the nodes do not ascend along the ring", path=path)
    return found
