"""Packing: compresses large values to bytes, because DynamoDB charges for reads and writes by size.

Compression starts from a dictionary of texts that most items contain: the state of a node with two faults fits into one
write unit. The first byte is the number of the dictionary (`packing-1.txt`), which is never changed; a better one
gets the next number.
"""

from __future__ import annotations

import base64
import gzip
import json
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, cast

from faultbridge.storage.writes import Packed, Value

PACKED_WITH = 1
"""The number of the dictionary with which values are packed now."""

_Pack = Callable[[object], Packed]
_Unpack = Callable[[Value], dict[str, Any]]


def pack(value: object) -> Packed:
    """Return a JSON object as compressed bytes; equal values give equal bytes."""
    return _PACKING.pack(value)


def unpack(packed: Value) -> dict[str, Any]:
    """Return the JSON object of bytes that `pack` made, or of a text that an earlier version stored."""
    return _PACKING.unpack(packed)


def compress(value: object) -> Packed:
    """Return a JSON object as compressed bytes; equal values give equal bytes."""
    packer = zlib.compressobj(level=9, zdict=_dictionary(PACKED_WITH))
    compressed = packer.compress(json.dumps(value, separators=(",", ":")).encode()) + packer.flush()
    return Packed(bytes((PACKED_WITH,)) + compressed)


def decompress(packed: Value) -> dict[str, Any]:
    """Return the JSON object of a stored value; raises ValueError if a later version stored it."""
    if isinstance(packed, Packed):
        return _inflated(packed[0], packed[1:])
    return _decompress_text(str(packed))


def _decompress_text(text: str) -> dict[str, Any]:
    """Return the JSON object of a text that an earlier version stored: in base 64, or a number and base 85."""
    number, separator, packed = text.partition(",")
    if not separator:
        return cast("dict[str, Any]", json.loads(gzip.decompress(base64.b64decode(text))))
    return _inflated(int(number), base64.b85decode(packed))


def _inflated(number: int, packed: bytes) -> dict[str, Any]:
    if number > PACKED_WITH:
        raise ValueError(f"the item needs dictionary {number} of a later version")
    unpacker = zlib.decompressobj(zdict=_dictionary(number))
    return cast("dict[str, Any]", json.loads(unpacker.decompress(packed) + unpacker.flush()))


@cache
def _dictionary(number: int) -> bytes:
    return Path(__file__).with_name(f"packing-{number}.txt").read_bytes()


def wrap_packing(wrap_pack: Callable[[_Pack], _Pack], wrap_unpack: Callable[[_Unpack], _Unpack]) -> None:
    """Wrap how values are packed and unpacked from now on."""
    _PACKING.pack, _PACKING.unpack = wrap_pack(compress), wrap_unpack(decompress)


@dataclass
class _Packing:
    """The functions that pack and unpack values in this process."""

    pack: _Pack
    unpack: _Unpack


_PACKING = _Packing(compress, decompress)
