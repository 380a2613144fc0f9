"""Rates of EFA devices: one below the rate of its instance type is slow, but a fixed rate of the driver is no proof."""

from __future__ import annotations

import pytest

from faultbridge.decode import registry
from faultbridge.decode.data import efa_rates_by_instance_type
from faultbridge.decode.data.counters import EFA_RATES
from faultbridge.decode.frames.decoder import Hints
from faultbridge.model.fault_enums import ComponentType
from faultbridge.model.faults import Component, Snapshot

BELOW = "net.rate_below_expected"


def sysfs(*rates: int) -> str:
    lines = []
    for n, rate in enumerate(rates):
        root = f"/sys/class/infiniband/rdmap{n}s27/ports/1"
        lines += [f"{root}/state: 4: ACTIVE", f"{root}/phys_state: 5: LinkUp", f"{root}/rate: {rate} Gb/sec (4X HDR)"]
    return "\n".join(lines) + "\n"


def ibstat(*rates: int) -> str:
    return "".join(
        f"CA 'rdmap{n}s27'\n\tCA type: \n\tPort 1:\n\t\tState: Active\n\t\tPhysical state: LinkUp\n\t\tRate: {rate}\n"
        for n, rate in enumerate(rates)
    )


def snapshot(body: str, hints: Hints) -> Snapshot:
    source = registry.recognize(body.encode())
    (found,) = (one for one in registry.decode(source, body.encode(), hints) if isinstance(one, Snapshot))
    return found


def slow(body: str, instance_type: str | None, **mappings: object) -> list[str]:
    hints = Hints(instance_type=instance_type, mappings=mappings)  # type: ignore[arg-type]
    return [f"{one.component.name} {one.code}" for one in snapshot(body, hints).present]


@pytest.mark.parametrize("printed", [sysfs, ibstat])
@pytest.mark.parametrize(
    ("instance_type", "rates", "devices"),
    [
        ("p5en.48xlarge", (200, 50, 200), [1]),
        ("ml.p5en.48xlarge", (200, 50, 200), [1]),
        ("p5en.48xlarge", (200, 200), []),
        ("p5en.48xlarge", (400,), []),
        ("p5.48xlarge", (100, 60), [1]),
        ("p5.48xlarge", (100, 100), []),
        ("p6-b300.48xlarge", (200, 400), [0]),
        ("m7i.48xlarge", (50,), []),
        (None, (50,), []),
    ],
)
def test_a_device_below_the_rate_of_its_instance_type_is_slow(printed, instance_type, rates, devices):
    assert slow(printed(*rates), instance_type) == [f"rdmap{n}s27 {BELOW}" for n in devices]


def test_the_fixed_rate_of_older_drivers_proves_nothing_about_a_faster_device():
    found = snapshot(sysfs(100, 100), Hints(instance_type="p5en.48xlarge"))
    assert (found.present, BELOW in found.covers) == ((), False)


def test_a_device_with_the_expected_rate_ends_its_fault():
    found = snapshot(sysfs(200, 100), Hints(instance_type="p5en.48xlarge"))
    assert found.covers[BELOW] == (Component(ComponentType.NIC, name="rdmap0s27"),)


def test_the_fault_states_both_rates_and_the_instance_type():
    (fault,) = snapshot(sysfs(50), Hints(instance_type="p5en.48xlarge")).present
    assert fault.attributes == {"rate": "50", "expected": "200", "instance_type": "p5en.48xlarge"}
    assert fault.message == "rdmap0s27 has a rate of 50 Gb/s; each EFA device of p5en.48xlarge has 200 Gb/s."


def test_a_customer_can_replace_add_and_remove_rates():
    own = {EFA_RATES: {"p5en.48xlarge": None, "p6-b200.48xlarge": 400}}
    assert slow(sysfs(50), "p5en.48xlarge", **own) == []
    assert slow(sysfs(200), "p6-b200.48xlarge", **own) == [f"rdmap0s27 {BELOW}"]
    assert slow(sysfs(50), "p5.48xlarge", **own) == [f"rdmap0s27 {BELOW}"]


def test_a_port_of_another_vendor_has_no_expected_rate():
    assert slow(sysfs(50).replace("rdmap0s27", "mlx5_0"), "p5en.48xlarge") == []


def test_every_packaged_rate_is_one_that_the_driver_can_report():
    """Linux's `efa_link_gbps_to_speed_and_width` rounds down to few rates; the highest was 400 Gb/s before 2026."""
    assert set(efa_rates_by_instance_type().values()) <= {100, 200, 400}
