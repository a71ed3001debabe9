"""Contract of object stores, as tests.

Subclass `StoreContract` in a test module and give the fixtures `store` and `base`. Needs pytest.
"""

from __future__ import annotations

import multiprocessing
import pickle
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pyarrow.parquet as pq

try:
    import pytest
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "the tests of stores need pytest: pip install 'lakeidx[test]'", name=error.name
    ) from error

from lakeidx.errors import NotFoundError
from lakeidx.storage import ObjectStore, OutputFile, join
from lakeidx.storage.probe import PROBE_PREFIX, ensure_safe, forget_probes, probe_conditional_put
from lakeidx.testing.fault_store import FaultStore
from lakeidx.testing.limits import HANGS_SECONDS

NAMES = ["plain", "with space", "snapshot-1", "ünïcödé-表-𝄞", "a%2Fb=c", "x+y&z,;@", "quote'd", ".hidden", "1=2~!()"]


def _child(store: ObjectStore, path: str, queue: multiprocessing.Queue) -> None:  # type: ignore[type-arg]
    try:
        queue.put((store.get(path), store.put_if_absent(path + "-child", b"c")))
    except BaseException as e:
        queue.put(repr(e))


def _fail_while_writing(out: OutputFile, size: int) -> None:
    with out:
        out.write(b"x" * size)
        raise RuntimeError("stop")


class StoreContract:
    """The tests; subclasses give `store` and `base`, a directory of the store that does not exist yet."""

    rounds = 20
    #: False for a store whose connections do not survive a fork, or that is in one process: a forked child must fail at once.
    forks = True

    def test_what_is_put_is_got(self, store: ObjectStore, base: str) -> None:
        for data in (b"", b"x", bytes(range(256)) * 5000):
            store.put(join(base, "f"), data)
            assert store.get(join(base, "f")) == data
            assert store.size(join(base, "f")) == len(data)
            info = store.info(join(base, "f"))
            assert info is not None
            assert (info.name, info.size, info.is_dir, info.path) == ("f", len(data), False, join(base, "f"))
            assert abs(info.mtime_ms - time.time() * 1000) < 120_000

    def test_what_a_store_says_of_the_content_changes_with_it(self, store: ObjectStore, base: str) -> None:
        marks = []
        for data in (b"one", b"two"):
            store.put(join(base, "f"), data)
            info = store.info(join(base, "f"))
            assert info is not None
            assert [f.etag for f in store.list(base)] == [info.etag]
            marks.append(info.etag)
        # A store that says nothing has its files read.
        assert marks == [None, None] or len(set(marks)) == 2

    def test_a_missing_file_is_not_found(self, store: ObjectStore, base: str) -> None:
        missing = join(base, "dir", "missing")
        for ask in (store.get, store.size, lambda p: store.get_range(p, 0, 1), lambda p: store.open_input(p)):
            with pytest.raises(NotFoundError) as caught:
                ask(missing)
            assert caught.value.path == missing
        assert store.info(missing) is None
        assert not store.exists(missing)
        assert store.list(join(base, "dir")) == []
        assert list(store.walk(base)) == []
        store.delete(missing)
        store.delete_many([missing, missing])

    def test_a_directory_is_not_a_file(self, store: ObjectStore, base: str) -> None:
        store.put(join(base, "d", "f"), b"1")
        assert store.exists(join(base, "d"))
        assert store.info(join(base, "d")) is None
        with pytest.raises(NotFoundError):
            store.get(join(base, "d"))

    def test_ranges(self, store: ObjectStore, base: str) -> None:
        data = bytes(i * 7 % 251 for i in range(10_000))
        path = join(base, "f")
        store.put(path, data)
        cases = [(0, 1), (0, 10_000), (9_999, 1), (5, 0), (9_000, 5_000), (10_000, 5), (20_000, 5), (123, 4567)]
        for offset, length in cases:
            assert store.get_range(path, offset, length) == data[offset : offset + length]
        assert store.get_ranges(path, cases) == [data[o : o + n] for o, n in cases]
        assert store.get_ranges(path, [(0, 5), (100, 50)]) == [data[:5], data[100:150]]
        assert store.get_ranges(path, []) == []

    def test_names(self, store: ObjectStore, base: str) -> None:
        for directory in ("d", "dir ectory", "dt=2024-01-01", "ä%20ö"):
            for name in NAMES:
                store.put(join(base, directory, name), name.encode())
            listed = store.list(join(base, directory))
            assert [i.name for i in listed] == sorted(NAMES)
            assert {i.path for i in listed} == {join(base, directory, n) for n in NAMES}
            for info in listed:
                assert store.get(info.path) == info.name.encode()
                assert info.size == len(info.name.encode())

    def test_list_and_walk(self, store: ObjectStore, base: str) -> None:
        files = ["a", "b/c", "b/d/e", "b/d/f", "bb/g", "b.txt"]
        for f in files:
            store.put(join(base, f), b"1")
        assert [(i.name, i.is_dir) for i in store.list(base)] == [
            ("a", False),
            ("b", True),
            ("b.txt", False),
            ("bb", True),
        ]
        assert [(i.name, i.is_dir) for i in store.list(base + "/")] == [(i.name, i.is_dir) for i in store.list(base)]
        assert [i.path for i in store.list(join(base, "b"))] == [join(base, "b/c"), join(base, "b/d")]
        assert sorted(i.path for i in store.walk(base)) == sorted(join(base, f) for f in files)
        assert not any(i.is_dir for i in store.walk(base))
        store.delete_many(join(base, f) for f in files[1:])
        assert [i.path for i in store.walk(base)] == [join(base, "a")]

    def test_listings_are_never_stale(self, store: ObjectStore, base: str) -> None:
        other = store.fresh_session()
        for n in range(3):
            assert [i.name for i in store.list(base)] == [f"f{i}" for i in range(n)]
            assert not store.exists(join(base, f"f{n}"))
            other.put(join(base, f"f{n}"), b"1")
        other.delete(join(base, "f0"))
        assert [i.name for i in store.list(base)] == ["f1", "f2"]
        assert not store.exists(join(base, "f0"))

    def test_delete_empty_dir(self, store: ObjectStore, base: str) -> None:
        store.put(join(base, "d", "f"), b"1")
        assert not store.delete_empty_dir(join(base, "d"))
        assert store.exists(join(base, "d", "f"))
        store.delete(join(base, "d", "f"))
        assert store.delete_empty_dir(join(base, "d"))
        assert not store.exists(join(base, "d"))
        assert store.delete_empty_dir(join(base, "never"))

    def test_puts_of_many_files(self, store: ObjectStore, base: str) -> None:
        files = [(join(base, "a", f"f{n}"), bytes([n]) * n) for n in range(12)] + [(join(base, "b", "g"), b"1")]
        store.put_many([])
        store.put_many(files)
        assert {path: store.get(path) for path, _ in files} == dict(files)
        store.put_many([(files[3][0], b"again")])
        assert store.get(files[3][0]) == b"again"
        assert len([*store.walk(base)]) == len(files)

    def test_put_if_absent(self, store: ObjectStore, base: str) -> None:
        path = join(base, "snapshot", "snapshot-1")
        assert store.put_if_absent(path, b"first")
        assert not store.put_if_absent(path, b"second")
        assert not store.put_if_absent(path, b"first")
        assert store.get(path) == b"first"
        store.delete(path)
        assert store.put_if_absent(path, b"third")
        assert store.get(path) == b"third"
        assert [i.name for i in store.list(join(base, "snapshot"))] == ["snapshot-1"]

    def test_of_racing_puts_one_wins(self, store: ObjectStore, base: str) -> None:
        clients = [store.fresh_session() for _ in range(8)]
        with ThreadPoolExecutor(len(clients)) as pool:
            for n in range(self.rounds):
                path = join(base, f"race-{n}")
                barrier = threading.Barrier(len(clients), timeout=HANGS_SECONDS)

                def put(i: int, path: str = path, barrier: threading.Barrier = barrier) -> bool:
                    barrier.wait()
                    return clients[i].put_if_absent(path, f"client {i}".encode() * 1000)

                won = list(pool.map(put, range(len(clients))))
                assert won.count(True) == 1
                assert store.get(path) == f"client {won.index(True)}".encode() * 1000

    def test_readers_never_see_a_part(self, store: ObjectStore, base: str) -> None:
        size = 300_000
        done = threading.Event()
        seen: list[int] = []

        def watch() -> None:
            while not done.is_set():
                for n in range(6):
                    try:
                        data = store.get(join(base, f"f{n}"))
                    except NotFoundError:
                        continue
                    seen.append(len(data))
                    assert len(data) == size
                    assert len(set(data)) == 1

        with ThreadPoolExecutor(2) as pool:
            watcher = pool.submit(watch)
            writer = store.fresh_session()
            for n in range(6):
                assert writer.put_if_absent(join(base, f"f{n}"), bytes([n + 1]) * size)
                for again in range(3):
                    writer.put(join(base, f"f{n}"), bytes([100 + again]) * size)
            time.sleep(0.05)
            done.set()
            watcher.result()
        assert seen

    def test_parquet_through_the_store(self, store: ObjectStore, base: str) -> None:
        table = pa.table({"a": list(range(60_000)), "s": [f"row {i * 7919 % 60_000}" for i in range(60_000)]})
        path = join(base, "part=ä ö", "data.parquet")
        with store.open_output(path) as out:
            pq.write_table(table, out, compression="zstd", row_group_size=10_000)
            assert not store.exists(path)
        size = store.size(path)
        for known in (None, size):
            with store.open_input(path, size=known) as source:
                assert pq.read_table(source).equals(table)
            file = pq.ParquetFile(store.open_input(path, size=known))
            assert file.read_row_group(3, columns=["a"])["a"].to_pylist() == list(range(30_000, 40_000))

    def test_a_large_file(self, store: ObjectStore, base: str) -> None:
        path = join(base, "large")
        pieces = [bytes([n % 256]) * 1_000_003 for n in range(36)]
        with store.open_output(path) as out:
            for piece in pieces:
                assert out.write(piece) == len(piece)
            assert out.tell() == sum(map(len, pieces))
        assert out.closed
        assert store.size(path) == sum(map(len, pieces))
        source = store.open_input(path)
        for n in (35, 0, 17):
            source.seek(n * 1_000_003)
            assert source.read(1_000_003) == pieces[n]
        assert source.read_at(10, 36 * 1_000_003 - 4) == pieces[35][-4:]
        assert store.get_range(path, 1_000_000, 6) == pieces[0][-3:] + pieces[1][:3]

    def test_a_failed_output_leaves_nothing(self, store: ObjectStore, base: str) -> None:
        for size in (10, 20_000_000):
            out = store.open_output(join(base, "f"))
            with pytest.raises(RuntimeError, match="stop"):
                _fail_while_writing(out, size)
            assert out.closed
        assert list(store.walk(base)) == []
        out = store.open_output(join(base, "g"))
        out.write(b"1")
        out.abort()
        out.close()
        assert list(store.walk(base)) == []

    def test_pickled_and_forked(self, store: ObjectStore, base: str) -> None:
        path = join(base, "f")
        store.put(path, b"data")
        copy = pickle.loads(pickle.dumps(store))
        assert copy.get(path) == b"data"
        context = multiprocessing.get_context("fork")
        queue = context.Queue()
        child = context.Process(target=_child, args=(store, path, queue))
        child.start()
        outcome = queue.get(timeout=HANGS_SECONDS)
        child.join(HANGS_SECONDS)
        if self.forks:
            assert outcome == (b"data", True)
            assert store.get(path + "-child") == b"c"
        else:
            assert "this process was forked from one that had used an object store" in outcome
            assert not store.exists(path + "-child")

    def test_many_deletes(self, store: ObjectStore, base: str) -> None:
        paths = [join(base, f"f{n:04d}") for n in range(60)]
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda p: store.put(p, b"1"), paths))
        store.delete_many([*paths[:50], join(base, "never")])
        assert [i.path for i in store.list(base)] == paths[50:]

    def test_the_probe_accepts_it_and_cleans_up(self, store: ObjectStore, base: str) -> None:
        store.put(join(base, "f"), b"1")
        probe_conditional_put(store, base, clients=8, rounds=2)
        assert [i.name for i in store.list(base) if not i.name.startswith(PROBE_PREFIX)] == ["f"]
        assert [i.name for i in store.walk(base)] == ["f"]
        forget_probes()
        counting = FaultStore(store)
        ensure_safe(counting, base)
        spent = len(counting.calls)
        ensure_safe(counting, base)
        assert len(counting.calls) == spent > 0
        forget_probes()

    def test_a_wrapper_hands_everything_on(self, store: ObjectStore, base: str) -> None:
        wrapped = FaultStore(store)
        assert isinstance(wrapped, ObjectStore)
        path = join(base, "d", "f")
        wrapped.put(path, b"12345")
        assert wrapped.get(path) == b"12345"
        assert not wrapped.put_if_absent(path, b"678")
        assert wrapped.get_range(path, 1, 2) == b"23"
        assert wrapped.get_ranges(path, [(0, 1), (4, 1)]) == [b"1", b"5"]
        assert wrapped.exists(path)
        with wrapped.open_output(join(base, "g")) as out:
            out.write(b"abc")
        assert wrapped.open_input(join(base, "g"), size=3).read() == b"abc"
        assert pickle.loads(pickle.dumps(wrapped)).get(path) == b"12345"
        wrapped.delete_many([path, join(base, "g")])
        assert list(wrapped.walk(base)) == []
