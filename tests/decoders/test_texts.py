"""The rows of log texts are their own tests: each matches its line, and not the near line."""

from __future__ import annotations

from faultbridge.decode import registry
from faultbridge.decode.data import load_catalog
from faultbridge.decode.data.mapping import packaged
from faultbridge.decode.data.patterns import Pattern, first_match, packaged_texts, patterns_of
from faultbridge.decode.kernel.line_filter import BenignLineFilter
from faultbridge.model.faults import Fault
from tests.loops import for_each

KERNEL = packaged_texts("kernel")
BMC = packaged_texts("bmc")
FABRIC_MANAGER = packaged_texts("fabric_manager")
HEADS = {"error": "[Feb 03 2026 04:05:06] [ERROR] [tid 1] ", "unit": "Feb  3 04:05:06 n-7 systemd[1]: "}

TRAINING = patterns_of(packaged("training")["patterns"])
PROGRESS = patterns_of(packaged("training")["progress"])


def codes(source: str, line: str) -> list[str]:
    return [one.code for one in registry.decode(source, line.encode()) if isinstance(one, Fault)]


@for_each("row", KERNEL)
def test_the_line_of_a_row_matches_no_earlier_row(row: Pattern) -> None:
    matched = first_match(KERNEL, row.row["line"])
    assert matched is not None
    assert matched[0] is row


@for_each("row", KERNEL)
def test_the_near_line_of_a_row_does_not_match_it(row: Pattern) -> None:
    near = row.row["near"]
    assert near != row.row["line"]
    assert row.regex.match(near) is None
    assert row.code not in codes("kernel-log", f"[    1.0] {near}")


@for_each("row", [row for row in KERNEL if not row.row.get("ends")])
def test_a_kernel_log_with_the_line_of_a_row_has_its_fault(row: Pattern) -> None:
    expected = {row.code, row.row.get("corrected")}
    (code,) = codes("kernel-log", f"[    1.0] {row.row['line']}")
    assert code in expected


@for_each("row", KERNEL)
def test_the_line_filter_never_learns_the_line_of_a_row_as_harmless(row: Pattern) -> None:
    line, harmless = row.row["line"], "audit: type=1400 audit(1): apparmor"
    log = "".join(f"[{n:12.6f}] {text}\n" for n, text in enumerate((line, harmless) * 300)).encode()
    line_filter = BenignLineFilter()
    line_filter.remaining(log)
    assert line_filter.remaining(log).count(line) == 300


@for_each("row", KERNEL)
def test_each_row_has_a_code_of_the_catalog_and_states_its_source(row: Pattern) -> None:
    codes_of_row = {row.code, *row.row.get("unless", ()), row.row.get("corrected", row.code)}
    assert codes_of_row <= load_catalog().rows.keys()
    assert row.row["source"]


@for_each("row", (*TRAINING, *PROGRESS))
def test_the_line_of_a_training_row_matches_it_first_and_the_near_line_does_not(row: Pattern) -> None:
    rows = TRAINING if row in TRAINING else PROGRESS
    first = next(one for one in rows if one.find(row.row["line"]) is not None)
    assert first is row
    assert row.find(row.row["near"]) is None
    assert row.row["source"]


@for_each("row", TRAINING)
def test_a_training_log_with_the_line_of_a_row_has_its_fault(row: Pattern) -> None:
    assert codes("training-log", f"loss\n{row.row['line']}") == [row.code]


@for_each("row", (*BMC, *FABRIC_MANAGER))
def test_the_line_of_a_service_row_matches_it_and_the_near_line_does_not(row: Pattern) -> None:
    level = row.row.get("level")
    rows = [one for one in (BMC if row in BMC else FABRIC_MANAGER) if one.row.get("level") == level]
    matched = first_match(rows, row.row["line"])
    assert matched is not None
    assert matched[0] is row
    assert row.regex.match(row.row["near"]) is None
    assert row.row["source"]


@for_each("row", BMC)
def test_a_listing_of_a_controller_with_the_line_of_a_row_has_its_fault(row: Pattern) -> None:
    sensor, _, says = row.row["line"].partition(": ")
    assert codes("bmc-events", f"   3 | 02/03/2026 | 04:05:06 | {sensor} | {says} | Asserted") == [row.code]


@for_each("row", FABRIC_MANAGER)
def test_a_log_of_the_fabric_manager_with_the_line_of_a_row_has_its_fault(row: Pattern) -> None:
    (code,) = codes("fabric-manager-log", HEADS.get(row.row["level"], HEADS["error"]) + row.row["line"])
    assert code == row.code.format(number=20034)
