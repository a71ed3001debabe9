from __future__ import annotations

import logging
import struct
from typing import Any

import numpy as np
import pytest

from lakeidx.codec import jit
from lakeidx.codec.arrays import frozen
from lakeidx.codec.jit import helper, kernel, load_u32, load_u64, store_u64


@kernel
def copy_word(data: Any, at: Any, out: Any, to: Any) -> Any:
    store_u64(out, to, load_u64(data, at))
    return load_u32(data, at)


def test_unaligned_words_are_little_endian() -> None:
    data = frozen(np.arange(32, dtype=np.uint8))
    for at in range(24):
        out = np.zeros(17, np.uint8)
        low = copy_word(data, at, out, 5)
        assert low == struct.unpack_from("<I", data.tobytes(), at)[0]
        assert out[5:13].tobytes() == data[at : at + 8].tobytes()
        assert not out[:5].any()
        assert not out[13:].any()


def test_frozen_copies_only_what_it_must() -> None:
    array = np.arange(10)
    assert frozen(array).ctypes.data == array.ctypes.data
    assert array.flags.writeable
    assert not frozen(array).flags.writeable
    strided = frozen(array[::2])
    assert strided.flags.c_contiguous
    assert strided.tolist() == [0, 2, 4, 6, 8]
    unaligned = np.frombuffer(b"x" + array.tobytes(), np.int64, offset=1)
    assert frozen(unaligned).flags.aligned
    assert frozen(unaligned).tolist() == array.tolist()


def test_no_form_for_c_programs_is_compiled() -> None:
    # Without a source file nothing is kept on disk: both are compiled here.
    names: dict[str, Any] = {}
    exec("def twice(x): return x + x", names)
    names["twice"] = helper(names["twice"])
    exec("def four_times(x): return twice(twice(x))", names)
    made = kernel(names["four_times"])
    assert made(3) == 12
    for function in (made, names["twice"]):
        (code,) = function.inspect_llvm().values()
        assert "cpython" in code
        assert "cfunc" not in code


def test_compilation_is_announced_once(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger=jit.log.name)
    monkeypatch.setattr(jit._Notice, "given", False)
    for place, told in (("somewhere.else", 0), ("lakeidx.codec.made", 1), ("lakeidx.codec.made", 1)):
        names: dict[str, Any] = {"__name__": place}
        exec("def add(a, b): return a + b", names)
        assert kernel(names["add"])(1, 2) == 3
        assert len(caplog.records) == told
