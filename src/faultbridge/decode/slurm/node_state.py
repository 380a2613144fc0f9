"""Decodes `slurm-node`: node states from sinfo, scontrol, their JSON, or the log of slurmctld.

A node that is powered down, booting, in maintenance or waiting for a requested reboot is in an expected state, which is
no fault. A drained node whose reason is not in the mapping `slurm` has a fault that needs no action.

Grammar: a table with a heading (`|` or spaces between columns), `Key=value` records, JSON, or lines of slurmctld's log
(`node_listing`); one row can describe many nodes. Times: those of slurmctld's log, local and taken as UTC; the time of
a reason is an attribute. Units: none. Errors: `Rejected(no_framing)` without a node. Source: Slurm's documentation and
captures.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from faultbridge.decode.data.mapping import mapping
from faultbridge.decode.frames.decoder import Decoded, Hints, attributes_of, bounded, evidence, truncate
from faultbridge.decode.frames.documents import text_of
from faultbridge.decode.slurm.node_listing import SlurmNode, slurm_nodes
from faultbridge.model.errors import Rejected
from faultbridge.model.fault_enums import Action, Severity
from faultbridge.model.faults import NODE_COMPONENT, Component, Fault, Snapshot

SOURCE = "slurm-node"
_HEALTHY = frozenset({"ALLOCATED", "IDLE", "MIXED", "COMPLETING", "RESERVED", "PLANNED", "BLOCKED"})
_NOT_RESPONDING = "NOT_RESPONDING"
_DOWN, _DRAIN, _FAIL = (
    frozenset({"DOWN", "ERROR"}),
    frozenset({"DRAIN", "DRAINED", "DRAINING"}),
    frozenset({"FAIL", "FAILING"}),
)
_INVALID = "INVALID_REG"
_FAULTY = _DOWN | _DRAIN | _FAIL | {_INVALID}
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
    covers, expected = _covers(mapped), set(mapped["expected_flags"])
    flags = {key: flags_of(node.state, mapped) for key, node in nodes.items()}
    planned = [key for key in nodes if not expected.isdisjoint(flags[key])]
    judged = [key for key in reversed(nodes) if expected.isdisjoint(flags[key]) and flags[key] & (_HEALTHY | _FAULTY)]
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


def flags_of(state: str, mapped: Mapping[str, Any]) -> frozenset[str]:
    """Return the flags of a Slurm state in any notation: `drain*`, `IDLE+DRAIN` or `down~`."""
    found: set[str] = set()
    for flag in re.split(r"[+,]", state.upper()):
        word = flag.strip()
        while word and word[-1] in mapped["suffixes"]:
            found.add(mapped["suffixes"][word[-1]])
            word = word[:-1]
        found.add(mapped["states"].get(word, word))
    return frozenset(found - {""})


def _covers(mapped: Mapping[str, Any]) -> Mapping[str, tuple[Component, ...]]:
    codes = (*(row["code"] for row in mapped["reasons"] if row["code"]), "host.down", "host.failing", "host.drained")
    return dict.fromkeys((*codes, "host.unreachable", "host.invalid_registration"), (NODE_COMPONENT,))


def _judged(node: SlurmNode, flags: frozenset[str], mapped: Mapping[str, Any]) -> Iterator[Fault]:
    """Yield the fault of a node, if it has one.

    The reason determines the fault, or that there is none, if the node is down, drained or failing and the mapping
    contains the reason. Otherwise the state determines the fault.
    """
    in_use = not flags & _FAULTY
    row = None if in_use else _row_of(node, mapped)
    if row is not None:
        if row["code"]:
            yield _fault(node, row["code"])
    elif _NOT_RESPONDING in flags:
        # A working node that misses one ping is a warning only; Slurm marks it down if it stays lost.
        yield _fault(node, "host.unreachable", is_transient=in_use)
    elif flags & _FAIL:
        yield _fault(node, "host.failing")
    elif flags & _DOWN:
        yield _fault(node, "host.down")
    elif _INVALID in flags:
        yield _fault(node, "host.invalid_registration")
    elif flags & _DRAIN:
        yield _fault(node, "host.drained")


def _row_of(node: SlurmNode, mapped: Mapping[str, Any]) -> Mapping[str, Any] | None:
    if node.reason.lower() in mapped["no_reasons"]:
        return None
    return next((row for row in mapped["reasons"] if re.fullmatch(row["pattern"], node.reason[:512])), None)


def _fault(node: SlurmNode, code: str, *, is_transient: bool = False) -> Fault:
    reason = f": {node.reason}" if node.reason else ""
    return Fault(
        source=SOURCE,
        code=code,
        component=NODE_COMPONENT,
        message=truncate(f"Slurm reports the node as {node.state}{reason}."),
        observed_at=node.at,
        evidence=evidence(f"NodeName={node.name} State={node.state} Reason={node.reason}"),
        attributes=attributes_of(state=node.state, reason=node.reason, set_by=node.set_by, since=node.since),
        severity=Severity.WARNING if is_transient else None,
        action=Action.NONE if is_transient else None,
        node=node.name,
    )
