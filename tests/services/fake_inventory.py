"""An Inventory over the fake fleet, and a Roll that says what a test tells it; both count their calls."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from faultbridge.domain.clusters import ClusterConfig
from faultbridge.services.inventory import Called, Machine, Member
from faultbridge.simulation.fakes import FakeFleet

ZONE = "use1-az1"


class FakeInventory:
    """An Inventory (fake): who is alive in the fleet serves, and whoever is not is gone."""

    def __init__(self, fleet: FakeFleet) -> None:
        self.fleet = fleet
        self.calls = 0
        self.away: set[str] = set()
        self.tagged: set[str] = set()
        self.standby: set[str] = set()

    def look(self, _config: ClusterConfig, groups: Collection[str]) -> Mapping[str, Mapping[str, Member]]:
        self.calls += 1
        return {
            group: {
                one.instance_id: Member(one.instance_id, ZONE, one.instance_id not in self.standby)
                for one in self.fleet.running(group)
            }
            for group in groups
            if group not in self.away
        }

    def describe(self, _config: ClusterConfig, group: str, members: Mapping[str, Member]) -> tuple[Machine, ...]:
        self.calls += 2 * -(-len(members) // 100)
        return tuple(self.machine(group, one) for one in members)

    def machines(self, config: ClusterConfig, group: str) -> tuple[Machine, ...]:
        return self.describe(config, group, self.look(config, [group])[group])

    def machine(self, group: str, instance: str) -> Machine:
        """What the provider says of one instance."""
        launched = self.fleet.instances[instance].launched_at
        domains = {"zone": ZONE, "network_node": f"nn-{instance[-1]}"}
        host = f"ip-{instance[-4:]}"
        return Machine(instance, host, group, "p5.48xlarge", domains, (f"{host}.internal",), launched)

    def gone(self, _config: ClusterConfig, instances: Collection[str]) -> frozenset[str]:
        self.calls += 1
        return frozenset(one for one in instances if not self.fleet.instances[one].alive)

    def opted_out(self, _config: ClusterConfig) -> frozenset[str]:
        self.calls += 1
        return frozenset(self.tagged)


class FakeRoll:
    """A Roll (fake) that says what a test put into it."""

    def __init__(self) -> None:
        self.called: dict[str, Called] = {}

    def call(self, _config: ClusterConfig) -> Mapping[str, Called]:
        return self.called
