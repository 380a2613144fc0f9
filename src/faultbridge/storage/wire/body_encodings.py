"""Body encodings: functions that encode the bytes of a record as text in a message, and decode them.

`PACK` and `UNPACK` map the name of each encoding to its function; the simplest encoding comes first. A function of
`PACK` returns None if it cannot encode the bytes. A function of `UNPACK` raises ValueError or zlib.error if it cannot
decode the text, and Rejected `too_large` if the result is too large.
"""

from __future__ import annotations

import base64
import gzip
import zlib
from collections.abc import Callable, Mapping

from faultbridge.errors import Rejected

# A body in a message is smaller than one in the object store, because it bounds the work that a message can cause:
# a second of processor time at most (`tests/bench/hostile_messages.py`). `nvidia-smi -q -x` of eight GPUs has 0.2 MB.
MAX_UNPACKED_BYTES = 384 * 1024


def _unzip(text: str) -> bytes:
    inflate = zlib.decompressobj(wbits=31)
    body = inflate.decompress(base64.b64decode(text, validate=True), MAX_UNPACKED_BYTES)
    if inflate.unconsumed_tail:
        raise Rejected("too_large", f"the decompressed body is too large; allowed: {MAX_UNPACKED_BYTES} bytes")
    if not inflate.eof:
        raise ValueError("the gzip data is truncated")
    if inflate.unused_data:
        raise ValueError("there is more after the gzip data")
    return body


def _plain(body: bytes) -> str | None:
    try:
        return body.decode()
    except UnicodeDecodeError:
        return None


PACK: Mapping[str, Callable[[bytes], str | None]] = {
    "text": _plain,
    "base64": lambda body: base64.b64encode(body).decode(),
    "gzip+base64": lambda body: base64.b64encode(gzip.compress(body, mtime=0)).decode(),
}
UNPACK: Mapping[str, Callable[[str], bytes]] = {
    "text": str.encode,
    "base64": lambda text: base64.b64decode(text, validate=True),
    "gzip+base64": _unzip,
}

_SIZE_CHARACTERS, _SIZE_BYTES = 8, 4  # gzip ends with the size of its content; base64 has 4 characters for 3 bytes


def unpacked_size(frame: object) -> int | None:
    """Return the size of a record's body; `frame` is the record, decoded from JSON.

    - For a gzip body: the unpacked size that the gzip data states at its end. If this size is wrong, unpacking fails.
    - For any other body: the length of its text.
    - None if the body is in the object store.
    - 0 if the record is not a JSON object; decoding then rejects it.

    Raises ValueError if the end of a gzip body is not base64.
    """
    if not isinstance(frame, dict):
        return 0
    if "pointer" in frame:
        return None
    body = str(frame.get("body", ""))
    if frame.get("encoding") != "gzip+base64":
        return len(body)
    return int.from_bytes(base64.b64decode(body[-_SIZE_CHARACTERS:], validate=True)[-_SIZE_BYTES:], "little")
