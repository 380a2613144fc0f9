"""The result of a DCGM diagnostics run, whichever version wrote it: per test and device, passed, failed or not run."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from faultbridge.decoders.dcgm_codes import SETTINGS, code_of_number
from faultbridge.decoders.documents import embedded, text_of
from faultbridge.domain.faults import NODE_COMPONENT, Component, ComponentType
from faultbridge.errors import Rejected

_ROOTS = ("DCGM Diagnostic", "DCGM GPU Diagnostic")
MAX_ID = 4


class Outcome(StrEnum):
    """How one test came out on one device; a skipped test proves nothing."""

    PASS = "pass"  # noqa: S105 - the word of DCGM's report
    FAIL = "fail"
    WARN = "warn"
    SKIP = "skip"


# DCGM 1 and the early JSON of 3 give a test's name where later versions give an error number.
_CODES_BY_TEST: Mapping[str, str] = {
    "blacklist": "dcgm.denylisted_driver",
    "denylist": "dcgm.denylisted_driver",
    "nvml library": "dcgm.nvml_lib_bad",
    "cuda main library": "dcgm.cannot_open_lib",
    "permissions and os blocks": "dcgm.no_access_to_file",
    "permissions and os-related blocks": "dcgm.no_access_to_file",
    "persistence mode": "dcgm.persistence_mode",
    "environment variables": "dcgm.bad_cuda_env",
    "environmental variables": "dcgm.bad_cuda_env",
    "graphics processes": "dcgm.graphics_processes",
    "inforom": "dcgm.corrupt_inforom",
}


@dataclass(frozen=True, slots=True)
class Complaint:
    """What a test complains of: the fault code, DCGM's text and its numbers where it gives any."""

    code: str
    text: str
    error_id: int | None = None
    error_severity: int | None = None
    error_category: int | None = None


@dataclass(frozen=True, slots=True)
class Result:
    """One test on one or more devices, with at least one complaint where it failed or warned."""

    test: str
    category: str
    outcome: Outcome
    components: tuple[Component, ...]
    complaints: tuple[Complaint, ...] = ()

    @property
    def hardware(self) -> bool:
        """Tell whether the result speaks of the hardware: not where every complaint is about a setting."""
        return not self.complaints or any(complaint.code not in SETTINGS for complaint in self.complaints)

    @property
    def line(self) -> str:
        """Return one line for people: the test, its devices, how it came out and why."""
        where = ",".join("node" if one.index is None else f"GPU {one.index}" for one in self.components)
        why = "; ".join(complaint.text for complaint in self.complaints)
        return " ".join(f"{self.test} on {where}: {self.outcome}{': ' if why else ''}{why}".split())[:500]


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """All results of one run, in the order of the report."""

    results: tuple[Result, ...]
    version: str | None = None
    driver_version: str | None = None


def read_diagnosis(body: bytes) -> Diagnosis:
    """Read the JSON of `dcgmi diag -j` (versions 1, 3 and 4), whatever was printed before it; else `Rejected`."""
    written = embedded(text_of(body))
    if written is None:
        raise Rejected("malformed_json", "no whole JSON object in it")
    run = next((written[root] for root in _ROOTS if isinstance(written.get(root), dict)), None)
    if run is None or not isinstance(run.get("test_categories"), list):
        raise Rejected("wrong_shape", "no DCGM diagnostic with test categories")
    about = _mapping(written.get("metadata"))
    serials = _serials(written.get("entity_groups"))
    return Diagnosis(
        tuple(_results(run["test_categories"], serials)),
        _string(about.get("version")) or _string(run.get("version")),
        _string(about.get("Driver Version Detected")) or _string(run.get("Driver Version Detected")),
    )


_OUTCOMES: Mapping[str, Outcome] = {"pass": Outcome.PASS, "fail": Outcome.FAIL, "warn": Outcome.WARN}


def _results(categories: list[Any], serials: Mapping[int, str]) -> Iterator[Result]:
    for category in _mappings(categories):
        for test in _mappings(category.get("tests")):
            name, group = _string(test.get("name")) or "unnamed", _string(category.get("category")) or ""
            # The summary repeats what the results say; it speaks only where there are none.
            told = list(_mappings(test.get("results"))) or list(_mappings([test.get("test_summary")]))
            for result in told:
                yield _result(name[:64], group[:64], result, serials)


def _result(test: str, category: str, written: Mapping[str, Any], serials: Mapping[int, str]) -> Result:
    outcome = _OUTCOMES.get((_string(written.get("status")) or "").strip().lower(), Outcome.SKIP)
    components = tuple(_components(written, serials)) or (NODE_COMPONENT,)
    if outcome in {Outcome.PASS, Outcome.SKIP}:
        return Result(test, category, outcome, components)
    unnamed = "dcgm.diag_failed" if outcome is Outcome.FAIL else "dcgm.diag_warned"
    code = _CODES_BY_TEST.get(test.lower(), unnamed)
    complaints = tuple(_complaints(written.get("warnings"), code)) or (Complaint(code, f"{test}: {outcome}"),)
    return Result(test, category, outcome, components, complaints)


def _components(written: Mapping[str, Any], serials: Mapping[int, str]) -> Iterator[Component]:
    if _string(written.get("entity_group")) not in {None, "GPU"}:
        return
    ids = next((written[key] for key in ("entity_id", "gpu_ids", "gpu_id") if key in written), "")
    for number in re.findall(r"\d+", str(ids)[:256]):
        if len(number) <= MAX_ID:
            yield Component(ComponentType.GPU, index=int(number), serial=serials.get(int(number)))


def _complaints(written: object, unnumbered: str) -> Iterator[Complaint]:
    for warning in written if isinstance(written, list) else [written]:
        if isinstance(warning, str) and warning.strip():
            yield Complaint(unnumbered, warning.strip())
        elif isinstance(warning, dict):
            text = _string(warning.get("warning")) or ""
            number, *others = (_number(warning.get(f"error_{name}")) for name in ("id", "severity", "category"))
            yield Complaint(unnumbered if number is None else code_of_number(number), text.strip(), number, *others)


def _serials(groups: object) -> dict[int, str]:
    found: dict[int, str] = {}
    for group in _mappings(groups):
        for entity in _mappings(group.get("entities")):
            serial, number = _string(entity.get("serial_num")), _number(entity.get("entity_id"))
            if group.get("entity_group") == "GPU" and serial and number is not None and serial.isalnum():
                found[number] = serial[:64]
    return found


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _mappings(value: object) -> Iterator[Mapping[str, Any]]:
    """Yield the objects of a list; the nulls that DCGM 3 writes between them are left out."""
    return (item for item in value if isinstance(item, dict)) if isinstance(value, list) else iter(())


def _string(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _number(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
