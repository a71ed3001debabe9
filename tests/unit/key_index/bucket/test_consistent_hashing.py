"""The ring: every place has one bucket, through any history of splits and merges; metadata bytes."""

from __future__ import annotations

from itertools import count

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakeidx.codec.rows.rowbytes import RowBytes
from lakeidx.errors import CorruptFileError, InvalidInputError
from lakeidx.key_index.bucket.consistent_hashing import (
    RING,
    HashingMetadata,
    Node,
    NodeTag,
    decode_metadata,
    encode_metadata,
    initial_metadata,
    merge_nodes,
    nodes_of,
    resized_ring,
    ring_places,
    split_node,
)
from tests.kit.scalar_twins import node_of, ring_place


@settings(deadline=None)
@given(st.lists(st.text(max_size=20), max_size=20))
def test_places_equal_the_scalar_rule(keys: list[str]) -> None:
    rows = RowBytes.from_list([k.encode() for k in keys])
    assert ring_places(rows, ["a"]).tolist() == [ring_place(k, ["a"]) for k in keys]


@settings(deadline=None)
@given(st.integers(1, 12), st.lists(st.tuples(st.booleans(), st.integers(0, 10**6)), max_size=12), st.data())
def test_resizing_keeps_every_place_in_one_bucket(
    buckets: int, steps: list[tuple[bool, int]], data: st.DataObject
) -> None:
    names = count()
    ring = initial_metadata("p", buckets)
    places = np.array(data.draw(st.lists(st.integers(0, RING), min_size=1, max_size=20)), np.int32)
    for number, (splits, pick) in enumerate(steps, start=1):
        at = pick % len(ring.nodes)
        before = [ring.nodes[i] for i in nodes_of(ring, places)]
        if splits:
            children = split_node(ring, at, new_prefix=lambda: f"n{next(names)}")
            assert children is not None
            parents = {ring.nodes[at].value}
        elif len(ring.nodes) > 1:
            positions = [at, (at + 1) % len(ring.nodes)]
            children = merge_nodes(ring, positions, new_prefix=lambda: f"n{next(names)}")  # type: ignore[assignment]
            parents = {ring.nodes[p].value for p in positions}
        else:
            continue
        ring = resized_ring(ring, f"{number:014d}", children)  # type: ignore[arg-type]
        assert ring.seq_no == number or ring.seq_no < number
        assert all(n.tag is NodeTag.NORMAL and n.file_id_prefix for n in ring.nodes)
        found = nodes_of(ring, places)
        assert found.tolist() == [node_of(ring, int(p)) for p in places]
        for old, new in zip(before, (ring.nodes[i] for i in found), strict=True):
            # Only keys of the buckets that were resized move.
            assert (old.value in parents) or old == new
        assert decode_metadata(encode_metadata(ring)) == ring


def test_lookup_wraps_round() -> None:
    ring = HashingMetadata(partition="", num_buckets=2, nodes=(Node(10, "a"), Node(20, "b")))
    places = np.array([0, 10, 11, 20, 21, RING], np.int32)
    assert nodes_of(ring, places).tolist() == [0, 0, 1, 1, 0, 0]
    # The first node's predecessor is the last one: the split goes through the end of the ring.
    children = split_node(ring, 0)
    assert children is not None
    assert children[0].value == ((20 + 10 + RING + 1) >> 1) & RING


def test_a_stretch_of_one_place_cannot_be_split() -> None:
    ring = HashingMetadata(partition="", num_buckets=2, nodes=(Node(10, "a"), Node(11, "b")))
    assert split_node(ring, 1) is None


@pytest.mark.parametrize("positions", [[], [0], [0, 2], [1, 0], [0, 0], [0, 1, 2, 3, 0]])
def test_only_neighbours_merge(positions: list[int]) -> None:
    with pytest.raises(InvalidInputError, match="neighbours"):
        merge_nodes(initial_metadata("", 4), positions)


def test_a_run_of_neighbours_may_pass_the_end_of_the_ring() -> None:
    ring = initial_metadata("", 4)
    nodes = merge_nodes(ring, [3, 0])
    assert [n.value for n in nodes] == [ring.nodes[3].value, ring.nodes[0].value]
    assert [n.tag for n in nodes] == [NodeTag.DELETE, NodeTag.REPLACE]


@pytest.mark.parametrize("buckets", [0, -1])
def test_a_ring_without_buckets_is_refused(buckets: int) -> None:
    with pytest.raises(InvalidInputError):
        initial_metadata("", buckets)


def test_damaged_metadata_is_an_error() -> None:
    good = encode_metadata(initial_metadata("dt=1", 3))
    for text in (
        b"[]",
        b"{}",
        good.replace(b"2147483647", b"0"),
        good.replace(b'"nodes" : [', b'"nodes" : [], "x" : ['),
    ):
        with pytest.raises(CorruptFileError):
            decode_metadata(text)
