"""Decodes `neuron-monitor`: memory errors of AWS Neuron devices in the reports of neuron-monitor.

Grammar: one JSON report per line; `system_data.neuron_hw_counters.neuron_devices` lists `mem_ecc_uncorrected` and
`sram_ecc_uncorrected` of each device. Times: none. Units: events since the driver was loaded. Errors:
`Rejected(wrong_shape)` without these counters. Source: AWS Neuron's documentation of neuron-monitor.
"""

from __future__ import annotations

from faultbridge.decode.frames.decoder import Hints, bounded, evidence, members, number, objects_in
from faultbridge.decode.frames.documents import objects, text_of
from faultbridge.model.errors import Rejected
from faultbridge.model.faults import NODE_COMPONENT, Fault, Observation, Snapshot

SOURCE = "neuron-monitor"
MEMORY = "agent.neuron_memory_error"
_UNCORRECTED = ("mem_ecc_uncorrected", "sram_ecc_uncorrected")
_MAX_REPORTS = 100_000


def decode(body: bytes, _hints: Hints) -> tuple[Observation, ...]:
    """Return a health snapshot of the Neuron devices in the last report that lists hardware counters.

    A snapshot without errors ends an earlier fault only if the report has both counters of every device.
    """
    devices = None
    for _, report in bounded(objects(text_of(body)), _MAX_REPORTS):
        counters = members(members(report.get("system_data")).get("neuron_hw_counters"))
        devices = objects_in(counters.get("neuron_devices")) or devices
    counts = [
        (f"device {number(device.get('neuron_device_index'))}: {name}", number(device.get(name)))
        for device in bounded(devices or ())
        for name in _UNCORRECTED
    ]
    if all(count is None for _, count in counts):
        raise Rejected("wrong_shape", "no error counter of a device in `neuron_hw_counters`")
    errors = [f"{name} {count}" for name, count in counts if count]
    shown = ", ".join(errors)
    present = (Fault(SOURCE, MEMORY, NODE_COMPONENT, f"Neuron {shown}"[:500], None, evidence(shown)),) if errors else ()
    # A device without a counter may have errors, so the report does not end an earlier fault.
    covers = {MEMORY: (NODE_COMPONENT,)} if errors or all(count is not None for _, count in counts) else {}
    return (Snapshot(SOURCE, covers, present),)
