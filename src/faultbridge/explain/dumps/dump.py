"""The PyTorch Flight Recorder dump of one rank: its process groups, and the operations it enqueued."""

from __future__ import annotations

import json
import pickletools
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from faultbridge.model.errors import Rejected

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
    """Return the plain data in a pickle; raises `Rejected` for any other opcode, such as a call.

    The limits of this module exist because one byte of a pickle can create a dict of 64 bytes.
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
    """Return the document if its depth and values are within limits; each reference to a value counts."""
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


MAX_BYTES = 64 * 1024 * 1024
_RANK = re.compile(r"(\d{1,6})(?:\.(?:json|pickle|pkl))?\Z")
_PEER = re.compile(r"(send|recv) \d{1,6}(?:->|<-)(\d{1,6})\Z")
_RANKS = re.compile(r"\[[\d, ]*\]\Z")
_MALFORMED = (OSError, AttributeError, KeyError, TypeError, ValueError, IndexError, OverflowError, RecursionError)
_JSON_STARTS = (b"{", b"[", b" ", b"\n", b"\r", b"\t")


@dataclass(frozen=True, slots=True)
class Group:
    """A PyTorch process group; the position of a global rank in `ranks` is its rank within the group."""

    name: str
    description: str
    ranks: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Operation:
    """One enqueued operation; `peer` is the global rank of a send or receive, if the dump shows it.

    `since` is the time at which the program enqueued it, and `until` that at which PyTorch gives it up, if stated.
    """

    group: str
    sequence: int
    name: str
    shape: tuple[str, ...]
    is_pending: bool
    is_p2p: bool
    peer: int | None = None
    since: datetime | None = None
    until: datetime | None = None


@dataclass(frozen=True, slots=True)
class Progress:
    """The sequence numbers of the last enqueued and the last completed operation of a rank in one group."""

    enqueued: int
    completed: int


@dataclass(frozen=True, slots=True)
class Dump:
    """The Flight Recorder dump of one rank: its operations in program order and its known progress by group."""

    file: str
    rank: int
    groups: Mapping[str, Group]
    operations: tuple[Operation, ...]
    progress: Mapping[str, Progress]


def read_dump(file: str, body: bytes) -> Dump:
    """Read a dump in pickle or JSON format; the number at the end of the file name is the rank."""
    rank = _RANK.search(file)
    if rank is None:
        raise Rejected("unknown_rank", "the name of the file does not end in a rank; PyTorch writes names as _dump_12")
    if len(body) > MAX_BYTES:
        raise Rejected("too_large", f"{len(body)} bytes; at most {MAX_BYTES} are read")
    document = _json(body) if body.startswith(_JSON_STARTS) else load_plain(body)
    if not isinstance(document, dict) or not isinstance(document.get("entries"), list):
        raise Rejected("not_flight_recorder", "not a Flight Recorder dump: no list `entries`")
    try:
        return _dump(file, int(rank[1]), document)
    except _MALFORMED as error:
        detail = f"a field is missing or has the wrong type: {type(error).__name__}"
        raise Rejected("not_flight_recorder", detail) from error


def _json(body: bytes) -> Any:  # noqa: ANN401 - a document of any shape
    if body.count(b"[") + body.count(b"{") > MAX_CREATED or body.count(b",") > MAX_VALUES:
        raise Rejected("too_large", f"a document of more than {MAX_CREATED} lists and objects or {MAX_VALUES} values")
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        raise Rejected("not_json", f"not a JSON document: {type(error).__name__}") from error


def _dump(file: str, rank: int, document: Mapping[str, Any]) -> Dump:
    groups = dict(_groups(document.get("pg_config") or {}))
    entries = sorted(document["entries"], key=lambda one: int(one["record_id"]))
    operations = tuple(_operation(one, groups) for one in entries)
    statuses = document.get("pg_status") or {}
    own = sorted((name for name in groups if rank in groups[name].ranks and name.isdigit()), key=int)
    names = dict(zip(sorted(statuses, key=int), own, strict=False)) if len(own) == len(statuses) else {}
    names |= {str(one["pg_id"]): str(one["process_group"][0]) for one in entries}
    progress = {
        names[number]: Progress(_number(one["last_enqueued_collective"]), _number(one["last_completed_collective"]))
        for number, one in statuses.items()
        if number in names
    }
    return Dump(file, rank, groups, operations, progress)


def _groups(config: Mapping[str, Any]) -> Iterator[tuple[str, Group]]:
    for name, one in config.items():
        ranks = one["ranks"]
        if isinstance(ranks, str):
            ranks = json.loads(ranks) if _RANKS.match(ranks) else ()
        yield str(name), Group(str(name), str(one.get("desc", "")), tuple(map(_number, ranks)))


def _number(value: str | int) -> int:
    """Return a number that is safe as the key of a dict (`MAX_KEY`); any other value raises ValueError."""
    number = int(value)
    if abs(number) > MAX_KEY:
        raise ValueError(number)
    return number


def _operation(one: Mapping[str, Any], groups: Mapping[str, Group]) -> Operation:
    group, name = str(one["process_group"][0]), str(one["profiling_name"])
    is_p2p = bool(one.get("is_p2p"))
    is_pending = one["state"] != "completed" and not one.get("retired")
    # The operations of all ranks have few different names and shapes.
    group, name = sys.intern(group), sys.intern(name)
    shape = (sys.intern(str(one.get("input_sizes"))), sys.intern(str(one.get("input_dtypes"))))
    sequence = _number(one["p2p_seq_id" if is_p2p else "collective_seq_id"])
    peer, since, until = _peer(name, groups.get(group)), None, None
    if is_pending and (created := _number(one.get("time_created_ns") or 0)) > 0:
        since = datetime.fromtimestamp(created / 1e9, UTC)
        until = since + timedelta(milliseconds=_number(one.get("timeout_ms") or 0))
    return Operation(group, sequence, name, shape, is_pending, is_p2p, peer, since, until)


def _peer(name: str, group: Group | None) -> int | None:
    """Return the global rank in a name such as `nccl:send 3->0`, which has ranks of the group, or None."""
    found = _PEER.search(name)
    if found is None or group is None or int(found[2]) >= len(group.ranks):
        return None
    return group.ranks[int(found[2])]
