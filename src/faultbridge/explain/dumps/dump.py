"""The PyTorch Flight Recorder dump of one rank: its process groups, and the operations it enqueued."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from faultbridge.errors import Rejected
from faultbridge.explain.dumps.plain_pickle import MAX_CREATED, MAX_KEY, MAX_VALUES, load_plain

MAX_BYTES = 64 * 1024 * 1024
_RANK = re.compile(r"(\d{1,6})(?:\.(?:json|pickle|pkl))?\Z")
_PEER = re.compile(r"(send|recv) \d{1,6}(?:->|<-)(\d{1,6})\Z")
_RANKS = re.compile(r"\[[\d, ]*\]\Z")
_MALFORMED = (AttributeError, KeyError, TypeError, ValueError, IndexError, OverflowError, RecursionError)
_JSON_STARTS = (b"{", b"[", b" ", b"\n", b"\r", b"\t")


@dataclass(frozen=True, slots=True)
class Group:
    """A PyTorch process group: its name, its description, and the global ranks of its members.

    The position of a global rank in `ranks` is the rank of this member within the group.
    """

    name: str
    description: str
    ranks: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation that a rank enqueued.

    `sequence` is the number of the operation in its group; collectives are numbered separately from sends and receives.
    `shape` has the sizes and the data types of the inputs. `peer` is the global rank to which a send goes, or from
    which a receive comes. `peer` is None for a collective, and for a peer that cannot be determined from the dump.
    """

    group: str
    sequence: int
    name: str
    shape: tuple[str, ...]
    is_pending: bool
    is_p2p: bool
    peer: int | None = None

    @property
    def is_send(self) -> bool:
        """Return whether the operation is a send to a peer."""
        return self.is_p2p and "send" in self.name


@dataclass(frozen=True, slots=True)
class Progress:
    """The sequence numbers of the last enqueued and the last completed operation of a rank in one group."""

    enqueued: int
    completed: int


@dataclass(frozen=True, slots=True)
class Dump:
    """The Flight Recorder dump of one rank.

    `operations` are in program order. `progress` maps the names of groups to the progress of the rank in the group.
    Groups without known progress are not included.
    """

    file: str
    rank: int
    groups: Mapping[str, Group]
    operations: tuple[Operation, ...]
    progress: Mapping[str, Progress]


def read_dump(file: str, body: bytes) -> Dump:
    """Read a Flight Recorder dump in pickle or JSON format.

    The number at the end of the file name is the rank, such as 12 in `_dump_12` and `dump_12.json`. Raises `Rejected`
    for a file name without a rank, for more than 64 MiB, and for content that is not a Flight Recorder dump.
    """
    rank = _RANK.search(file)
    if rank is None:
        raise Rejected(
            "unknown_rank", "the file name does not end in a rank; use the name that PyTorch wrote: _dump_12"
        )
    if len(body) > MAX_BYTES:
        raise Rejected("too_large", f"{len(body)} bytes; at most {MAX_BYTES} are read")
    document = _json(body) if body.startswith(_JSON_STARTS) else load_plain(body)
    if not isinstance(document, dict) or not isinstance(document.get("entries"), list):
        raise Rejected("not_flight_recorder", "not a Flight Recorder dump: no list `entries`")
    try:
        return _dump(file, int(rank[1]), document)
    except _MALFORMED as error:
        raise Rejected(
            "not_flight_recorder", f"a field is missing or has the wrong type: {type(error).__name__}"
        ) from error


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
        yield str(name), Group(str(name), str(one.get("desc", "")), _integers(ranks))


def _integers(values: Iterable[Any]) -> tuple[int, ...]:
    return tuple(map(_number, values))


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
    return Operation(group, sequence, name, shape, is_pending, is_p2p, _peer(name, groups.get(group)))


def _peer(name: str, group: Group | None) -> int | None:
    """Return the global rank of the peer in an operation name such as `nccl:send 3->0`, or None.

    The numbers in the name are ranks within the group. The result is None if the name states no peer, if `group` is
    None, or if the group has no rank with this number.
    """
    found = _PEER.search(name)
    if found is None or group is None or int(found[2]) >= len(group.ranks):
        return None
    return group.ranks[int(found[2])]
