"""Writing an S3 object in pieces."""

from __future__ import annotations

import contextlib
from typing import Any, Protocol

from lakeidx.errors import LakeIdxError
from lakeidx.storage.base import WriteOnly

# Parts grow with the file, so that 10,000 of them (S3's limit) reach beyond 1 TiB.
_FIRST_PART_BYTES = 16 << 20
_PARTS_PER_SIZE = 1000


class Call(Protocol):
    """One S3 request on the object: method name and its arguments -> the answer."""

    def __call__(self, method: str, **kwargs: Any) -> Any:
        """Send the request."""
        ...


class S3Output(WriteOnly):
    """A file being written; see `lakeidx.storage.base.OutputFile`.

    Up to 16 MiB it is one PUT at the end, beyond that a multipart upload. Not for use from several threads.
    """

    def __init__(self, call: Call) -> None:
        self._call = call
        self._buffer = bytearray()
        self._written = 0
        self._upload_id: str | None = None
        self._parts: list[dict[str, Any]] = []
        self._closed = False

    @property
    def closed(self) -> bool:
        """True after close or abort."""
        return self._closed

    def write(self, data: Any, /) -> int:
        """Append bytes."""
        if self._closed:
            raise ValueError("write to a closed file")
        view = memoryview(data).cast("B")
        self._buffer += view
        self._written += len(view)
        part_bytes = _FIRST_PART_BYTES << (len(self._parts) // _PARTS_PER_SIZE)
        while len(self._buffer) >= part_bytes:
            self._send_part(bytes(self._buffer[:part_bytes]))
            del self._buffer[:part_bytes]
        return len(view)

    def tell(self) -> int:
        """Return the bytes written so far."""
        return self._written

    def flush(self) -> None:
        """Do nothing: parts have a minimum size."""

    def close(self) -> None:
        """Finish the file and make it visible."""
        if self._closed:
            return
        try:
            if self._upload_id is None:
                self._call("put_object", Body=bytes(self._buffer))
            else:
                if self._buffer:
                    self._send_part(bytes(self._buffer))
                self._call(
                    "complete_multipart_upload", UploadId=self._upload_id, MultipartUpload={"Parts": self._parts}
                )
        except BaseException:
            self.abort()
            raise
        self._closed = True
        self._buffer.clear()

    def abort(self) -> None:
        """Abort the file; uploaded parts are deleted."""
        if self._closed:
            return
        self._closed = True
        self._buffer.clear()
        if self._upload_id is not None:
            # The error that led here matters more than this one; stores drop unfinished uploads by their own rules.
            with contextlib.suppress(LakeIdxError):
                self._call("abort_multipart_upload", UploadId=self._upload_id)

    def _send_part(self, data: bytes) -> None:
        if self._upload_id is None:
            self._upload_id = str(self._call("create_multipart_upload")["UploadId"])
        number = len(self._parts) + 1
        answer = self._call("upload_part", UploadId=self._upload_id, PartNumber=number, Body=data)
        self._parts.append({"PartNumber": number, "ETag": answer["ETag"]})
