"""Canonical JSON: the one text of a value, over which hashes are computed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import datetime
from functools import partial

from faultbridge.model.times import to_text

_PLAIN = frozenset({str, int, bool, type(None)})
"""The types of values that JSON contains unchanged and that have no parts."""


def canonical_json(value: object) -> str:
    """Return the JSON text that is hashed: sorted keys, no spaces, unescaped UTF-8.

    Raises TypeError for values outside JSON and for floats, because DynamoDB does not return floats unchanged.
    """
    _refuse_floats(value)
    return _ENCODER.encode(value)


def event_json(value: object) -> str:
    """Return the canonical JSON text of a value that contains times; `times.to_text` gives their texts."""
    _refuse_floats(value)
    return _EVENT_ENCODER.encode(value)


def _refuse_floats(value: object) -> None:
    if isinstance(value, float):
        _refuse(value)
    parts: Iterable[object] = ()
    if isinstance(value, dict | Mapping):
        parts = value.values()
    elif isinstance(value, list | tuple):
        parts = value
    for part in parts:
        if type(part) not in _PLAIN:
            _refuse_floats(part)


def _text(value: object) -> str:
    return to_text(value) if isinstance(value, datetime) else _refuse(value)


def _refuse(value: object) -> str:
    message = f"unsupported type in an entry: {type(value).__name__}; allowed: JSON without floats"
    raise TypeError(message)


_encoder = partial(json.JSONEncoder, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
_ENCODER, _EVENT_ENCODER = _encoder(default=_refuse), _encoder(default=_text)
