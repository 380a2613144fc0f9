"""What a provider says of its groups: whoever is alive in the fleet is a member."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from faultbridge.domain.clusters import ClusterConfig
from faultbridge.registry.instances import Machine, Member
from faultbridge.simulation.fakes.fleet import INSTANCE_TYPE, FakeFleet
from faultbridge.simulation.fakes.seams import Seam

ZONE = "use1-az1"


class FakeInventory:
    """An Inventory (fake): who is alive in the fleet serves, and whoever is not is gone; it counts its calls.

    Groups in `away` are not told of, instances in `standby` do not serve, those in `tagged` are to be left alone.
    """

    def __init__(self, fleet: FakeFleet, *, seam: Seam | None = None) -> None:
        self.fleet = fleet
        self.seam = seam or Seam()
        self.calls = 0
        self.away: set[str] = set()
        self.tagged: set[str] = set()
        self.standby: set[str] = set()

    def look(self, _config: ClusterConfig, groups: Collection[str]) -> Mapping[str, Mapping[str, Member]]:
        """Return the members of each group."""
        self.calls += 1
        with self.seam.around("inventory", "look", tuple(groups)):
            return {
                group: {
                    one.instance_id: Member(one.instance_id, ZONE, one.instance_id not in self.standby)
                    for one in self.fleet.running(group)
                }
                for group in groups
                if group not in self.away
            }

    def describe(self, _config: ClusterConfig, group: str, members: Mapping[str, Member]) -> tuple[Machine, ...]:
        """Describe members of a group; a hundred a call."""
        self.calls += 2 * -(-len(members) // 100)
        with self.seam.around("inventory", "describe", group):
            return tuple(self.machine(group, one) for one in members)

    def machines(self, config: ClusterConfig, group: str) -> tuple[Machine, ...]:
        """Describe every member of a group."""
        return self.describe(config, group, self.look(config, [group])[group])

    def machine(self, group: str, instance: str) -> Machine:
        """Say what the provider says of one instance."""
        launched = self.fleet.instances[instance].launched_at
        domains = {"zone": ZONE, "network_node": f"nn-{instance[-1]}"}
        host = f"ip-{instance[-4:]}"
        return Machine(instance, host, group, INSTANCE_TYPE, domains, (f"{host}.internal",), launched)

    def gone(self, _config: ClusterConfig, instances: Collection[str]) -> frozenset[str]:
        """Return those of these instances that are gone."""
        self.calls += 1
        with self.seam.around("inventory", "gone", tuple(instances)):
            return frozenset(one for one in instances if not self.fleet.instances[one].alive)

    def opted_out(self, _config: ClusterConfig) -> frozenset[str]:
        """Return the instances that a tag keeps out."""
        self.calls += 1
        with self.seam.around("inventory", "opted_out"):
            return frozenset(self.tagged)
