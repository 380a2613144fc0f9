"""Decodes `health-check`: what Node Health Check (NHC) and other health-check programs print about a node.

Grammar: `ERROR: nhc: Health check failed: CHECK: TEXT`, `NHC: CHECK: TEXT`, `Node Health Checks failed - NODE - ID -
TEXT`, `Health Check 'NAME' ... failed`; with the source named, also `CRITICAL - TEXT` of a Nagios plugin and `FAIL:
TEXT`. A completed run of NHC is a health snapshot. Times: a time at the start of the line, in UTC. Units: none. Errors:
`Rejected(no_framing)` without a line of a check. Source: NHC 1.4, azurehpc-health-checks, ParallelCluster.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime

from faultbridge.decode.frames.clock import iso_instant
from faultbridge.decode.frames.decoder import Decoder, Hints, attributes_of, evidence, truncate
from faultbridge.decode.frames.documents import text_of
from faultbridge.model.errors import Rejected
from faultbridge.model.fault_enums import ComponentType
from faultbridge.model.faults import NODE_COMPONENT, Component, Fault, Observation, Snapshot

SOURCE = "health-check"
FAILED = "agent.health_check_failed"
_FAILED = re.compile(
    r"^.{0,256}?(?:\bnhc: {1,4}Health check failed: {1,4}|\bNHC: "
    r"|\bNode Health Checks failed - (?P<node>\S{1,253}) - \S{1,64} - )(?P<text>\S.{0,1024})"
    r"|^.{0,256}\bHealth Check '(?P<name>[^'\n]{1,64})'(?P<end>.{0,64}\b(?:fail|exit code '?[1-9]).{0,256})",
    re.MULTILINE,
)
_PASSED = re.compile(r"^.{0,256}?Node Health Check completed successfully", re.MULTILINE)
# A reason of Slurm can start with `NHC: `, so these words alone do not show the source.
_HEADS = re.compile(
    rb"\bnhc: {1,4}Health check failed: |\bHealth Check '\w"
    rb"|^.{0,64}Node Health Check(?:s failed - | completed successfully)",
    re.MULTILINE,
)
# Any program prints such lines, so they count only if the source is named.
_GENERIC = re.compile(r"^\W{0,8}(?:CRITICAL|FAIL(?:ED|URE)?)\b\W{1,8}(?P<text>\w.{0,1024})", re.MULTILINE)
_GENERIC_PASSED = re.compile(r"^\W{0,8}(?:OK|PASS(?:ED)?|SUCCESS|WARNING)\b\W{1,8}\w", re.MULTILINE)
_TIME = re.compile(r"\D{0,4}(\d{4}-?\d\d-?\d\d[T ]\d\d:\d\d:\d\d(?:Z|[+-]\d\d:?\d\d)?)")
_CHECK = re.compile(r"(?:Check )?(\w{1,64})")
# What a check states by itself; the kinds of other failures are known to the site only.
_XID = re.compile(r"\bXid(?: {0,2}[:(]| code| error)? {0,2}(\d{1,3})\b", re.IGNORECASE)
_GPU_COUNT = re.compile(r"gpu_?count|GPU count|number of GPUs", re.IGNORECASE)


def decode(body: bytes, _hints: Hints) -> tuple[Observation, ...]:
    """Return a fault for each failed check, or a health snapshot if the checks passed."""
    text = text_of(body)
    failed = tuple(_FAILED.finditer(text)) or tuple(_GENERIC.finditer(text))
    if failed:
        faults = {(fault.code, fault.message, fault.node): fault for fault in _faults(failed)}
        return tuple(faults.values())
    if _PASSED.search(text) is None and _GENERIC_PASSED.search(text) is None:
        raise Rejected("no_framing", "no line of a health check")
    return (Snapshot(SOURCE, {FAILED: (NODE_COMPONENT,)}, ()),)


def recognize(body: bytes) -> bool:
    """Return whether a body probably has a failed check or a completed run of NHC."""
    return b"ealth " in body and _HEADS.search(body) is not None


def _faults(failed: tuple[re.Match[str], ...]) -> Iterator[Fault]:
    for found in failed:
        groups = found.groupdict()
        stated = (groups["text"] or f"{groups.get('name')}{groups.get('end')}").strip()
        check = _CHECK.match(stated)
        xid = _XID.search(stated)
        count = _GPU_COUNT.search(stated)
        yield Fault(
            source=SOURCE,
            code=f"xid.{int(xid[1])}" if xid else "host.gpu_count_mismatch" if count else FAILED,
            component=Component(ComponentType.GPU) if xid else NODE_COMPONENT,
            message=truncate(f"A health check failed: {stated}"),
            observed_at=_time(found[0]),
            evidence=evidence(found[0].strip()),
            attributes=attributes_of(check=check[1] if check else None),
            node=groups.get("node"),
        )


def _time(line: str) -> datetime | None:
    found = _TIME.match(line)
    return iso_instant(found[1]) if found else None


DECODER = Decoder(
    name=SOURCE,
    summary="output of Node Health Check (NHC) and of health-check scripts: failed checks",
    example="ERROR:  nhc:  Health check failed:  check_hw_ib:  No IB port is ACTIVE (LinkUp 400 Gb/sec).",
    recognize=recognize,
    decode=decode,
    can_be_silent=True,
)
