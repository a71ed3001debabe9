"""Speed of the lookup stores per core, beside released Java Paimon on the same machine and data.

Every store is checked before it is timed: all values of the asked keys, and that no absent key is found; with codec none the sort
store's file is compared byte for byte with Java's. One thread, warm, best of several rounds, batches of at most 1 M random keys.
"miss" asks for absent keys that look like stored ones (as PaimonMicro does). Entries have 12-byte keys and 16-byte values; the
comparison with Java uses PaimonMicro's values (15 to 23 bytes).

    python -m bench.bench_lookup_store [--rows 10000,100000,1000000,10000000] [--rounds 5] [--java all] [--json] [--out DIR]

Java's figures come from PaimonMicro (sort store, release 1.4.2) and HashStoreMicro (hash store, release 0.9.0), best of the rounds
they print, at 1 M entries where Java and Maven are there; --java all asks them for every size, --java no leaves them out.
--out draws the picture lookup-store-rates.png: rates against table size, by the clock and (lakeidx) by the
processor time of the thread.
"""

from __future__ import annotations

import argparse
import json
import platform
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from bench.clock import best_of
from bench.figures import tell
from lakeidx.codec.containers.compress import parse_codec
from lakeidx.codec.rows.rowbytes import RowBytes
from lakeidx.lookup.block_cache import BlockCache
from lakeidx.lookup.factory import LookupStoreFactory
from lakeidx.lookup.keys.order import KeyOrder
from lakeidx.lookup.store import LookupFile, LookupStoreOptions, LookupStoreReader, StoreType
from lakeidx.maintenance.warm_up import warm_up
from tests.interop.java_judges import paimon_0_9, run_program
from tests.kit.java_tools import SCRIPT, run_command

KEY_SIZE, VALUE_SIZE = 12, 16
BATCH_ROWS = 1_000_000
SEED = 7
COMPARED_ROWS = 1_000_000


@dataclass(frozen=True, slots=True)
class Figure:
    """One measurement.

    program        lakeidx or the Java release
    values         "16 bytes" or "text" (those of PaimonMicro)
    operation      build, hit, miss
    million_per_s  best round by the clock
    cpu_million_per_s  best round by processor time of the thread (not known of Java)
    """

    program: str
    store: str
    codec: str
    rows: int
    values: str
    operation: str
    million_per_s: float
    file_bytes: int
    cpu_million_per_s: float | None = None


def keys_of(numbers: npt.NDArray[np.int64], *, absent: bool = False) -> RowBytes:
    """Return PaimonMicro's keys: 8 bytes of 7919 i and 4 of i, big-endian; absent ones differ in bytes 3 and 11."""
    out = np.empty((len(numbers), KEY_SIZE), np.uint8)
    out[:, :8] = (numbers * 7919).astype(">i8").view(np.uint8).reshape(-1, 8)
    out[:, 8:] = numbers.astype(">i4").view(np.uint8).reshape(-1, 4)
    if absent:
        out[:, 11] ^= 0x55
        out[:, 3] = 1
    return RowBytes(out.reshape(-1), np.arange(len(numbers) + 1, dtype=np.int64) * KEY_SIZE)


def fixed_values(rows: int) -> RowBytes:
    """Return random 16-byte values."""
    data = np.random.default_rng(SEED).integers(0, 256, rows * VALUE_SIZE, dtype=np.uint8)
    return RowBytes(data, np.arange(rows + 1, dtype=np.int64) * VALUE_SIZE)


def text_values(rows: int) -> RowBytes:
    """Return PaimonMicro's values; Java's product wraps at 32 bits."""
    products = (np.arange(rows, dtype=np.int64) * 31).astype(np.int32)
    return RowBytes.from_list([b"value-%d-%d" % (i, p) for i, p in enumerate(products.tolist())])


def build(made_by: LookupStoreFactory, path: Path, keys: RowBytes, values: RowBytes) -> LookupFile:
    with made_by.create_writer(path, expected_entries=len(keys)) as writer:
        writer.write(keys, values)
        return writer.finish()


def check(
    reader: LookupStoreReader, path: Path, values: RowBytes, asked: npt.NDArray[np.int64], absent: RowBytes
) -> None:
    """Check that all values of the asked keys are right, and no absent key is found."""
    found, got = reader.lookup_many(keys_of(asked))
    starts, sizes = values.offsets[asked], values.lengths[asked]
    places = np.repeat(starts - got.offsets[:-1], sizes) + np.arange(int(sizes.sum()))
    assert found.all(), f"{np.count_nonzero(~found)} stored keys are not found in {path}"
    assert np.array_equal(got.lengths, sizes)
    assert np.array_equal(got.flat, values.data[places]), f"wrong values from {path}"
    assert not reader.lookup_many(absent).found.any(), f"absent keys are found in {path}"


def measure(
    folder: Path, store_type: StoreType, codec: str, rows: int, rounds: int, values: RowBytes, kind: str
) -> list[Figure]:
    """Measure one store."""
    cache = BlockCache(1 << 30)
    options = LookupStoreOptions(compression=parse_codec(codec))
    made_by = LookupStoreFactory(store_type, order=KeyOrder.unsigned_bytes(), options=options, cache=cache)
    path = folder / f"{store_type.value}-{codec}-{rows}"
    keys = keys_of(np.arange(rows))
    file = build(made_by, path, keys, values)
    rng = np.random.default_rng(SEED)
    asked = rng.integers(0, rows, min(rows, BATCH_ROWS))
    present, absent = keys_of(asked), keys_of(asked, absent=True)
    runs: dict[str, tuple[int, int, Callable[[], object]]] = {}
    reader = made_by.open_reader(file.path, checksum=file.checksum)
    check(reader, path, values, asked, absent)

    runs["hit"] = (len(asked), rounds, lambda: reader.lookup_many(present))
    runs["miss"] = (len(asked), rounds, lambda: reader.lookup_many(absent))
    runs["build"] = (
        rows, min(rounds, 3) if rows > COMPARED_ROWS else rounds, lambda: build(made_by, path, keys, values),
    )  # fmt: skip
    figures = []
    for operation, (n, times, run) in runs.items():
        clock, processor = (n / seconds / 1e6 for seconds in best_of(times, run))
        figures.append(Figure("lakeidx", store_type.value, codec, rows, kind, operation, clock, file.size, processor))
    path.unlink()
    return figures


def java_figures(lines: Sequence[str], program: str, store: str) -> list[Figure]:
    """Return the best round of each operation, from the lines a Java program prints."""
    rounds = [line for line in map(json.loads, lines) if line["op"] == f"{store}-store"]
    assert rounds, f"{program} printed nothing"
    for line in rounds:
        assert (line["hit"], line["miss"]) == (line["n"], line["n"]), f"{program}: {line}"
    return [
        Figure(
            program, store, rounds[0]["compress"], rounds[0]["n"], "text", operation,
            max(line[f"{name}_per_s"] for line in rounds) / 1e6, rounds[0]["bytes"],
        )
        for operation, name in (("build", "put"), ("hit", "get"), ("miss", "miss"))
    ]  # fmt: skip


def compare_with_java(folder: Path, rounds: int, rows: int) -> list[Figure]:
    """Measure lakeidx and Java on PaimonMicro's data."""
    figures = []
    values = text_values(rows)
    for codec in ("none", "zstd") if rows == COMPARED_ROWS else ("none",):
        theirs = folder / f"java-{codec}.sst"
        lines = run_command(["bash", str(SCRIPT), str(rows), codec, str(theirs)], PAIMON_MAIN="PaimonMicro")
        figures += java_figures(lines.splitlines(), "Paimon 1.4.2", "sort")
        figures += java_figures(
            run_program("HashStoreMicro", paimon_0_9(), rows, codec, folder / "java.hash"), "Paimon 0.9.0", "hash"
        )
        for store_type in StoreType:
            figures += measure(folder, store_type, codec, rows, rounds, values, "text")
        if codec == "none":
            options = LookupStoreOptions(compression=parse_codec(codec))
            made_by = LookupStoreFactory(StoreType.SORT, order=KeyOrder.unsigned_bytes(), options=options)
            ours = build(made_by, folder / "ours.sst", keys_of(np.arange(rows)), values)
            assert Path(ours.path).read_bytes() == theirs.read_bytes(), "the sort store's bytes are not Java's"
        for left in (theirs, folder / "java.hash"):
            left.unlink(missing_ok=True)
    return figures


def java_sizes(choice: str, sizes: Sequence[int]) -> Sequence[int]:
    """Return the numbers of entries for which Java is asked."""
    missing = [tool for tool in ("java", "javac", "mvn", "bash") if shutil.which(tool) is None]
    if choice == "no" or (choice == "auto" and missing):
        print(f"no figures of Java: {', '.join(missing) + ' missing' if missing else 'not asked for'}", file=sys.stderr)
        return ()
    return sizes if choice == "all" else [n for n in sizes if n == COMPARED_ROWS]


def plot(figures: Sequence[Figure], path: Path) -> None:
    """Plot rates against table size, one panel per operation; Java's as points."""
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    panels = {
        "build": "build",
        "hit": "batch lookup, present keys",
        "miss": "batch lookup, absent keys",
    }
    chart, axes = plt.subplots(1, len(panels), figsize=(15, 5.4), constrained_layout=True)
    for axis, (operation, title) in zip(axes, panels.items(), strict=True):
        for store in StoreType:
            own = sorted(
                (f.rows, f.million_per_s, f.cpu_million_per_s or 0.0) for f in figures
                if (f.program, f.store, f.codec, f.values, f.operation) == ("lakeidx", store.value, "none", "16 bytes", operation)
            )  # fmt: skip
            sizes = [rows for rows, _, _ in own]
            (line,) = axis.plot(sizes, [rate for _, rate, _ in own], marker="o", label=f"lakeidx {store.value}")
            # On an idle machine this line hides behind the other one.
            axis.plot(sizes, [rate for _, _, rate in own], linestyle="--", linewidth=1, color=line.get_color(),
                      label=f"lakeidx {store.value}, by processor time")  # fmt: skip
            java = sorted(
                (f.rows, f.million_per_s, f.program) for f in figures
                if f.program != "lakeidx" and (f.store, f.codec, f.operation) == (store.value, "none", operation)
            )  # fmt: skip
            if java:
                axis.plot(
                    [r for r, _, _ in java], [v for _, v, _ in java], marker="x", linestyle=":", color=line.get_color(),
                    label=f"{java[0][2]} {store.value}",
                )  # fmt: skip
        axis.set(title=title, xscale="log", xlabel="entries", ylabel="million per second", ylim=(0, None))
        axis.grid(alpha=0.3)
    chart.suptitle("Lookup stores, one core, codec none, 12-byte keys, 16-byte values (Java: values of 15 to 23 bytes)")
    # All panels have the lines of the first one.
    chart.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    chart.savefig(path, dpi=110)
    plt.close(chart)


def main(argv: Sequence[str] | None = None) -> None:
    """Run all cases."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", default="10000,100000,1000000,10000000")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--java", choices=("auto", "all", "no"), default="auto")
    parser.add_argument("--json", action="store_true", help="one JSON line per measurement instead of the table")
    parser.add_argument("--out", type=Path)
    args = parser.parse_args(argv)
    warm_up(packages=("lakeidx.lookup",), processes=1)
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory(prefix="lakeidx-bench-") as name:
        folder = Path(name)
        sizes = [int(n) for n in args.rows.split(",")]
        for rows in sizes:
            for store_type in StoreType:
                for codec in ("none", "zstd", "lz4") if rows == COMPARED_ROWS else ("none",):
                    figures += measure(folder, store_type, codec, rows, args.rounds, fixed_values(rows), "16 bytes")
        for rows in java_sizes(args.java, sizes):
            figures += compare_with_java(folder, args.rounds, rows)
    machine = {"machine": platform.machine(), "python": platform.python_version(), "numpy": np.__version__}
    tell("Lookup stores, one core", (asdict(f) | machine for f in figures), as_json=args.json)
    if args.out:
        args.out.mkdir(parents=True, exist_ok=True)
        plot(figures, args.out / "lookup-store-rates.png")


if __name__ == "__main__":
    main()
