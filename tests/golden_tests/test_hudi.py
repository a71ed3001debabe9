"""Golden vectors of Hudi 1.0.2: every line of every kind under golden/hudi."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lakeidx.codec.arrays import frozen
from lakeidx.codec.hudi import bloom
from lakeidx.codec.hudi.bloom import JENKINS, MURMUR, decode_filter_base64, first_hashes, new_filter, size_filter
from lakeidx.codec.hudi.hashes import java_string_hash, signed32, xxh32_many
from lakeidx.codec.rows.rowbytes import RowBytes
from lakeidx.key_index.bucket.consistent_hashing import (
    decode_metadata,
    encode_metadata,
    initial_metadata,
    merge_nodes,
    nodes_of,
    ring_places,
    split_node,
)
from lakeidx.key_index.bucket.ids import bucket_ids, bucket_of_file_id, bucket_text, new_file_id_prefix
from lakeidx.key_index.hbase.rows import rebalanced_row_key
from tests.conftest import GOLDEN
from tests.kit.scalar_twins import (
    bucket_of,
    extract_values,
    list_hash,
    ring_place,
    xxh32,
)

pytestmark = pytest.mark.golden


def _load(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((Path(GOLDEN) / "hudi" / name).read_text(encoding="utf-8"))
    return found


BLOOM = _load("bloom.json")


def _rows(keys: list[str]) -> RowBytes:
    return RowBytes.from_list([k.encode() for k in keys])


@pytest.mark.parametrize("case", BLOOM["cases"], ids=lambda c: c["id"])
def test_filter_has_hudis_bytes_and_answers(case: dict[str, Any]) -> None:
    built = new_filter(case["type"], num_entries=case["num_entries"], fpp=case["fpp"], max_entries=case["max_entries"])
    keys = _rows(case["keys"])
    # In two parts, so that the growth rule is carried over a call border.
    middle = len(keys) // 3
    built.add(keys.slice(0, middle))
    built.add(keys.slice(middle, len(keys)))
    text = built.to_base64()
    assert len(built.to_bytes()) == case["raw_bytes"]
    assert len(text) == case["base64_length"]
    assert hashlib.sha256(text.encode()).hexdigest() == case["sha256_of_base64"]
    if case["serialized"] is not None:
        assert text == case["serialized"]
    read = decode_filter_base64(case["serialized"] or text, case["type"])
    assert read.to_base64() == text
    header = case["header"]
    assert (read.rounds, read.hash_type, read.m_bits) == (
        header["nb_hash"],
        header["hash_type"],
        header["vector_bits"],
    )
    if "nr" in header:
        assert (read.nr, read.current, len(read.bits)) == (
            header["nr"],
            header["current_nb_record"],
            header["rows"],
        )
    else:
        assert read.nr == 0
    assert read.test(keys).all() == case["all_keys_found"]
    probes = list(case["probes"])
    if probes:
        assert read.test(_rows(probes)).tolist() == list(case["probes"].values())
    absent = [f"absent-{i:06d}" for i in range(5000)]
    hits = read.test(_rows(absent))
    assert np.array_equal(read.test(_rows(absent), hashes=first_hashes(_rows(absent))), hits)
    assert int(hits.sum()) == case["false_positives_among_absent_000000_to_004999"]
    first = [absent[i] for i in np.flatnonzero(hits)]
    assert first[: len(case["first_false_positives"])] == case["first_false_positives"]


def test_reopened_dynamic_filter_continues_as_hudi_does() -> None:
    case = BLOOM["reopened"]
    read = decode_filter_base64(case["before"], "DYNAMIC_V0")
    assert read.to_base64() == case["before"]
    read.add(_rows(case["keys_added_after"]))
    assert read.to_base64() == case["after"]


def test_sizes() -> None:
    for case in BLOOM["sizing"]:
        assert size_filter(case["num_entries"], case["fpp"]) == (case["vector_bits"], case["nb_hash"]), case


def _murmur(data: bytes, seed: int) -> int:
    held, count, tail = frozen(np.frombuffer(data, np.uint8)), len(data) // 4, len(data) % 4
    words = np.array([bloom._murmur_word(held, 4 * w) for w in range(count)], np.uint32)
    end = bloom._murmur_tail(held, len(data), tail)
    return signed32(int(bloom._murmur_round(words, count, tail, end, len(data), np.uint32(seed & 0xFFFFFFFF))))


def _jenkins(data: bytes, seed: int) -> int:
    held = frozen(np.frombuffer(data, np.uint8))
    return signed32(int(bloom._jenkins_round(held, 0, len(data), np.uint32(seed & 0xFFFFFFFF))))


def test_murmur_and_jenkins_hashes() -> None:
    for name, hashed in (("murmur_v2_hadoop", _murmur), ("jenkins", _jenkins)):
        for case in BLOOM[name]:
            assert hashed(bytes.fromhex(case["utf8_hex"]), case["seed"]) == case["hash"], case


@pytest.mark.parametrize("hash_type", [MURMUR, JENKINS])
def test_positions(hash_type: int) -> None:
    """Each round's hash is the seed of the next, whichever function it is."""
    for case in BLOOM["positions"]:
        key, bits, rounds = case["key"].encode(), case["max_value"], case["nb_hash"]
        one = bloom.BloomFilter(np.zeros((1, bits // 8 + 1), np.uint8), rounds, bits, hash_type=hash_type)
        one.add(RowBytes.from_list([key]))
        expected, seed = set(case["positions"]) if hash_type == MURMUR else set[int](), 0
        for _ in range(rounds if hash_type == JENKINS else 0):
            seed = _jenkins(key, seed)
            expected.add(abs(seed) % bits)
        assert set(np.flatnonzero(np.unpackbits(one.bits[0], bitorder="little")).tolist()) == expected, case


BUCKET = _load("bucket.json")
CONSISTENT = _load("consistent.json")
METADATA = _load("metadata.json")


def test_bucket_ids() -> None:
    for case in BUCKET["cases"]:
        key, fields = case["record_key"], case["index_fields"].split(",")
        assert "error" not in case
        assert extract_values(key, fields) == case["hash_values"], case
        if "list_hash_code" in case:
            assert list_hash(case["hash_values"]) == case["list_hash_code"]
        for count, expected in case["bucket_ids"].items():
            assert bucket_of(key, fields, int(count)) == expected, (case, count)
            found = bucket_ids(_rows([key]), fields, int(count))
            assert found.tolist() == [expected], (case, count)


def test_many_bucket_ids_in_one_call() -> None:
    columns = BUCKET["columns_of_many"]
    assert columns[:2] == ["record_key", "index_fields"]
    counts = [int(c.rpartition("_")[2]) for c in columns[2:]]
    for fields in {line[1] for line in BUCKET["many"]}:
        lines = [line for line in BUCKET["many"] if line[1] == fields]
        keys = _rows([line[0] for line in lines])
        for position, count in enumerate(counts, start=2):
            found = bucket_ids(keys, fields.split(","), count)
            assert found.tolist() == [line[position] for line in lines]


def test_bucket_file_ids() -> None:
    for case in BUCKET["file_ids"]:
        bucket = case["bucket"]
        assert bucket_text(bucket) == case["bucket_id_str"]
        assert new_file_id_prefix(bucket, fixed=True) == case["fixed_suffix_prefix"]
        assert new_file_id_prefix(bucket, fixed=True) + "-0" == case["nbcc_file_id"]
        given = "6fa459ea-ee8a-3ca4-894e-db77e160355e"
        assert new_file_id_prefix(bucket, prefix=given) == case["prefix_from_file_id"]
        assert bucket_of_file_id(case["fixed_suffix_prefix"]) == case["back"] == bucket


@pytest.mark.parametrize("case", CONSISTENT["cases"], ids=lambda c: f"{c['partition'] or '.'} of {c['num_buckets']}")
def test_consistent_hashing(case: dict[str, Any]) -> None:
    metadata = initial_metadata(case["partition"], case["num_buckets"])
    assert metadata.file_name == case["filename"]
    assert encode_metadata(metadata).decode() == case["json"]
    assert decode_metadata(case["json"].encode()) == metadata
    fields = case["lookup_index_fields"].split(",")
    keys = list(case["lookup_bucket_values"])
    places = ring_places(_rows(keys), fields)
    assert places.tolist() == [ring_place(k, fields) for k in keys]
    found = [metadata.nodes[i].value for i in nodes_of(metadata, places)]
    assert found == list(case["lookup_bucket_values"].values())
    for position, node in enumerate(metadata.nodes):
        expected = case["split_of_each_node"][str(node.value)]
        children = split_node(metadata, position)
        assert (None if children is None else [[c.value, c.tag.value] for c in children]) == expected
    merged = case["merge_of_nodes_2_and_3_value_tag_nullprefix"]
    if merged is not None:
        nodes = merge_nodes(metadata, [1, 2])
        assert [[n.value, n.tag.value, n.file_id_prefix is None] for n in nodes] == merged


def test_xxh32_ring_places() -> None:
    texts = [case["text"] for case in CONSISTENT["xxhash32"]]
    expected = [case["xxh32_seed0"] for case in CONSISTENT["xxhash32"]]
    assert [xxh32(t) for t in texts] == expected
    assert xxh32_many(_rows(texts)).tolist() == expected
    for case in CONSISTENT["xxhash32"]:
        assert ring_place(case["text"], []) == case["ring_position"]


def test_rebalanced_hbase_row_keys() -> None:
    for case in METADATA["rebalanced_hbase_row_keys_formula_only"]:
        assert java_string_hash(case["key"]) == case["java_hash"]
        assert rebalanced_row_key(case["key"], case["buckets"]) == case["row_key"]


def test_every_kind_of_vector_is_looked_at() -> None:
    """A new kind in the golden folder must get a test here."""
    known = {
        "bloom.json": {"source", "cases", "reopened", "sizing", "murmur_v2_hadoop", "jenkins", "positions"},
        "bucket.json": {"source", "cases", "columns_of_many", "many", "file_ids"},
        "consistent.json": {"source", "cases", "xxhash32"},
        # Keys and entries of Hudi's metadata table have vectors and no test: lakeidx does not read that table.
        "metadata.json": {
            "source",
            "metadata_table_keys",
            "file_group_index",
            "record_index",
            "secondary_index_keys",
            "md5_partitioner",
            "rebalanced_hbase_row_keys_formula_only",
            "hash_id_seed_0xdabadaba",
        },
    }
    for path in sorted((Path(GOLDEN) / "hudi").glob("*.json")):
        assert set(_load(path.name)) == known[path.name], path.name
