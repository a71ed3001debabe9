"""Golden vectors of Hudi 1.0.2: every line of every kind under golden/hudi."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lakeidx.codec.hudi_bloom import decode_filter_base64, new_filter, size_filter
from lakeidx.codec.hudi_murmur import JENKINS, MURMUR, bloom_positions, jenkins_hash, murmur_hash
from lakeidx.codec.rowbytes import RowBytes
from tests.conftest import GOLDEN

pytestmark = pytest.mark.golden


def _load(name: str) -> dict[str, Any]:
    return json.loads((Path(GOLDEN) / "hudi" / name).read_text(encoding="utf-8"))


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
    assert int(hits.sum()) == case["false_positives_among_absent_000000_to_004999"]
    first = [absent[i] for i in np.flatnonzero(hits)]
    assert first[: len(case["first_false_positives"])] == case["first_false_positives"]


def test_reopened_dynamic_filter_goes_on_as_hudi_does() -> None:
    case = BLOOM["reopened"]
    read = decode_filter_base64(case["before"], "DYNAMIC_V0")
    assert read.to_base64() == case["before"]
    read.add(_rows(case["keys_added_after"]))
    assert read.to_base64() == case["after"]


def test_sizes() -> None:
    for case in BLOOM["sizing"]:
        assert size_filter(case["num_entries"], case["fpp"]) == (case["vector_bits"], case["nb_hash"]), case


def test_murmur_and_jenkins_hashes() -> None:
    for case in BLOOM["murmur_v2_hadoop"]:
        assert murmur_hash(bytes.fromhex(case["utf8_hex"]), case["seed"]) == case["hash"], case
    for case in BLOOM["jenkins"]:
        assert jenkins_hash(bytes.fromhex(case["utf8_hex"]), case["seed"]) == case["hash"], case


def test_positions() -> None:
    for case in BLOOM["positions"]:
        found = bloom_positions(case["key"].encode(), rounds=case["nb_hash"], bits=case["max_value"])
        assert found == case["positions"], case


def test_kernels_hash_as_the_vectors_say() -> None:
    """A filter of one key has exactly the bits that the chained hashes of the vectors' keys give."""
    keys = sorted({bytes.fromhex(c["utf8_hex"]) for c in BLOOM["murmur_v2_hadoop"] + BLOOM["jenkins"]})
    for hash_type in (MURMUR, JENKINS):
        for key in keys:
            one = new_filter("SIMPLE", num_entries=7, fpp=1e-5, max_entries=0)
            one.hash_type = hash_type
            one.add(RowBytes.from_list([key]))
            expected = set(bloom_positions(key, rounds=one.rounds, bits=one.m_bits, hash_type=hash_type))
            bits = np.unpackbits(one.bits[0], bitorder="little")
            assert set(np.flatnonzero(bits).tolist()) == expected, (hash_type, key)
