"""The catalogue's rows: whole, consistent, and thoughtful where it hurts."""

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
from faultbridge.data import FOLDER, catalogue, gpus_by_instance_type, nvlink5_units
from faultbridge.decoders.dcgm_codes import CODES, SETTINGS
from faultbridge.domain.catalogue import Kind, Row, Scope
from faultbridge.domain.faults import Action, Severity

ROWS = list(catalogue().rows.values())
ENDS = re.compile(r"reset|reboot|replace|verified|quiet:\d+|snapshot:[a-z0-9-]+")
CANONICAL = {
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
    "xid.63": (Severity.WARNING, Action.NONE),
    "xid.64": (Severity.FATAL, Action.REPLACE_NODE),
    "xid.74": (Severity.FATAL, Action.RESET_GPU),
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


def test_every_xid_up_to_173_is_described() -> None:
    assert {f"xid.{number}" for number in range(1, 174)} <= catalogue().rows.keys()


def test_what_is_recorded_failed_and_lost_is_told_apart() -> None:
    names = {code: catalogue().row(code).name for code in ("xid.63", "xid.64", "xid.79")}
    assert "recorded" in names["xid.63"]
    assert "fail" in names["xid.64"]
    assert "off the bus" in names["xid.79"]


def test_no_row_lacks_a_source() -> None:
    assert [row.code for row in ROWS if not all(told.source and told.says for told in row.recommendations)] == []
    assert [row.code for row in ROWS if not row.recommendations] == []


def test_every_action_is_reached_by_some_code() -> None:
    assert {row.action for row in ROWS} == set(Action)


BUCKETS = {
    "IGNORE": Action.NONE,
    "RESTART_APP": Action.RESTART_APP,
    "RESET_GPU": Action.RESET_GPU,
    "RESTART_BM": Action.REBOOT_NODE,
    "CONTACT_SUPPORT": Action.CONTACT_SUPPORT,
}


@pytest.mark.parametrize("row", [row for row in ROWS if row.code.startswith("xid.")], ids=code)
def test_where_we_differ_from_nvidias_bucket_the_row_says_why(row: Row) -> None:
    says = {told.source: told.says for told in row.recommendations}
    bucket = BUCKETS.get(says.get("NVIDIA", "").partition(" ")[0])
    assert bucket in {None, row.action} or row.reason


def test_every_dcgm_error_is_described_and_settings_ask_for_nothing() -> None:
    assert len(CODES) == 133
    assert set(CODES) <= catalogue().rows.keys()
    assert {catalogue().row(one).severity for one in SETTINGS} == {Severity.INFO}


@pytest.mark.parametrize(("one", "judged"), JUDGED.items())
def test_the_codes_that_matter_are_judged_as_written_here(one: str, judged: tuple[Severity, Action]) -> None:
    row = catalogue().row(one)
    assert (row.severity, row.action) == judged


@pytest.mark.parametrize(("one", "canonical"), CANONICAL.items())
def test_one_trouble_seen_by_several_sources_is_counted_once(one: str, canonical: str) -> None:
    assert catalogue().canonical(one) == canonical


def test_no_row_is_counted_under_one_that_is_counted_elsewhere() -> None:
    targets = {row.same_as for row in ROWS if row.same_as}
    assert targets <= catalogue().rows.keys()
    assert {catalogue().row(target).same_as for target in targets} == {None}


@pytest.mark.parametrize("one", ["xid.79", "xid.64", "xid.48"])
def test_silence_never_ends_a_lost_gpu_or_lost_memory(one: str) -> None:
    ends = catalogue().row(one).ends_on
    assert ends
    assert not any(end.startswith("quiet") for end in ends)


@pytest.mark.parametrize("one", ["xid.79", "xid.64"])
def test_a_reboot_ends_no_fault_of_the_board(one: str) -> None:
    assert catalogue().row(one).scope is Scope.DEVICE
    assert "reboot" not in catalogue().row(one).ends_on


@pytest.mark.parametrize("row", ROWS, ids=code)
def test_a_row_is_whole(row: Row) -> None:
    assert row.name
    assert row.ends_on
    assert all(ENDS.fullmatch(end) for end in row.ends_on)
    assert row.reason or not row.conflict, "where sources differ, the row says why ours is ours"
    assert all(told.source and told.says for told in row.recommendations)


def test_info_asks_for_nothing_that_takes_a_node() -> None:
    assert [row.code for row in ROWS if row.severity is Severity.INFO and row.action.opens_case] == []


def test_a_state_that_a_snapshot_shows_ends_when_the_snapshot_no_longer_shows_it() -> None:
    states = [row for row in ROWS if row.code.startswith("smi.") and row.same_as is None]
    assert all(row.kind is Kind.LEVEL for row in states)
    # Links are told by their list alone; everything else by each of the outputs.
    outputs = {"nvidia-smi-xml", "nvidia-smi-text", "nvidia-smi-query-csv"}
    told = {row.code: {end.removeprefix("snapshot:") for end in row.ends_on if "snapshot:" in end} for row in states}
    assert told.pop("smi.nvlink_inactive") == {"nvidia-smi-text"}
    assert {code for code, sources in told.items() if sources != outputs} == set()


def test_every_code_that_the_package_names_has_a_row() -> None:
    package = Path(faultbridge.__file__).parent
    pattern = re.compile(r'"((?:agent|host|net|smi|dcgm)\.[a-z_]+)"')
    named = {one for path in (package / "decoders").rglob("*.py") for one in pattern.findall(path.read_text("utf-8"))}
    assert named
    assert {one for one in named if one not in catalogue().rows} == set()


def test_a_code_that_nobody_has_described_is_an_error_for_support() -> None:
    row = catalogue().row("xid.4242")
    assert (row.severity, row.action) == (Severity.ERROR, Action.CONTACT_SUPPORT)


def test_what_a_word_stands_for_is_in_the_catalogue() -> None:
    meant = [code for row in ROWS for code in row.stands_for]
    assert meant
    assert [one for one in meant if not any(re.fullmatch(one.replace("*", ".*"), row.code) for row in ROWS)] == []


def test_no_row_is_written_twice() -> None:
    text = "".join(path.read_text("utf-8") for path in (FOLDER / "catalogue").glob("*.json"))
    codes = re.findall(r'"code": "([^"]+)"', text)
    assert len(codes) == len(set(codes)) == len(catalogue().rows)


def test_the_gpus_of_instance_types_are_known() -> None:
    counts = gpus_by_instance_type()
    assert (counts["p5.48xlarge"], counts["p6e-gb200.36xlarge"], counts["g5.xlarge"]) == (8, 4, 1)
    assert all(re.fullmatch(r"[a-z0-9-]+\.[a-z0-9]+", name) and 0 < count <= 16 for name, count in counts.items())


def test_the_gpus_of_instance_types_are_as_many_as_ec2_says() -> None:
    with gzip.open(resources.files("moto") / "ec2" / "resources" / "instance_types.json.gz") as stream:
        recorded = json.load(stream)
    told = {
        name: sum(gpu["Count"] for gpu in row["GpuInfo"]["Gpus"]) for name, row in recorded.items() if "GpuInfo" in row
    }
    ours = gpus_by_instance_type()
    assert {name: told[name] for name in ours if name in told} == {name: ours[name] for name in ours if name in told}
    assert {name for name in ours if name not in told} == {
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
def test_every_public_code_resolves(file: str, shared: Path) -> None:
    with (shared / "catalogue" / file).open(encoding="utf-8", newline="") as stream:
        codes = [CSV[file](row) for row in csv.DictReader(stream)]
    assert codes
    assert [one for one in codes if one not in catalogue().rows] == []


def test_the_units_of_nvlink5_are_numbered_as_in_the_public_rules(shared: Path) -> None:
    rules = json.loads((shared / "samples" / "catalogue__oci-xid-actions.json").read_text())["nvl5_decoding_rules"]
    for code, listed in rules.items():
        known = nvlink5_units()[code]
        assert {rule["mnemonic"] for rule in listed} == set(known)
        for rule in listed:
            unit = known[rule["mnemonic"]]
            assert int(rule["intr_info_binary_pre_r575"][-10:], 2) == unit["before"]
            assert int(rule["intr_info_binary_r575"][-7:], 2) == unit["since"]


def test_no_number_of_a_unit_means_another_unit_in_the_other_branch() -> None:
    for code, known in nvlink5_units().items():
        before = {unit["before"] & 0x7F for unit in known.values()}
        since = {unit["since"] for unit in known.values()}
        assert before & since <= {0}, code


def test_a_cold_start_pays_little_for_the_catalogue() -> None:
    program = (
        "import time; from faultbridge import data; best = 9.0\n"
        "for _ in range(5):\n"
        "    data.catalogue.cache_clear(); start = time.process_time(); data.catalogue().row('xid.79')\n"
        "    best = min(best, time.process_time() - start)\n"
        "print(best)"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert float(ran.stdout) < 0.02
