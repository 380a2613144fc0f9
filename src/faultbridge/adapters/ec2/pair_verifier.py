"""Verify an instance with the deep verification, and then together with a healthy peer.

One SSM command runs the tests on the instance and the peer. SSM lists commands for 30 days, and this list shows which
peers a verification has used.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import timedelta

from botocore.exceptions import ClientError
from msgspec import Struct

from faultbridge.adapters.aws.clients import Clients
from faultbridge.adapters.aws.errors import code_of, is_outage, is_throttle, message_of, translated
from faultbridge.adapters.ec2 import commands as ssm_commands
from faultbridge.adapters.ec2.commands import UNFINISHED
from faultbridge.adapters.ec2.instances import InstanceHardware, hardware_in, hardware_of, live_instances
from faultbridge.adapters.ec2.launch import STACK_TAG
from faultbridge.decode.verification import DeepResult, PeerChecks, occupants
from faultbridge.model.errors import Conflict, Transient
from faultbridge.model.log import log_cause
from faultbridge.model.storage import items, keys
from faultbridge.model.storage.writes import Absent, AnyOf, Below, Delete, Equals, Item, Put
from faultbridge.model.times import from_text, to_milliseconds, to_text
from faultbridge.model.values import replace
from faultbridge.record.ports.compute import Verdict, Verification, Verifier
from faultbridge.record.ports.table import Clock, Table
from faultbridge.repair.registry.verification import VerificationPeers

PEER_TAG = "faultbridge:peer"
"""The tag of an instance that runs no work and serves as a peer; its value is the name of the cluster."""


class Peer(Struct, frozen=True):
    """An instance for tests with the instance under verification: its id and private address."""

    instance_id: str
    address: str


class Ec2Peers(Struct, frozen=True):
    """Finds idle peers of the same cluster, instance type, EFA interfaces, zone and VPC.

    IAM permits commands only to instances whose tag `faultbridge:stack` has the value `stack`.
    """

    clients: Clients
    known: VerificationPeers
    stack: str

    def of(self, instance_id: str, hardware: InstanceHardware) -> tuple[Peer, ...]:
        """Return first the verified spares, then the tagged instances, each sorted by id."""
        cluster = self.known.cluster_of(instance_id)
        if cluster is None or hardware.instance_type is None:
            return ()
        spares = {spare: hardware_of(self.clients, spare) for spare in sorted(self.known.ready_spares(cluster))}
        found = spares | dict(self._tagged(cluster, hardware))
        return tuple(
            Peer(peer, one.address)
            for peer, one in found.items()
            if peer != instance_id and one.address and replace(one, address=hardware.address) == hardware
        )

    def _tagged(self, cluster: str, hardware: InstanceHardware) -> list[tuple[str, InstanceHardware]]:
        tags = {f"tag:{PEER_TAG}": cluster, f"tag:{STACK_TAG}": self.stack}
        filters = {**tags, "instance-type": hardware.instance_type or ""}
        with translated(f"listing the peers of {cluster}"):
            found = {one["InstanceId"]: one for one in live_instances(self.clients, filters)}
        running = (one for one in sorted(found) if found[one]["State"]["Name"] == "running")
        return [(one, hardware_in(found[one])) for one in running if self.known.is_free(one)]


LEASE = timedelta(minutes=30)
"""Duration of a lease. A command to two instances takes at most ten minutes for delivery plus its time limit."""


class PeerLeases(Struct, frozen=True):
    """Leases of peers, so that one verification at a time uses a peer; a lease expires after 30 minutes."""

    table: Table
    clock: Clock

    def take(self, instance_id: str, operation: str) -> bool:
        """Take the lease for a verification; returns False if any verification has it, even this one."""
        now = self.clock.now()
        until = now + LEASE
        attributes: Item = {"holder": operation, "until": to_text(until), "expires_at": to_milliseconds(until) // 1000}
        free = AnyOf((Absent(), Below("until", to_text(now))))
        try:
            self.table.write(Put(items.item(keys.peer_lease(instance_id), now, attributes), when=free))
        except Conflict:
            return False
        return True

    def holder(self, instance_id: str) -> str | None:
        """Return the operation id of the verification that has the lease of an instance now, or None."""
        found = self.table.get(keys.peer_lease(instance_id))
        live = found is not None and from_text(str(found["until"])) >= self.clock.now()
        return str(found["holder"]) if found is not None and live else None

    def release(self, instance_id: str, operation: str) -> None:
        """End the lease of an instance, unless another verification has it."""
        try:
            self.table.write(Delete(keys.peer_lease(instance_id), when=Equals("holder", operation)))
        except Conflict:
            return


DEEP_LEVEL = 4
PAIR_LEVEL = 5
"""At level 5, an instance cannot pass without a test with a peer. At level 4, an instance can pass without one."""

MAX_PEERS = 4
"""Maximum number of peers with which one instance is tested."""


class _Round(Struct, frozen=True):
    """One round of tests: the instance id of the peer, and the id of the SSM command to both instances."""

    peer: str
    command: str


class SsmPairVerifier:
    """A Verifier that runs the deep verification and, if it passed at level 4 or 5, tests with a peer."""

    def __init__(
        self, clients: Clients, *, deep: Verifier, level: int, tests: PeerChecks, peers: Ec2Peers, leases: PeerLeases
    ) -> None:
        self._clients, self._deep, self._level = clients, deep, level
        self._tests, self._peers, self._leases = tests, peers, leases

    def start(self, instance_id: str, token: str, level: int | None = None, *, prove_idle: bool = False) -> str:
        """Start the deep verification once per token; raises Transient while the instance is a peer."""
        if self._leases.holder(instance_id) is not None:
            raise Transient(f"{instance_id} is still the peer of another verification")
        return self._deep.start(instance_id, token, level, prove_idle=prove_idle)

    def status(self, instance_id: str, operation: str, level: int | None = None) -> Verification:
        """Return the status of the deep verification and, if it passed at level 4 or 5, of tests with peers.

        The tests run with one peer after another, at most four, until `PeerChecks.decide` has a decision. If no other
        peer is left after failed tests with one peer, the result is `unknown`, because either instance may be faulty.
        If no tests failed, the instance passes at level 4, and the result is `unknown` at level 5.
        """
        found, asked = self._deep.status(instance_id, operation, level), level or self._level
        if found.verdict is not Verdict.PASSED or asked < DEEP_LEVEL:
            return found
        with translated(f"verifying {instance_id} with a peer"):
            return self._with_peers(instance_id, operation, found, asked)

    def processes(self, instance_id: str, token: str) -> Verification:
        """Return whether a process uses the GPUs of the instance."""
        return self._deep.processes(instance_id, token)

    def _with_peers(self, instance_id: str, operation: str, deep: Verification, level: int) -> Verification:
        hardware = hardware_of(self._clients, instance_id)
        results: list[tuple[str, bool | None, str]] = []
        for one in self._rounds(instance_id, operation):
            result = self._result(one, instance_id, hardware, level)
            if result is None:
                return Verification(Verdict.PENDING)
            self._leases.release(one.peer, operation)
            results.append((one.peer, result.passed, result.line))
        decision = self._tests.decide(results)
        if decision.passed is not None:
            verdict = Verdict.PASSED if decision.passed else Verdict.FAILED
            return replace(deep, verdict=verdict, findings=(*deep.findings, *decision.lines), level=level)
        tried = {peer for peer, *_ in results}
        refused: list[str] = []
        if len(tried) < MAX_PEERS and self._begin(instance_id, operation, hardware, tried, refused):
            return Verification(Verdict.PENDING)
        reason = _why_no_peer(hardware, len(tried), refused)
        if decision.failures:
            lines = (*decision.lines, f"one failure blames neither instance; {reason}")
            return replace(deep, verdict=Verdict.UNKNOWN, findings=lines)
        lines = (*decision.lines, f"not verified with a peer: {reason}")
        if level >= PAIR_LEVEL:
            return replace(deep, verdict=Verdict.UNKNOWN, findings=lines)
        return replace(deep, findings=(*deep.findings, *lines))

    def _rounds(self, instance_id: str, operation: str) -> list[_Round]:
        prefix, commands = _comment(operation, ""), dict[str, str]()
        for command, comment in ssm_commands.sent(self._clients.ssm, instance_id, prefix):
            commands.setdefault(comment.removeprefix(prefix), command)
        return [_Round(peer, command) for peer, command in commands.items()]

    def _result(self, one: _Round, instance_id: str, hardware: InstanceHardware, level: int) -> DeepResult | None:
        answers = [ssm_commands.invocation(self._clients.ssm, each, one.command) for each in (instance_id, one.peer)]
        if any(answer is None or ssm_commands.is_running(answer) for answer in answers):
            return None
        details = [ssm_commands.details_of(answer) if answer else "" for answer in answers]
        if details[0] in UNFINISHED:
            return self._tests.unanswered(f"the command ended as {details[0]}")
        if details[1] in UNFINISHED:
            return self._tests.unanswered(f"the command ended as {details[1]} on the peer")
        output, of_peer = (str((one or {}).get("StandardOutputContent", "")).encode() for one in answers)
        if occupants(of_peer):
            return self._tests.unanswered("other processes use the GPUs of the peer")
        return self._tests.read(output, level, hardware.instance_type, hardware.efa_interfaces)

    def _begin(
        self, instance_id: str, operation: str, hardware: InstanceHardware, tried: set[str], refused: list[str]
    ) -> bool:
        """Start the tests with a peer that is not in `tried`; returns False if no such peer can be used.

        True also means that an earlier call may have started them, or that a peer is busy: the caller must call again.
        Peers to which SSM refuses the command are added to `refused`, with the error.
        """
        peers = [peer for peer in self._peers.of(instance_id, hardware) if peer.instance_id not in tried]
        holders = [self._leases.holder(peer.instance_id) for peer in peers]
        if operation in holders:
            return True  # A command was sent a moment ago and SSM does not list it yet, or the caller crashed before.
        busy = False
        for peer, holder in zip(peers, holders, strict=True):
            if holder is not None or not self._leases.take(peer.instance_id, operation):
                busy = True
            elif (error := self._send(instance_id, operation, peer)) is None:
                return True
            else:
                refused.append(f"{peer.instance_id} ({code_of(error)})")
        return busy

    def _send(self, instance_id: str, operation: str, peer: Peer) -> ClientError | None:
        """Send the command to both instances; returns the error if SSM refused the command, else None.

        Throttling and an outage are raised: they show nothing about the peer. After an outage the lease of the peer
        stays, because the command may have been sent.
        """
        script, token = self._tests.script(peer.address), _comment(operation, peer.instance_id)
        seconds = self._tests.seconds + 60
        try:
            ssm_commands.send(
                self._clients.ssm_no_retry, instance_id, token, script, seconds=seconds, others=(peer.instance_id,)
            )
        except ClientError as error:
            if is_outage(error):
                raise
            self._leases.release(peer.instance_id, operation)
            if is_throttle(error):
                raise  # It says nothing about the peer.
            reason = f"{code_of(error)}: {message_of(error)}"
            log_cause(
                "peer_refused", reason=reason, level=logging.WARNING, instance_id=instance_id, peer=peer.instance_id
            )
            return error
        return None


def _why_no_peer(hardware: InstanceHardware, tried: int, refused: Sequence[str]) -> str:
    if tried >= MAX_PEERS:
        return f"{tried} peers were used, the most for one verification"
    other = "other " if tried else ""
    kind = f"{hardware.instance_type} with {hardware.efa_interfaces} EFA interfaces"
    if refused:
        return f"no {other}peer: SSM refused the command with {', '.join(refused[:MAX_PEERS])}, {kind}"
    tags = f"{PEER_TAG} and {STACK_TAG}"
    return f"no {other}peer: no verified spare and no instance with the tags {tags} is free, {kind}"


def _comment(operation: str, peer: str) -> str:
    return f"{operation} pair {peer}"
