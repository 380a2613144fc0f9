"""Families are data: each fault code has the family of a shared cause, or a stated reason why it has none."""

from __future__ import annotations

import json
import re
from fnmatch import fnmatchcase

import pytest

from faultbridge.decode.data import FOLDER, load_catalog, matches_family
from faultbridge.model.fault_enums import Family

TABLE = json.loads((FOLDER / "families.json").read_text())
WITH = {pattern: Family(name) for name, patterns in TABLE["families"].items() for pattern in patterns}
WITHOUT = {pattern: one["reason"] for one in TABLE["without"] for pattern in one["codes"]}
PATTERNS = [*WITH, *WITHOUT]
ROWS = load_catalog().rows
ROOMS = re.compile(r"[a-z]+\.\*")
SHARED = re.compile(
    r"power|therm|temperature|heat|cooling|nvlink|nvswitch|fabric|storage|file server|network|driver|kernel|kubelet"
)
"""Words of the kinds of faults that often have a shared cause."""

BY_CHANCE: set[str] = {"smi.ecc_uncorrectable"}
"""Codes of one device whose names contain such a word: errors are counted since the driver was loaded."""


def deciding(code: str) -> str:
    """Return the pattern that decides about a code: the longest one that matches it."""
    return max((one for one in PATTERNS if matches_family(code, one)), key=len)


def test_each_code_has_a_family_or_a_reason_why_it_has_none() -> None:
    unlisted = [code for code in ROWS if not any(matches_family(code, one) for one in PATTERNS)]
    assert unlisted == []
    assert [one for one, reason in WITHOUT.items() if not reason] == []
    assert {code: row.family for code, row in ROWS.items()} == {code: WITH.get(deciding(code)) for code in ROWS}


def test_a_code_of_a_kind_with_shared_causes_is_without_a_family_only_if_it_is_listed_itself() -> None:
    covered_by_its_room = {
        code
        for code, row in ROWS.items()
        if (pattern := deciding(code)) in WITHOUT
        and ROOMS.fullmatch(pattern)
        and SHARED.search(f"{code} {row.name}".lower())
    }
    assert covered_by_its_room == BY_CHANCE


@pytest.mark.parametrize(
    ("family", "code"),
    [
        (Family.POWER, "host.power_failed"),
        (Family.POWER, "cloud.system_impaired"),
        (Family.THERMAL, "host.overheated"),
        (Family.THERMAL, "host.cooling_failed"),
        (Family.STORAGE, "host.file_server_lost"),
        (Family.SOFTWARE, "smi.no_devices"),
        (Family.SOFTWARE, "cloud.instance_impaired"),
        (Family.NVLINK, "sxid.20034"),
        (Family.NVLINK, "xid.74"),
        (Family.NVLINK, "xid.74:signal_integrity"),
        (Family.NETWORK, "net.link_down"),
        (None, "xid.79"),
        (None, "xid.48"),
        (None, "host.disk_failed"),
        (None, "train.nccl_peer_unreachable"),
    ],
)
def test_a_shared_cause_has_a_family_and_a_fault_of_one_device_has_none(family: Family | None, code: str) -> None:
    assert ROWS[code].family is family


def test_each_pattern_decides_about_a_code_and_stands_in_one_place() -> None:
    assert sorted(set(PATTERNS) - {deciding(code) for code in ROWS}) == []
    assert len(PATTERNS) == len(set(PATTERNS))


def test_a_pattern_matches_like_a_glob_and_has_at_most_one_star() -> None:
    assert [one for one in PATTERNS if one.count("*") > 1 or set(one) & set("?[")] == []
    codes = [*ROWS, "", "net.", "smi.x_thermal_slowdown", "smi._thermal_slowdow"]
    differing = [(c, p) for c in codes for p in PATTERNS if matches_family(c, p) != fnmatchcase(c, p)]
    assert differing == []
