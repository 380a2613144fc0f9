"""Find peers for the verification of an instance: verified spares and tagged instances.

An operator adds the tag `faultbridge:peer` to instances that may serve as peers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from faultbridge.adapters.aws.clients import Clients
from faultbridge.adapters.aws.errors import translated
from faultbridge.adapters.compute.ec2_fleet import STACK_TAG
from faultbridge.adapters.compute.instances import InstanceHardware, hardware_in, hardware_of, live_instances
from faultbridge.dataclass import dataclass
from faultbridge.registry.verification.peers import VerificationPeers

PEER_TAG = "faultbridge:peer"
"""The tag of an instance that runs no work and serves as a peer; its value is the name of the cluster."""


@dataclass(frozen=True, slots=True)
class Peer:
    """An instance for tests with the instance under verification: its id and private address."""

    instance_id: str
    address: str


@dataclass(frozen=True, slots=True)
class Ec2Peers:
    """Finds the peers of an instance. A peer runs no work.

    A peer has the same cluster, instance type, number of EFA interfaces, zone and VPC as the instance. `known` reads
    from the table which cluster an instance belongs to, which spares are verified, and whether an instance runs work.
    `stack` is the value of the tag `faultbridge:stack` of each peer. IAM permits commands only to instances with this
    value.
    """

    clients: Clients
    known: VerificationPeers
    stack: str

    def of(self, instance_id: str, hardware: InstanceHardware) -> tuple[Peer, ...]:
        """Return the peers of an instance: first the verified spares, then the tagged instances.

        The spares are sorted by instance id, and so are the tagged instances. The result is empty if the cluster or the
        type of the instance is unknown.
        """
        cluster = self.known.cluster_of(instance_id)
        if cluster is None or hardware.instance_type is None:
            return ()
        found = dict([*self._spares(cluster), *self._tagged(cluster, hardware)])
        return tuple(
            Peer(peer, one.address)
            for peer, one in found.items()
            if peer != instance_id and one.address and replace(one, address=hardware.address) == hardware
        )

    def _spares(self, cluster: str) -> Iterator[tuple[str, InstanceHardware]]:
        return ((spare, hardware_of(self.clients, spare)) for spare in sorted(self.known.ready_spares(cluster)))

    def _tagged(self, cluster: str, hardware: InstanceHardware) -> list[tuple[str, InstanceHardware]]:
        tags = {f"tag:{PEER_TAG}": cluster, f"tag:{STACK_TAG}": self.stack}
        filters = {**tags, "instance-type": hardware.instance_type or ""}
        with translated(f"listing the peers of {cluster}"):
            found = {one["InstanceId"]: one for one in live_instances(self.clients, filters)}
        running = (one for one in sorted(found) if found[one]["State"]["Name"] == "running")
        return [(one, hardware_in(found[one])) for one in running if self.known.is_free(one)]
