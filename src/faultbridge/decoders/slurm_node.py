"""`slurm-node`: nodes as sinfo, scontrol, their JSON or slurmctld's log show them.

Powered down, booting, in maintenance or waiting for an ordered reboot is where a node is meant to be. A person's drain
with words of his own is noted and asks for nothing.

Grammar: a table with a heading, `|` between columns or blanks, `Key=value` records, JSON, or lines of slurmctld's log
(`slurm_text`); a row may stand for many nodes. Times: those of slurmctld's log, local and taken as UTC; a reason's own
time goes along as it is. Units: none. Errors: `Rejected(no_framing)` where no node is there. Source: Slurm's
documentation and captures.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from faultbridge.data.mapping import mapping
from faultbridge.decoders.base import Decoder, Hints, bounded, cut, evidence
from faultbridge.decoders.documents import text_of
from faultbridge.decoders.fields import told
from faultbridge.decoders.slurm_text import SlurmNode, slurm_nodes
from faultbridge.domain.faults import NODE_COMPONENT, Action, Component, Fault, Observation, Severity, Snapshot
from faultbridge.errors import Rejected

SOURCE = "slurm-node"
_WELL = frozenset({"ALLOCATED", "IDLE", "MIXED", "COMPLETING", "RESERVED", "PLANNED", "BLOCKED"})
_LOST = "NOT_RESPONDING"
_DOWN, _DRAIN, _FAIL = (
    frozenset({"DOWN", "ERROR"}),
    frozenset({"DRAIN", "DRAINED", "DRAINING"}),
    frozenset({"FAIL", "FAILING"}),
)
# More rows and names than this are cut into several inputs (`sinfo -N` of a partition at a time).
MAX_NODES = 2048
_FRAMING = re.compile(rb"NodeName=|NODELIST|\bHOSTNAMES\b.{0,2048}\bSTATE\b|update_node: node ")


def decode(body: bytes, hints: Hints) -> tuple[Observation, ...]:
    """Health snapshot each node once, however many partitions list it."""
    known = mapping("slurm", hints.mappings)
    listed = bounded(slurm_nodes(text_of(body)), MAX_NODES)
    nodes = {(node.name, node.at): node for node in reversed(listed)}
    if not nodes and not (b"PartitionName=" in body or _FRAMING.search(body)):
        raise Rejected("no_framing", "no node of Slurm in it")
    covers = _covers(known)
    return tuple(snapshot for node in reversed(nodes.values()) for snapshot in _snapshot(node, known, covers))


def recognize(body: bytes) -> bool:
    """Tell whether it is a table or record of nodes, their JSON, or slurmctld's log of their updates."""
    in_json = b'"nodes"' in body and b'"slurmd_version"' in body
    lines = body.lstrip()[:6] == b'{"s": ' or (b'"cstate"' in body and b'"p"' in body)
    return in_json or lines or _FRAMING.search(body) is not None


def flags_of(state: str, known: Mapping[str, Any]) -> frozenset[str]:
    """Return what a state says, whichever way it is written: `drain*`, `IDLE+DRAIN`, `down~`, a list joined by `+`."""
    found: set[str] = set()
    for written in re.split(r"[+,]", state.upper()):
        word = written.strip()
        while word and word[-1] in known["suffixes"]:
            found.add(known["suffixes"][word[-1]])
            word = word[:-1]
        found.add(known["states"].get(word, word))
    return frozenset(found - {""})


def _covers(known: Mapping[str, Any]) -> Mapping[str, tuple[Component, ...]]:
    codes = (*(row["code"] for row in known["reasons"] if row["code"]), "host.down", "host.failing", "host.drained")
    return dict.fromkeys((*codes, "host.unreachable", "host.invalid_registration"), (NODE_COMPONENT,))


def _snapshot(
    node: SlurmNode, known: Mapping[str, Any], covers: Mapping[str, tuple[Component, ...]]
) -> Iterator[Snapshot]:
    flags = flags_of(node.state, known)
    if flags & set(known["expected_flags"]) or not flags & (_WELL | _DOWN | _DRAIN | _FAIL):
        return
    yield Snapshot(SOURCE, covers, tuple(_judged(node, flags, known)), node.at, node=node.name)


def _judged(node: SlurmNode, flags: frozenset[str], known: Mapping[str, Any]) -> Iterator[Fault]:
    """Yield the one fault of a node: what its reason names, else what its state does."""
    idle = not flags & (_DOWN | _DRAIN | _FAIL)
    row = None if idle else _row_of(node, known)
    if row is not None:
        if row["code"]:
            yield _fault(node, row["code"])
    elif _LOST in flags:
        # A node in work that misses a ping is looked at again before anybody calls it lost.
        yield _fault(node, "host.unreachable", watched=not flags & _DOWN and not flags & _DRAIN)
    elif flags & _FAIL:
        yield _fault(node, "host.failing")
    elif flags & _DOWN:
        yield _fault(node, "host.down")
    elif "INVALID_REG" in flags:
        yield _fault(node, "host.invalid_registration")
    elif flags & _DRAIN:
        yield _fault(node, "host.drained")


def _row_of(node: SlurmNode, known: Mapping[str, Any]) -> Mapping[str, Any] | None:
    if node.reason.lower() in known["no_reasons"]:
        return None
    return next((row for row in known["reasons"] if re.fullmatch(row["pattern"], node.reason[:512])), None)


def _fault(node: SlurmNode, code: str, *, watched: bool = False) -> Fault:
    said = f": {node.reason}" if node.reason else ""
    return Fault(
        source=SOURCE,
        code=code,
        component=NODE_COMPONENT,
        message=cut(f"Slurm has the node as {node.state}{said}."),
        observed_at=node.at,
        evidence=evidence(f"NodeName={node.name} State={node.state} Reason={node.reason}"),
        attributes=told(state=node.state, reason=node.reason, set_by=node.set_by, since=node.since),
        severity=Severity.WARNING if watched else None,
        action=Action.NONE if watched else None,
        node=node.name,
    )


DECODER = Decoder(
    name=SOURCE,
    summary="sinfo -N -l, sinfo -o with `|`, scontrol show node, their --json, slurmctld's log",
    example="NodeName=ip-10-0-0-7 State=DOWN+NOT_RESPONDING Reason=Not responding [slurm@2026-02-03T04:05:06]",
    recognize=recognize,
    decode=decode,
)
