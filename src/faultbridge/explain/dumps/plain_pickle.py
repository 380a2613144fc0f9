"""Reads plain data from a pickle without importing or calling anything.

The size and the depth of the data are limited.
"""

from __future__ import annotations

import pickletools
from collections.abc import Callable, Mapping
from typing import Any

from faultbridge.errors import Rejected

MAX_DEPTH = 32
"""Maximum levels of nesting. A Flight Recorder dump has six."""
MAX_VALUES = 4_000_000
"""Maximum number of values. A dump of 2,000 operations with 64 frames each has about one million."""
MAX_OPCODES, MAX_CREATED = 10_000_000, 2_000_000
"""Maximum numbers of opcodes in one pickle, and of opcodes that create a value or store a reference."""

MAX_KEY = 2**61 - 2
"""Largest integer key of a dict. Python gives larger integers the hashes of smaller ones, so that a dict of such keys
would take quadratic time. For the same reason, each other key must be a string."""

_MARK = object()
_IGNORED = frozenset({"PROTO", "FRAME"})
_EMPTY: Mapping[str, Callable[[], object]] = {"EMPTY_DICT": dict, "EMPTY_LIST": list, "EMPTY_TUPLE": tuple}
_CONSTANTS: Mapping[str, object] = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_TUPLES: Mapping[str, int] = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
_PUTS = frozenset({"PUT", "BINPUT", "LONG_BINPUT"})
_GETS = frozenset({"GET", "BINGET", "LONG_BINGET"})
_LITERALS = frozenset({
    "BININT", "BININT1", "BININT2", "LONG1", "LONG4", "BINFLOAT",
    "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8",
})  # fmt: skip


_CREATING = frozenset({*_LITERALS, *_EMPTY, *_TUPLES, *_PUTS, "TUPLE", "MEMOIZE"})


def load_plain(body: bytes) -> Any:  # noqa: ANN401 - a document of any shape
    """Return the data in a pickle: dicts, lists, tuples, strings, numbers, booleans and None.

    Raises `Rejected` in these cases:

    - The pickle is damaged, or its outermost value is not a dict, list or tuple.
    - It has an opcode that does not build such data, such as an import or a call.
    - It exceeds a limit of this module. The limits exist because one byte of a pickle can create a dict of 64 bytes.
    """
    stack, created = _Stack(), 0
    try:
        for number, (opcode, argument, _) in enumerate(pickletools.genops(body)):
            if opcode.name == "STOP":
                return _bounded(stack.result())
            created += opcode.name in _CREATING
            if number > MAX_OPCODES or created > MAX_CREATED:
                raise Rejected("too_large", f"a pickle of more than {MAX_OPCODES} opcodes or {MAX_CREATED} values")
            stack.apply(opcode.name, argument)
    except (ValueError, KeyError, IndexError, TypeError, OverflowError, MemoryError, RecursionError) as error:
        raise Rejected("not_pickle", f"a damaged pickle: {type(error).__name__}") from error
    raise Rejected("not_pickle", "a pickle without an end")


def _bounded(document: Any) -> Any:  # noqa: ANN401 - as above
    """Return the document if it is within the limits on its depth and on its number of values.

    Raises `Rejected` if the document is nested too deeply, contains itself, or has too many values. A pickle may refer
    to one value many times. Each reference counts, so that no later step takes exponential time.
    """
    values, pending = 0, [(document, 1)]
    while pending:
        value, depth = pending.pop()
        inner = [*value.keys(), *value.values()] if isinstance(value, dict) else value
        values += len(inner)
        if depth > MAX_DEPTH or values > MAX_VALUES:
            raise Rejected("too_large", f"a document of more than {MAX_DEPTH} levels or {MAX_VALUES} values")
        pending.extend((one, depth + 1) for one in inner if isinstance(one, dict | list | tuple))
    return document


def _key(key: Any) -> Any:  # noqa: ANN401 - as above
    if isinstance(key, str) or (isinstance(key, int) and abs(key) <= MAX_KEY):
        return key
    raise Rejected("unsafe_key", f"a pickle with a key that is neither a string nor a number up to {MAX_KEY}")


class _Stack:
    """The stack of a pickle reader: it applies the opcodes that build plain data, and rejects all others."""

    def __init__(self) -> None:
        self._values: list[Any] = []
        self._memo: dict[int, Any] = {}

    def result(self) -> Any:  # noqa: ANN401 - as above
        (value,) = self._values
        if not isinstance(value, dict | list | tuple):
            raise TypeError(value)
        return value

    def apply(self, name: str, argument: Any) -> None:  # noqa: ANN401 - as above
        values = self._values
        if name in _LITERALS:
            values.append(argument)
        elif name in _GETS:
            values.append(self._memo[int(argument)])
        elif name in _PUTS:
            self._memo[_key(argument)] = values[-1]
        elif name in _CONSTANTS:
            values.append(_CONSTANTS[name])
        elif name in _EMPTY:
            values.append(_EMPTY[name]())
        elif name == "MARK":
            values.append(_MARK)
        elif name == "MEMOIZE":
            self._memo[len(self._memo)] = values[-1]
        elif name not in _IGNORED:
            self._build(name)

    def _build(self, name: str) -> None:
        values = self._values
        if name in _TUPLES:
            size = _TUPLES[name]
            values[-size:] = [tuple(values[-size:])]
        elif name == "TUPLE":
            values.append(tuple(self._since_mark()))
        elif name in {"APPEND", "APPENDS"}:
            items = self._since_mark() if name == "APPENDS" else [values.pop()]
            self._top(list).extend(items)
        elif name in {"SETITEM", "SETITEMS"}:
            items = self._since_mark() if name == "SETITEMS" else [values.pop() for _ in range(2)][::-1]
            self._top(dict).update(zip(map(_key, items[::2]), items[1::2], strict=True))
        else:
            raise Rejected("unsafe_pickle", f"a pickle with the opcode {name}; only plain data is read")

    def _since_mark(self) -> list[Any]:
        items: list[Any] = []
        while (value := self._values.pop()) is not _MARK:
            items.append(value)
        return items[::-1]

    def _top(self, kind: type) -> Any:  # noqa: ANN401 - as above
        if type(self._values[-1]) is not kind:
            raise TypeError(kind)
        return self._values[-1]
