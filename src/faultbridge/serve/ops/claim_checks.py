"""Checks claims beside running work: by what the kernel log of the instance and `nvidia-smi` show.

A claim is a fault that only senders report that did not prove to be the node. While work runs, no diagnostics start
for it, so it would wait until its work or its time ends. Each sweep therefore reads a few instances with such claims.
A fault that was read proves the claim, and its repair continues. What was read, and shows no fault, refutes it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

from msgspec import Struct, field

from faultbridge.decide.case_moves import Rules
from faultbridge.decide.fold.changes import Arrival
from faultbridge.decide.fold.claims import is_unproven
from faultbridge.decide.governing_rules import rests_on_claims
from faultbridge.decide.normalize.mask_secrets import mask
from faultbridge.decide.observe import observe
from faultbridge.decode.registry import decode
from faultbridge.model.catalog import Catalog
from faultbridge.model.cluster.config import Mode
from faultbridge.model.conditions import Condition
from faultbridge.model.entries import Transition
from faultbridge.model.enums import Actor, CaseStatus, WaitingFor
from faultbridge.model.errors import FaultbridgeError, Rejected, Transient
from faultbridge.model.faults import Observation, Snapshot, faults_of
from faultbridge.model.isolation import in_service
from faultbridge.model.log import log_cause
from faultbridge.model.nodes import NodeState
from faultbridge.model.times import to_text
from faultbridge.record.ports.compute import HostOutput
from faultbridge.record.queries import queued_cases
from faultbridge.record.rulebook import rules_of
from faultbridge.repair.attempt.step_context import StepTools

MAX_CHECKED = 5
"""Maximum nodes of a cluster whose claims one sweep checks."""

LOOK_BACK = timedelta(hours=1)
"""How long before the first report of a claim its fault can have happened."""

MAX_CLOCK_ERROR = timedelta(minutes=5)
"""With a larger error of its clock, an instance shows nothing about the time of a fault."""

SOURCE = "claim-check"
KERNEL_CODES = ("xid.", "sxid.")
"""Codes of faults that the driver always writes to the kernel log."""

_WAITS = frozenset({WaitingFor.IDLE, WaitingFor.ISOLATION_BUDGET, WaitingFor.BREAKER})


class ClaimChecks(Struct, frozen=True):
    """Checks each claim about a node in service once, while its case waits. A failed check changes nothing.

    `_checked` are the tokens of the commands whose output this process has applied. Another process may apply the
    output again, which then changes nothing.
    """

    tools: StepTools
    _checked: set[str] = field(default_factory=set)

    def check(self, cluster: str) -> None:
        """Check the claims of a few nodes of a cluster that Faultbridge repairs."""
        rules = rules_of(self.tools.rulebook, cluster)
        if not rules.config.repairs or rules.config.mode is not Mode.ACT:
            return
        waiting = [one.key for one in queued_cases(self.tools.table, rules.config) if one.waiting_for in _WAITS]
        found = ((state, _token(state)) for state in (self.tools.append.read_many(waiting) if waiting else ()))
        due = [(state, token) for state, token in found if token and token not in self._checked]
        for state, token in due[:MAX_CHECKED]:
            try:
                self._check(state, token, rules)
            except FaultbridgeError as error:
                log_cause("claim_not_checked", reason=str(error), cluster=cluster, node=state.key.node)
                if not isinstance(error, Transient):
                    self._checked.add(token)

    def _check(self, read: NodeState, token: str, rules: Rules) -> None:
        instance = read.instance_id
        output = self.tools.compute(rules.config).collector.read(instance, token) if instance else HostOutput()
        if output is None:
            return
        catalog = self.tools.rulebook.catalog()

        def revise(state: NodeState, now: datetime) -> Transition:
            if state.incarnation != read.incarnation or output.at is None:
                return Transition(state)
            arrivals = tuple(_evidence(output, output.at, _claims(state), catalog, token))
            observed = observe(state, arrivals, rules=rules, catalog=catalog, now=now)
            return Transition(observed.state, observed.drafts)

        self.tools.append(read.key, revise, actor=Actor.SWEEP)
        self._checked.add(token)


def _claims(state: NodeState) -> list[Condition]:
    return [condition for condition in state.active() if is_unproven(state, condition)]


def _token(state: NodeState) -> str | None:
    """Return the token of the command that checks the node's claims now, or None if there is nothing to check."""
    case, claims = state.live_case, _claims(state)
    waits = case is not None and case.status is CaseStatus.QUEUED and case.waiting_for in _WAITS
    if case is None or not waits or not claims or not in_service(state) or not rests_on_claims(state, case):
        return None
    names = sorted(f"{one.mode} {one.component} {to_text(one.since)}" for one in claims)
    checked = repr((names, state.incarnation)).encode()
    return f"{case.id} check {hashlib.sha256(checked).hexdigest()[:16]}"


def _evidence(
    output: HostOutput, at: datetime, claims: Sequence[Condition], catalog: Catalog, token: str
) -> Iterator[Arrival]:
    """Yield what an output shows about claims: each fault with a claimed mode, and a snapshot of all other codes.

    A fault of the kernel proves a claim if it happened at most an hour before it. The snapshot covers

    - what `nvidia-smi` checked, on the components that it checked,
    - codes of Xid and SXid, if the kernel log reaches back to an hour before the claim.

    If one of the two cannot be read, or shows the mode at any time on any component, no claim of the mode is refuted.
    """
    oldest = {one.mode: one.since - LOOK_BACK for one in sorted(claims, key=lambda one: one.since, reverse=True)}
    log, smi = _decoded("kernel-log", output.kernel_log), _decoded("nvidia-smi-xml", output.nvidia_smi)
    snapshots = [one for one in smi if isinstance(one, Snapshot)]
    if any(abs((one.observed_at or at) - at) > MAX_CLOCK_ERROR for one in snapshots):
        return
    shown = set[str]()
    for fault in (fault for one in (*log, *smi) for fault in faults_of(one)):
        mode, seen = catalog.row_of(fault).mode, min(fault.observed_at or at, at)
        shown |= {mode, catalog.row(fault.code).mode}
        if mode in oldest and seen >= oldest[mode]:
            yield Arrival(fault, seen, token)
    if output.log_from is None or not snapshots:
        return
    covers = {code: on for one in snapshots for code, on in one.covers.items()}
    for claim in claims:
        if output.log_from <= oldest[claim.mode]:
            logged = (code for code in claim.codes if code.startswith(KERNEL_CODES))
            covers |= {code: (*covers.get(code, ()), claim.component) for code in logged}
    if refuted := {code: on for code, on in covers.items() if catalog.row(code).mode in oldest.keys() - shown}:
        yield Arrival(Snapshot(SOURCE, refuted, devices=snapshots[0].devices), at, token)


def _decoded(source: str, body: bytes) -> tuple[Observation, ...]:
    """Return the observations in what was read; empty if it was not read, or has another form."""
    try:
        return decode(source, mask(body)) if body else ()
    except Rejected as error:
        log_cause("claim_check_unreadable", reason=str(error), source=source)
        return ()
