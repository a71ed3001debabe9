"""Released Java Paimon finds every key of our lookup files, and we find every key of files it writes now."""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import cmp_to_key
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings

from lakeidx.codec.containers.compress import BlockCodec, parse_codec
from lakeidx.codec.rows.compacted_row import encode_compacted
from lakeidx.format.lookup.hash_store import HashContext, LengthSection, decode_context, encode_context
from lakeidx.lookup.hash_store.writer import context_path
from lakeidx.lookup.keys.order import KeyOrder
from lakeidx.lookup.store import StoreType
from lakeidx.types import DataType, format_type
from tests.interop.java_judges import judge, paimon_0_9, paimon_jars
from tests.kit.scalar_twins import page_checksums, plain_page_sizes, walk_pages
from tests.unit.codec.strategies import atomic_types, tables
from tests.unit.lookup.stores import CODECS, PLAIN, ask, build, factory

pytestmark = pytest.mark.interop
Entries = list[tuple[bytes, bytes]]


def _random_entries(rng: random.Random, n: int) -> tuple[Entries, list[bytes]]:
    """Stored entries, and keys that are not stored but look alike."""
    sizes = [rng.choice([0, 1, 3, 4, 8, 12, 13, 20, 200]) for _ in range(2 * n)]
    every = sorted({rng.randbytes(size) for size in sizes} | {b"prefix/%d" % i for i in range(n)})
    stored = set(rng.sample(every, len(every) // 2))
    values = [b"", b"same", b"same", rng.randbytes(30), b"text " * 60, rng.randbytes(3000)]
    return [(key, rng.choice(values)) for key in every if key in stored], [k for k in every if k not in stored]


def _row_cases() -> Iterator[tuple[list[DataType], list[bytes]]]:
    """Sorted compacted rows of many types; no BINARY, which Java's comparator cannot take."""
    found: list[tuple[list[DataType], list[list[Any]]]] = []
    types = atomic_types.filter(lambda t: t.root.value not in ("BINARY", "VARBINARY", "CHAR"))

    @settings(max_examples=40, deadline=None, database=None, derandomize=True, phases=[Phase.generate],
              suppress_health_check=list(HealthCheck))  # fmt: skip
    @given(tables(types, max_columns=5, max_rows=25))
    def collect(table: tuple[list[DataType], list[list[Any]]]) -> None:
        found.append(table)

    collect()
    for chosen, rows in found:
        order = KeyOrder.row_compacted(chosen)
        yield chosen, sorted({encode_compacted(row, chosen) for row in rows}, key=cmp_to_key(order.compare))


def _write_lines(path: Path, lines: list[str]) -> Path:
    path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    return path


def _answers(path: Path) -> list[bytes | None]:
    lines = path.read_text(encoding="utf-8").splitlines()
    return [None if line == "absent" else bytes.fromhex(line.removeprefix("= ")) for line in lines]


def _entry_lines(entries: Entries) -> list[str]:
    return [f"{key.hex()} {value.hex()}" for key, value in entries]


def test_sort_store_both_ways(tmp_path: Path) -> None:
    jars = paimon_jars()
    rng = random.Random(4)
    jobs: list[tuple[object, ...]] = []
    checks: list[tuple[Path, Path, str, KeyOrder, Entries, list[bytes], str]] = []
    number = 0

    def add(
        entries: Entries, absent: list[bytes], order: KeyOrder, codec: str, block_size: int, fpp: float | None
    ) -> None:
        nonlocal number
        number += 1
        base = tmp_path / f"{number:03d}"
        made_by = factory(StoreType.SORT, order=order, compression=codec, block_size=block_size, bloom_fpp=fpp)
        ours = build(made_by, base.with_suffix(".ours"), entries)
        keys = _write_lines(base.with_suffix(".keys"), [k.hex() for k in [*[k for k, _ in entries], *absent]])
        rows = _write_lines(base.with_suffix(".entries"), _entry_lines(entries))
        types = "-" if order.types is None else ";".join(str(format_type(t)) for t in order.types)
        answers, java = base.with_suffix(".answers"), base.with_suffix(".java")
        jobs.append(("read", ours.path, keys, types, answers))
        expected = len(entries) if fpp else 0
        jobs.append(("write", java, rows, types, codec, 1, block_size, fpp or 0, expected))
        checks.append((answers, java, ours.path, order, entries, absent, codec))

    for codec in CODECS:
        for block_size in (64, 4096, 65536):
            for fpp in (None, 0.05):
                entries, absent = _random_entries(rng, 150)
                add(entries, absent, PLAIN, codec, block_size, fpp)
    # Large blocks.
    for block_size in (16384, 65536):
        texts = [(b"%06d" % i, b"text %d " % i * (i % 40)) for i in range(0, 9000, 3)]
        add(texts, [b"000001", b"00000", b"9"], PLAIN, "zstd", block_size, 0.05)
    add([], [b"a"], PLAIN, "none", 65536, 0.05)
    for types, keys in _row_cases():
        entries = [(key, b"%d" % i) for i, key in enumerate(keys) if i % 3]
        add(entries, keys[::3], KeyOrder.row_compacted(types), rng.choice(CODECS), rng.choice([64, 65536]), 0.05)

    judge("SortStoreJudge", jars, jobs, tmp_path)

    assert number > 50
    for answers, java, ours, order, entries, absent, codec in checks:
        right = [value for _, value in entries] + [None] * len(absent)
        assert _answers(answers) == right, f"Java in {ours}"
        reader = factory(StoreType.SORT, order=order).open_reader(java)
        assert ask(reader, [*[k for k, _ in entries], *absent]) == right, f"we in {java}"
        if codec == "none":
            assert java.read_bytes() == Path(ours).read_bytes()


def _context_lines(context: HashContext) -> list[str]:
    """The fields of Java's HashContext."""
    size = context.sections[-1].key_length + 1 if context.sections else 0
    arrays = {name: [0] * size for name in ("count", "slot_size", "slots", "index_offset", "data_offset")}
    for section in context.sections:
        for name, array in arrays.items():
            array[section.key_length] = getattr(section, name)
    packed = context.codec is not BlockCodec.NONE
    pages = (np.cumsum(context.page_sizes) - context.page_sizes).tolist()
    return [
        str(context.bloom_size > 0).lower(),
        str(context.bloom_entries),
        str(context.bloom_size),
        *(" ".join(map(str, array)) for array in arrays.values()),
        str(context.image_size if packed else 0),
        " ".join(map(str, pages)) if packed else "null",
    ]


def _java_context(lines: list[str], codec: str, page_size: int, data: bytes) -> HashContext:
    counts, slot_sizes, slots, index, offsets = ([int(n) for n in line.split()] for line in lines[3:8])
    packed = parse_codec(codec) is not BlockCodec.NONE
    image_size = int(lines[8]) if packed else len(data)
    page_sizes = walk_pages(data) if packed else plain_page_sizes(image_size, page_size)
    return HashContext(
        codec=parse_codec(codec),
        page_size=page_size,
        image_size=image_size,
        bloom_entries=int(lines[1]),
        bloom_size=int(lines[2]),
        sections=tuple(
            LengthSection(length, count, slots[length], slot_sizes[length], index[length], offsets[length])
            for length, count in enumerate(counts)
            if count
        ),
        page_sizes=page_sizes,
        page_checksums=page_checksums(data, page_sizes),
    )


@pytest.mark.one_witness  # the last release whose default store is the hash store
def test_hash_store_both_ways(tmp_path: Path) -> None:
    jars = paimon_0_9()
    rng = random.Random(5)
    jobs: list[tuple[object, ...]] = []
    checks: list[tuple[Path, Entries, list[bytes], str, int]] = []
    for codec in CODECS:
        for page_size in (256, 65536):
            for fpp, load in ((None, 0.75), (0.05, 0.5), (0.01, 0.99)):
                base = tmp_path / f"{len(checks):03d}"
                entries, absent = _random_entries(rng, 200)
                rng.shuffle(entries)
                made_by = factory(
                    StoreType.HASH, compression=codec, block_size=page_size, bloom_fpp=fpp, hash_load_factor=load
                )
                ours = build(made_by, base.with_suffix(".ours"), entries)
                context = decode_context(context_path(ours.path).read_bytes())
                keys = _write_lines(base.with_suffix(".keys"), [k.hex() for k in [*[k for k, _ in entries], *absent]])
                rows = _write_lines(base.with_suffix(".entries"), _entry_lines(entries))
                known = _write_lines(base.with_suffix(".context"), _context_lines(context))
                common = (codec, page_size, load)
                jobs.append(("read", ours.path, keys, *common, known, base.with_suffix(".answers")))
                java, its = base.with_suffix(".java"), base.with_suffix(".java-context")
                jobs.append(("write", java, rows, *common, its, fpp or 0, len(entries) if fpp else 0))
                checks.append((base, entries, absent, codec, page_size))

    judge("HashStoreJudge", jars, jobs, tmp_path)

    for base, entries, absent, codec, page_size in checks:
        right = [value for _, value in entries] + [None] * len(absent)
        assert _answers(base.with_suffix(".answers")) == right, f"Java in {base}"
        java = base.with_suffix(".java")
        lines = base.with_suffix(".java-context").read_text(encoding="utf-8").splitlines()
        context = _java_context(lines, codec, page_size, java.read_bytes())
        context_path(java).write_bytes(encode_context(context))
        reader = factory(StoreType.HASH).open_reader(java)
        assert ask(reader, [*[k for k, _ in entries], *absent]) == right, f"we in {base}"
        ours = decode_context(context_path(base.with_suffix(".ours")).read_bytes())  # type: ignore[assignment]
        assert ours.sections == context.sections  # type: ignore[attr-defined]
        if codec == "none":
            assert java.read_bytes() == base.with_suffix(".ours").read_bytes()
