"""The rows of the catalog are complete and consistent."""

from __future__ import annotations

import csv
import gzip
import json
import re
import subprocess
import sys
from importlib import resources
from pathlib import Path

import pytest

import faultbridge
from faultbridge.decode.data import FOLDER, gpus_by_instance_type, load_catalog, table
from faultbridge.decode.dcgm.texts import CODES, SETTINGS
from faultbridge.model.catalog import Kind, Row, Scope
from faultbridge.model.fault_enums import Action, Severity
from tests.loops import for_each

ROWS = list(load_catalog().rows.values())
ENDS = re.compile(r"reset_gpu|reboot_node|replace_node|verified|quiet:\d+|snapshot:[a-z0-9-]+")
SAME_FAILURE = {
    "smi.gpu_lost": "xid.79",
    "smi.recovery_action": "xid.154",
    "smi.row_remap_failure": "xid.64",
    "smi.ecc_uncorrectable": "xid.48",
    "xid.171": "xid.48",
    "dcgm.fallen_off_bus": "xid.79",
    "dcgm.pending_row_remap": "smi.row_remap_pending",
}
JUDGED = {
    "xid.13": (Severity.INFO, Action.RESTART_APP),
    "xid.31": (Severity.INFO, Action.RESTART_APP),
    "xid.43": (Severity.INFO, Action.NONE),
    "xid.45": (Severity.INFO, Action.NONE),
    "xid.48": (Severity.FATAL, Action.RESET_GPU),
    "xid.63": (Severity.ERROR, Action.RESET_GPU),  # the event of the repair that smi.row_remap_pending reports
    "xid.64": (Severity.FATAL, Action.REPLACE_NODE),
    "xid.74": (Severity.ERROR, Action.RESET_GPU),  # such errors did not always end the job
    "xid.79": (Severity.FATAL, Action.REPLACE_NODE),
    "xid.92": (Severity.WARNING, Action.NONE),
    "xid.94": (Severity.WARNING, Action.RESTART_APP),
    "xid.95": (Severity.FATAL, Action.RESET_GPU),
    "xid.119": (Severity.FATAL, Action.RESET_GPU),
    "xid.137": (Severity.INFO, Action.RESTART_APP),
    "smi.row_remap_pending": (Severity.ERROR, Action.RESET_GPU),
    "dcgm.persistence_mode": (Severity.INFO, Action.NONE),
}


def code(row: Row) -> str:
    return row.code


def test_every_xid_up_to_173_has_a_row() -> None:
    assert {f"xid.{number}" for number in range(1, 174)} <= load_catalog().rows.keys()


def test_recorded_and_failed_remapping_and_a_lost_gpu_have_different_names() -> None:
    names = {code: load_catalog().row(code).name for code in ("xid.63", "xid.64", "xid.79")}
    assert "recorded" in names["xid.63"]
    assert "fail" in names["xid.64"]
    assert "off the bus" in names["xid.79"]


def test_every_row_has_a_source() -> None:
    assert [row.code for row in ROWS if not all(one.source and one.says for one in row.recommendations)] == []
    assert [row.code for row in ROWS if not row.recommendations] == []


def test_every_action_has_a_code() -> None:
    assert {row.action for row in ROWS} == set(Action)


BUCKETS = {
    "IGNORE": Action.NONE,
    "RESTART_APP": Action.RESTART_APP,
    "RESET_GPU": Action.RESET_GPU,
    "RESTART_BM": Action.REBOOT_NODE,
    "CONTACT_SUPPORT": Action.CONTACT_SUPPORT,
}


@for_each("row", [row for row in ROWS if row.code.startswith("xid.")], ids=code)
def test_a_row_that_differs_from_nvidias_action_has_a_reason(row: Row) -> None:
    says = {one.source: one.says for one in row.recommendations}
    bucket = BUCKETS.get(says.get("NVIDIA", "").partition(" ")[0])
    assert bucket in {None, row.action} or row.reason


def test_every_dcgm_error_has_a_row_and_settings_are_info() -> None:
    assert len(CODES) == 133
    assert set(CODES) <= load_catalog().rows.keys()
    assert {load_catalog().row(one).severity for one in SETTINGS} == {Severity.INFO}


@pytest.mark.parametrize(("one", "judged"), JUDGED.items())
def test_important_codes_have_the_expected_severity_and_action(one: str, judged: tuple[Severity, Action]) -> None:
    row = load_catalog().row(one)
    assert (row.severity, row.action) == judged


@pytest.mark.parametrize(("one", "other"), SAME_FAILURE.items())
def test_codes_of_one_fault_from_several_sources_have_one_failure_mode(one: str, other: str) -> None:
    assert load_catalog().row(one).mode == load_catalog().row(other).mode


@pytest.mark.parametrize("one", ["xid.79", "xid.64", "xid.48"])
def test_quiet_time_never_ends_a_lost_gpu_or_lost_memory(one: str) -> None:
    ends = load_catalog().row(one).ends_on
    assert ends
    assert not any(end.startswith("quiet") for end in ends)


@pytest.mark.parametrize("one", ["xid.79", "xid.64"])
def test_a_reboot_does_not_end_a_fault_of_the_board(one: str) -> None:
    assert load_catalog().row(one).scope is Scope.DEVICE
    assert "reboot_node" not in load_catalog().row(one).ends_on


@for_each("row", ROWS, ids=code)
def test_a_row_is_complete(row: Row) -> None:
    assert row.name
    assert row.ends_on
    assert all(ENDS.fullmatch(end) for end in row.ends_on)
    assert row.reason or not row.conflict, "where sources differ, the row says why ours is ours"
    assert all(one.source and one.says for one in row.recommendations)


def test_a_row_with_severity_info_has_no_action_on_the_node() -> None:
    assert [row.code for row in ROWS if row.severity is Severity.INFO and row.action.opens_case] == []


def test_a_state_from_a_snapshot_ends_when_a_later_snapshot_lacks_it() -> None:
    states = [row for row in ROWS if row.code.startswith("smi.") and row.code not in SAME_FAILURE]
    assert all(row.kind is Kind.LEVEL for row in states)
    # Only the list reports links; each of the outputs reports all other states.
    outputs = {"nvidia-smi-xml", "nvidia-smi-text", "nvidia-smi-query-csv"}
    ends = {row.code: {end.removeprefix("snapshot:") for end in row.ends_on if "snapshot:" in end} for row in states}
    assert ends.pop("smi.nvlink_inactive") == {"nvidia-smi-text"}
    # gpud reports it in words of its own.
    assert ends.pop("smi.row_remap_pending") == {*outputs, "gpud"}
    assert {code for code, sources in ends.items() if sources != outputs} == set()


ATTRIBUTES = {"host.id", "host.name"}
"""Attributes of OpenTelemetry that have the form of a fault code."""


def test_every_code_in_the_decoders_has_a_row() -> None:
    package = Path(faultbridge.__file__).parent
    pattern = re.compile(r'"((?:agent|host|net|smi|dcgm)\.[a-z_]+)"')
    named = {one for path in (package / "decode").rglob("*.py") for one in pattern.findall(path.read_text("utf-8"))}
    assert named
    assert {one for one in named - ATTRIBUTES if one not in load_catalog().rows} == set()


def test_a_code_without_a_row_is_a_warning_for_support() -> None:
    row = load_catalog().row("xid.4242")
    assert (row.severity, row.action) == (Severity.WARNING, Action.CONTACT_SUPPORT)


def test_every_code_in_stands_for_is_in_the_catalog() -> None:
    meant = [code for row in ROWS for code in row.stands_for]
    assert meant
    assert [one for one in meant if not any(re.fullmatch(one.replace("*", ".*"), row.code) for row in ROWS)] == []


def test_no_code_has_two_rows() -> None:
    text = "".join(path.read_text("utf-8") for path in (FOLDER / "catalog").glob("*.json"))
    codes = re.findall(r'"code": "([^"]+)"', text)
    assert len(codes) == len(set(codes)) == len(load_catalog().rows)


def test_the_number_of_gpus_of_instance_types_is_known() -> None:
    counts = gpus_by_instance_type()
    assert (counts["p5.48xlarge"], counts["p6e-gb200.36xlarge"], counts["g5.xlarge"]) == (8, 4, 1)
    assert all(re.fullmatch(r"[a-z0-9-]+\.[a-z0-9]+", name) and 0 < count <= 16 for name, count in counts.items())


def test_the_number_of_gpus_of_instance_types_matches_ec2() -> None:
    with gzip.open(resources.files("moto") / "ec2" / "resources" / "instance_types.json.gz") as stream:
        recorded = json.load(stream)
    counts = {
        name: sum(gpu["Count"] for gpu in row["GpuInfo"]["Gpus"]) for name, row in recorded.items() if "GpuInfo" in row
    }
    ours = gpus_by_instance_type()
    assert {name: counts[name] for name in ours if name in counts} == {
        name: ours[name] for name in ours if name in counts
    }
    assert {name for name in ours if name not in counts} == {
        "p3.2xlarge",
        "p3.8xlarge",
        "p3.16xlarge",
        "p6e-gb200.36xlarge",
    }


CSV = {
    "xid_catalog.csv": lambda row: f"xid.{row['code']}",
    "sxid_catalog.csv": lambda row: f"sxid.{row['code']}",
    "dcgm_errors.csv": lambda row: f"dcgm.{row['name'].removeprefix('DCGM_FR_').lower()}",
    "nvlink5_decode.csv": lambda row: f"xid.{row['code']}:{row['mnemonic_or_name'].replace(' errstatus=', ':')}",
}


@pytest.mark.parametrize("file", CSV)
def test_every_public_code_has_a_row(file: str, shared: Path) -> None:
    with (shared / "catalogue" / file).open(encoding="utf-8", newline="") as stream:
        codes = [CSV[file](row) for row in csv.DictReader(stream)]
    assert codes
    assert [one for one in codes if one not in load_catalog().rows] == []


def test_the_numbers_of_nvlink5_units_match_the_public_rules(shared: Path) -> None:
    rules = json.loads((shared / "samples" / "catalogue__oci-xid-actions.json").read_text())["nvl5_decoding_rules"]
    for code, listed in rules.items():
        known = table("nvlink5_units")["units"][code]
        assert {rule["mnemonic"] for rule in listed} == set(known)
        for rule in listed:
            unit = known[rule["mnemonic"]]
            assert int(rule["intr_info_binary_pre_r575"][-10:], 2) == unit["before"]
            assert int(rule["intr_info_binary_r575"][-7:], 2) == unit["since"]


def test_no_unit_number_is_used_in_both_driver_branches() -> None:
    for code, known in table("nvlink5_units")["units"].items():
        before = {unit["before"] & 0x7F for unit in known.values()}
        since = {unit["since"] for unit in known.values()}
        assert before & since <= {0}, code


def test_the_catalog_loads_fast_at_a_cold_start() -> None:
    program = (
        "import time; from faultbridge.decode import data; best = 9.0\n"
        "for _ in range(5):\n"
        "    data.load_catalog.cache_clear(); start = time.process_time(); data.load_catalog().row('xid.79')\n"
        "    best = min(best, time.process_time() - start)\n"
        "print(best)"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert float(ran.stdout) < 0.02
