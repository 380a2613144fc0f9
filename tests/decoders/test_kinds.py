"""Inputs that operators paste: each is recognized as its source and contains exactly the faults of `kinds.yaml`."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from faultbridge.decide.fold.fold import fold
from faultbridge.decode import registry
from faultbridge.decode.data import load_catalog
from faultbridge.decode.frames.decoder import Hints
from faultbridge.model.conditions import component_key
from faultbridge.model.errors import Rejected
from faultbridge.model.fault_enums import Action, Severity
from faultbridge.model.faults import CounterSample, Fault
from faultbridge.model.policy import Limits
from tests.builders import arrival, node
from tests.decoders.captures import faults_and_clears
from tests.loops import for_each

KINDS = yaml.safe_load((Path(__file__).parent / "kinds.yaml").read_text(encoding="utf-8"))


def described(source: str, text: bytes, hints: Hints) -> list[str]:
    """Return each fault and each sample as a line of `kinds.yaml`."""
    found = registry.read(source, text, hints)
    lines = [] if not found.unparsed else [f"{found.unparsed} not understood"]
    for one in faults_and_clears(found.observations):
        node = f" {one.node}" if one.node else ""
        if isinstance(one, Fault):
            stated = f" {one.severity} {one.action}" if one.severity or one.action else ""
            lines.append(f"{one.code} {component_key(one.component)}{stated}{node}")
        else:
            lines.append(f"clear {one.code} {component_key(one.component)}{node}")
    for sample in found.observations:
        if isinstance(sample, CounterSample):
            values = " ".join(f"{name}={value}" for name, value in sorted(sample.values.items()))
            lines.append(f"{component_key(sample.component)} {values}")
    return sorted(lines)


@for_each("kind", KINDS, ids=lambda kind: kind["name"])
def test_an_input_of_each_kind_contains_exactly_its_faults(kind: dict[str, Any]) -> None:
    body = kind["text"].encode()
    hints = Hints(**kind.get("hints", {}))
    if "rejected" in kind:
        with pytest.raises(Rejected) as refused:
            registry.read(registry.recognize(body), body, hints)
        assert refused.value.reason == kind["rejected"]
        return
    if not kind.get("named"):
        assert registry.recognize(body) == kind["source"]
    assert described(kind["source"], body, hints) == sorted(kind["faults"])


def test_each_public_input_is_read_as_its_index_expects(shared: Path) -> None:
    folder = shared / "repro" / "decode"
    if not (folder / "INDEX.json").is_file():
        pytest.skip("no public inputs in ../shared")
    listed = json.loads((folder / "INDEX.json").read_text(encoding="utf-8"))
    wrong = []
    for name, row in listed.items():
        found = outcome(row["source"], (folder / name).read_bytes())
        accepted = ACCEPTED.get(name.partition("-")[0])
        wrong += [(name, found, accepted)] if accepted is not None and found != accepted else []
    assert wrong == []


FABRIC = """index, pci.bus_id, fabric.state, fabric.status
0, 00000000:53:00.0, {0}, N/A
1, 00000000:64:00.0, Completed, Success
"""


def test_a_gpu_that_stays_outside_the_fabric_becomes_an_error() -> None:
    noon = datetime(2026, 2, 3, 12, tzinfo=UTC)
    state, severities = node(), []
    for minute, joined in ((0, "Not Started"), (10, "In Progress"), (20, "In Progress"), (30, "Completed")):
        (one,) = registry.decode("nvidia-smi-query-csv", FABRIC.format(joined).encode())
        arrivals = [arrival(one, noon + timedelta(minutes=minute), f"r-{minute}")]
        state = fold(state, arrivals, now=arrivals[0].at, catalog=load_catalog(), limits=Limits()).state
        severities.append(
            [(one.code, one.as_reported.severity, one.as_reported.action) for one in state.conditions.values()]
        )
    young = ("smi.fabric_not_ready", Severity.WARNING, Action.NONE)
    assert severities == [[young], [young], [("smi.fabric_not_ready", Severity.ERROR, Action.REBOOT_NODE)], []]


def outcome(source: str, body: bytes) -> list[str]:
    try:
        return described(registry.recognize(body) if source == "auto" else source, body, Hints())
    except Rejected as refused:
        return [refused.reason]


# What each public input gives, by the number at the start of its name.
ACCEPTED = {
    "01": ["smi.nvlink_inactive gpu/uuid=GPU-00000000-0000-0000-0000-000000000002 error reset_gpu"],
    "02": [
        "smi.recovery_action gpu/uuid=GPU-00000000-0000-0000-0000-000000000003 fatal reset_gpu",
        "smi.row_remap_failure gpu/uuid=GPU-00000000-0000-0000-0000-000000000003",
    ],
    "04": ["smi.recovery_action gpu/index=1 fatal reset_gpu"],
    "05": ["xid.79 gpu/name=GPU5 n-7"],
    "08": [f"host.unreachable node gpu-02{number}" for number in range(3)],
    "10": ["host.gpu_count_mismatch node gpu-7"],
    "11": ["xid.71 gpu/any", "xid.79 gpu/any"],
    "12": ["xid.79 gpu/index=2"],
    "13": ["agent.notice node n-7"],
    "14": ["xid.79 gpu/pci=0000:b3:00 n-9"],
    "15": [],
    "16": ["smi.fabric_not_ready gpu/pci=0008:01:00 warning none"],
    "18": ["dcgm.nvlink_down gpu/index=2"],
    "19": [
        "nic/name=rdmap79s0 impaired_remote_conn_events=0 retrans_timeout_events=3 rx_drops=7"
        " unresponsive_remote_events=2"
    ],
    "20": ["dcgm.nvlink_error_critical gpu/any"],
    "21": ["xid.79 gpu/pci=0000:3b:00 n-7"],
    "23": ["xid.79 gpu/any n-7"],
    "24": ["agent.gpu_unhealthy gpu/name=GPU_SXM_1 warning run_diagnostics"],
}
