"""Decodes `slurm-node`: node states from sinfo, scontrol, their JSON, or the log of slurmctld.

A node that is powered down, booting, in maintenance or waiting for a requested reboot is in an expected state, which is
no fault. A drained node whose reason is not in the mapping `slurm` has a fault that needs no action.

Grammar: a table with a heading (`|` or spaces between columns), `Key=value` records, JSON, or lines of slurmctld's log;
one row can describe many nodes. Times: those of slurmctld's log, local and taken as UTC; the time of
a reason is an attribute. Units: none. Errors: `Rejected(no_framing)` without a node. Source: Slurm's documentation and
captures.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from msgspec import Struct

from faultbridge.decode.data.mapping import mapping
from faultbridge.decode.frames.clock import iso_time, yearless_time
from faultbridge.decode.frames.decoder import Decoded, Hints, fault_of
from faultbridge.decode.frames.documents import blocks, objects, text_of
from faultbridge.decode.frames.values import bounded, elements, objects_in, text
from faultbridge.model.errors import Rejected
from faultbridge.model.fault_enums import Action, Severity
from faultbridge.model.faults import NODE_COMPONENT, Fault, Snapshot
from faultbridge.model.names import expand_host_list

_NODE = re.compile(r"^\s{0,64}NodeName=(\S{1,253})", re.MULTILINE)
_STATE = re.compile(r"(?:^|\s)State=(\S{1,256})")
_REASON = re.compile(r"(?:^|\s)Reason=([^\n]{0,2048})")
_HOST = re.compile(r"\sNodeHostName=(\S{1,253})")
_ADDRESS = re.compile(r"\sNodeAddr=(\S{1,253})")
# It follows the texts that users can set, so only the last one counts.
_INSTANCE = re.compile(r"\sInstanceId=(\S{1,253})")
_TAIL = re.compile(r"\s{0,8}\[(?:([^\[\]@]{0,64})@)?([^\[\]@]{0,32})\]\s{0,8}$")
# In a one-line record, the next field follows the reason.
_NEXT_FIELD = re.compile(r" [A-Z]\w{1,32}=")
_HEADING = re.compile(
    r"^(?=.{0,512}\b(?:NODELIST|HOSTNAMES|NODE_NAME)(?:\s|$))(?=.{0,512}\b(?:STATE|REASON)\b)"
    r"[A-Z][A-Z_:()/ \t]{0,512}\r?$",
    re.MULTILINE,
)
_STATE_WORD = (
    r"(?P<state>(?:alloc(?:ated)?|comp(?:leting)?|down|drain(?:ed|ing)?|drng|error"
    r"|fail(?:ing|g)?|future|idle|inval|maint|mix(?:ed)?|planned|plnd|reboot|resv|reserved|unk(?:nown)?)[*~#!%$@^+-]{0,4})"
)
_GAP = r"[ \t]{1,64}"
# Rows of `sinfo -h`, `sinfo -h -N [-l]` and `sinfo -h -N -o "%N %T %E"`; without a heading, all must be of one form.
_BARE_ROWS = tuple(
    re.compile(r"\s{0,16}" + row + r"\s{0,64}$", re.IGNORECASE)
    for row in (
        rf"\S{{1,64}}{_GAP}(?:up|down|drain|inact){_GAP}[\w:/-]{{1,32}}{_GAP}\d{{1,6}}{_GAP}{_STATE_WORD}{_GAP}(?P<name>\S{{1,2048}})",
        rf"(?P<name>\S{{1,2048}}){_GAP}\d{{1,6}}{_GAP}\S{{1,64}}{_GAP}{_STATE_WORD}"
        rf"(?:{_GAP}\d{{1,6}}\+?{_GAP}[\d:+]{{1,32}}{_GAP}\d{{1,12}}\+?{_GAP}\d{{1,12}}\+?{_GAP}\d{{1,12}}\+?{_GAP}\S{{1,512}}{_GAP}(?P<reason>.*))?",
        rf"(?P<name>[^\s|]{{1,2048}})[ |]{{1,32}}{_STATE_WORD}(?:[ |]{{1,32}}(?P<reason>.*))?",
    )
)
# `sinfo -R` prints no state: each node that it lists is down, drained or failing.
_LISTED_FOR_A_REASON = "DRAIN"
_LINE = re.compile(r"[^\r\n]+")
_UPDATE = re.compile(
    r"^(?:\[(?P<own>[\d:.T-]{19,32})\] "
    r"|(?:(?P<iso>\d{4}-\d\d-\d\dT\S{8,24})|(?P<month>\w{3}) {1,2}(?P<day>\d{1,2}) (?P<clock>\d\d:\d\d:\d\d)) "
    r"\S{1,253} slurmctld(?:\[\d{1,10}\])?: )(?:slurmctld: )?(?:error: )?"
    r"(?:\w{1,32}: node (?P<node>\S{1,253}) (?P<field>reason|state) set to:? (?P<value>.{0,512})"
    r"|Setting node (?P<set>\S{1,253}) state to (?P<state>\w{1,32}) with reason: ?(?P<reason>.{0,512})"
    r"|Nodes? (?P<lost>\S{1,2048}) not responding, setting DOWN)",
    re.MULTILINE,
)


class SlurmNode(Struct, frozen=True):
    """One node in Slurm: its state with flags or suffixes, its reason, and its instance.

    `set_by` and `since` state who set the reason and when, as printed. `at` is the time of the log line. `host` is
    NodeHostName and `address` is NodeAddr. `instance_id` is what slurmd or an administrator reported to Slurm.
    """

    name: str
    state: str
    reason: str = ""
    set_by: str | None = None
    since: str | None = None
    at: datetime | None = None
    host: str | None = None
    address: str | None = None
    instance_id: str | None = None


def slurm_nodes(body: str, received_at: datetime | None = None) -> Iterator[SlurmNode]:
    """Yield the nodes in the order of the input, or nothing if its format is not known.

    A node that several lines list is yielded several times. `received_at` gives the year of a time without a year.
    """
    if body.lstrip()[:1] in {"{", "["} and not _UPDATE.search(body):
        yield from _of_json(body)
    elif _NODE.search(body):
        yield from _of_records(body)
    elif _UPDATE.search(body):
        yield from _of_log(body, received_at)
    elif (first := body.lstrip().split("\n", 1)[0]).count("|") > 1 and "STATE" in first:
        yield from _of_piped(body)
    elif _HEADING.search(body):
        yield from _of_table(body)
    else:
        yield from _of_bare_rows(body)


def _of_json(body: str) -> Iterator[SlurmNode]:
    for _, document in objects(body):
        for node in objects_in(document.get("nodes")) if "nodes" in document else (document,):
            name = text(node.get("name") or node.get("n"), 253)
            state = node.get("state", node.get("s"))
            states = [state] if isinstance(state, str) else [item for item in elements(state) if isinstance(item, str)]
            flags = [item for item in elements(node.get("state_flags")) if isinstance(item, str)]
            if name and states:
                state, reason = "+".join([*states, *flags])[:512], text(node.get("reason")) or ""
                host, address, instance = (text(node.get(key), 253) for key in ("hostname", "address", "instance_id"))
                set_by = text(node.get("reason_set_by_user"), 64)
                yield SlurmNode(name, state, reason, set_by, None, None, host, address, instance)


def _of_records(body: str) -> Iterator[SlurmNode]:
    for name, record in blocks(_NODE, body):
        state, reason = _STATE.search(record), _REASON.search(record)
        if state:
            host, address, instances = _HOST.search(record), _ADDRESS.search(record), _INSTANCE.findall(record)
            yield SlurmNode(
                *(name[1], state[1], *_reason_of(reason[1] if reason else ""), None),
                host=host[1] if host else None,
                address=address[1] if address else None,
                instance_id=instances[-1] if instances else None,
            )


def _reason_of(reason: str) -> tuple[str, str | None, str | None]:
    """Return a reason as it was stated, and who stated it and when, which Slurm prints in brackets after it."""
    one_line = _NEXT_FIELD.search(reason) if "[" not in reason else None
    reason = reason[: one_line.start()] if one_line else reason
    bracketed = reason.rfind("]")
    tail = _TAIL.search(reason[max(0, bracketed - 128) : bracketed + 1]) if bracketed >= 0 else None
    value = reason[: reason.rfind("[", 0, bracketed)] if tail else reason
    return value.strip(), tail[1] if tail else None, tail[2] if tail else None


def _of_log(body: str, received_at: datetime | None) -> Iterator[SlurmNode]:
    """Yield the node updates in a slurmctld log, which prints the reason of an update before its state."""
    reasons: dict[str, str] = {}
    for found in _UPDATE.finditer(body):
        iso, month, day, clock = found["own"] or found["iso"], found["month"], found["day"], found["clock"]
        at = iso_time(iso) if iso else yearless_time(month, day, clock, received_at)
        name, state = found["node"] or found["set"], found["state"] or found["value"]
        for one in expand_host_list(found["lost"]) if found["lost"] else ():
            yield SlurmNode(one[:253], "DOWN*", "Not responding", at=at)
        if found["field"] == "reason" or found["set"]:
            reasons[name] = (found["reason"] or found["value"] or "").strip()
        if found["field"] == "state" or found["set"]:
            yield SlurmNode(name, state.strip(), reasons.get(name, ""), at=at)


def _of_piped(body: str) -> Iterator[SlurmNode]:
    first, *lines = body.strip().splitlines()
    heading = [name.strip() for name in first.split("|")]
    for line in lines:
        row: dict[str, str] = {}
        for name, cell in zip(heading, line[:16384].split("|"), strict=False):
            row.setdefault(name, cell.strip())
        yield from _row(row)


def _of_table(body: str) -> Iterator[SlurmNode]:
    heading: list[str] = []
    for line in body.splitlines():
        if _HEADING.match(line):
            heading = line.split()
        elif heading and line.strip():
            # Only the reason has spaces; it is the last column, or the first one of `sinfo -R`.
            split = str.rsplit if heading[0] == "REASON" else str.split
            cells = split(line[:4096].strip(), None, len(heading) - 1)
            names = [name for name in heading if name != "RESERVATION"] if len(cells) < len(heading) else heading
            yield from _row({"STATE": _LISTED_FOR_A_REASON, **dict(zip(names, cells, strict=False))})


def _of_bare_rows(body: str) -> Iterator[SlurmNode]:
    # Nothing is kept: a short line takes many times its length in memory, and its match even more.
    for form in _BARE_ROWS:
        if all(map(form.match, _filled_lines(body))):
            for row in filter(None, map(form.match, _filled_lines(body))):
                cells = row.groupdict()
                reason = (cells.get("reason") or "").strip()
                yield from _row({"NODELIST": cells["name"], "STATE": cells["state"], "REASON": reason})
            return


def _filled_lines(body: str) -> Iterator[str]:
    return (found[0][:4096] for found in _LINE.finditer(body) if found[0].strip())


def _row(row: Mapping[str, Any]) -> Iterator[SlurmNode]:
    name = next((row[item] for item in ("NODELIST", "HOSTNAMES", "NODE_NAME") if row.get(item)), None)
    if name and row.get("STATE"):
        for item in expand_host_list(name):
            yield SlurmNode(
                item[:253], row["STATE"][:256], row.get("REASON", ""), row.get("USER"), row.get("TIMESTAMP")
            )


SOURCE = "slurm-node"
_HEALTHY = frozenset({"ALLOCATED", "IDLE", "MIXED", "COMPLETING", "RESERVED", "PLANNED", "BLOCKED"})
_NOT_RESPONDING, _INVALID = "NOT_RESPONDING", "INVALID_REG"
# The fault of a node that is down, failing or drained, or does not fit its configuration; the first state counts.
_FAULTS = {
    "FAIL": "host.failing",
    "FAILING": "host.failing",
    "DOWN": "host.down",
    "ERROR": "host.down",
    _INVALID: "host.invalid_registration",
    **dict.fromkeys(("DRAIN", "DRAINED", "DRAINING"), "host.drained"),
}
# A larger cluster sends several inputs (`sinfo -N` of one partition at a time).
MAX_NODES = 2048
_FRAMING = re.compile(
    rb"NodeName=|\bNODELIST\b(?!\()|\bHOSTNAMES\b.{0,2048}\bSTATE\b|(?:update|drain)_nodes?: node "
    rb"|slurmctld.{0,64}(?:Setting node \S{1,253} state to|Nodes? \S{1,2048} not responding, setting DOWN)"
)


def decode(body: bytes, hints: Hints) -> Decoded:
    """Return a health snapshot of each node whose state shows that the node is healthy or faulty.

    Left out are nodes with a state that Slurm plans, such as powered down, and with a state that is not known here;
    only the latter count as not understood.

    A listing gives one snapshot of a node, even if several partitions list the node. A log gives one snapshot of a node
    for each time at which the node was updated.
    """
    mapped = mapping("slurm", hints.mappings)
    listed = bounded(slurm_nodes(text_of(body), hints.received_at), MAX_NODES)
    nodes = {(node.name, node.at): node for node in reversed(listed)}
    if not nodes and not (b"PartitionName=" in body or _FRAMING.search(body)):
        raise Rejected("no_framing", "no node of Slurm")
    codes = (*(row["code"] for row in mapped["reasons"] if row["code"]), *_FAULTS.values(), "host.unreachable")
    covers, expected = dict.fromkeys(codes, (NODE_COMPONENT,)), set(mapped["expected_flags"])
    flags = {key: _flags_of(node.state, mapped) for key, node in nodes.items()}
    planned = [key for key in nodes if not expected.isdisjoint(flags[key])]
    judged = [
        key for key in reversed(nodes) if expected.isdisjoint(flags[key]) and flags[key] & (_HEALTHY | _FAULTS.keys())
    ]
    found = tuple(
        Snapshot(SOURCE, covers, tuple(_judged(nodes[key], flags[key], mapped)), nodes[key].at, node=nodes[key].name)
        for key in judged
    )
    # A listing in which each node is in an expected state is understood, although it proves nothing.
    empty = tuple(Snapshot(SOURCE, {}, (), at, node=name) for name, at in planned[-1:])
    return Decoded(found or empty, len(nodes) - len(planned) - len(judged))


def recognize(body: bytes) -> bool:
    """Return whether a body probably lists Slurm nodes, or is a slurmctld log with updates of nodes."""
    in_json = b'"nodes"' in body and b'"slurmd_version"' in body
    lines = body.lstrip()[:6] == b'{"s": ' or (b'"cstate"' in body and b'"p"' in body)
    return in_json or lines or _FRAMING.search(body) is not None


def _flags_of(state: str, mapped: Mapping[str, Any]) -> frozenset[str]:
    """Return the flags of a Slurm state in any notation: `drain*`, `IDLE+DRAIN` or `down~`."""
    found: set[str] = set()
    for flag in re.split(r"[+,]", state.upper()):
        word = flag.strip()
        while word and word[-1] in mapped["suffixes"]:
            found.add(mapped["suffixes"][word[-1]])
            word = word[:-1]
        found.add(mapped["states"].get(word, word))
    return frozenset(found - {""})


def _judged(node: SlurmNode, flags: frozenset[str], mapped: Mapping[str, Any]) -> Iterator[Fault]:
    """Yield the fault of a node, if it has one.

    The reason determines the fault, or that there is none, if the node is down, drained or failing and the mapping
    contains the reason. Otherwise the state determines the fault.
    """
    by_state = next((code for state, code in _FAULTS.items() if state in flags), None)
    is_stated = by_state is not None and node.reason.lower() not in mapped["no_reasons"]
    rows = mapped["reasons"] if is_stated else ()
    row = next((row for row in rows if re.fullmatch(row["pattern"], node.reason[:512])), None)
    if row is not None:
        yield from (_fault(node, row["code"]),) if row["code"] else ()
    elif _NOT_RESPONDING in flags:
        # A working node that misses one ping is a warning only; Slurm marks it down if it stays lost.
        fault = _fault(node, "host.unreachable")
        yield fault if by_state else fault.classified(Severity.WARNING, Action.NONE)
    elif by_state:
        yield _fault(node, by_state)


def _fault(node: SlurmNode, code: str) -> Fault:
    reason = f": {node.reason}" if node.reason else ""
    message = f"Slurm reports the node as {node.state}{reason}."
    raw = f"NodeName={node.name} State={node.state} Reason={node.reason}"
    details = {"state": node.state, "reason": node.reason, "set_by": node.set_by, "since": node.since}
    return fault_of(SOURCE, code, NODE_COMPONENT, message, raw, node.at, node.name, **details)
