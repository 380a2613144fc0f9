"""What a program prints never outweighs a decisive fault that a node's own source shows while the job fails."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faultbridge.explain.signals.signal import Role
from faultbridge.explain.verdict.document import verdict_on
from faultbridge.explain.verdict.doubts import DECISIVE
from faultbridge.explain.verdict.mechanisms import Mechanism, packaged_book
from faultbridge.explain.verdict.verdict import Verdict
from faultbridge.model.enums import Outlook
from tests.explain.corpus_cases import Case, files_of
from tests.explain.corpus_cases import verdict_on as corpus_verdict
from tests.loops import for_each

BOOK = packaged_book()
PRINTED = sorted({one.name for one in BOOK.patterns})
FAILURES = sorted({one.name for one in BOOK.patterns if one.role in {Role.INITIATING, Role.CASCADE}})
STOPS = [
    name
    for name in PRINTED
    if verdict_on(BOOK, [f"+100 job - {name}", "+120 job - python.exception"]).outlook is Outlook.STOP
]
STEP = re.compile(r"\b(?:iteration|step|epoch)\b|'loss'", re.IGNORECASE)
RANGE = re.compile(r"\[(\d)-\d\]")


def own_faults() -> dict[str, Mechanism]:
    """Return the codes of faults that only a node's own source shows, each with the mechanism that it decides."""
    return {
        RANGE.sub(r"\1", name): mechanism
        for mechanism in BOOK.mechanisms
        for name, strength in mechanism.initiators.items()
        if strength == DECISIVE and name not in PRINTED and not name.startswith("collective.")
    }


FAULTS = own_faults()


def verdict(*rows: str) -> Verdict:
    return verdict_on(BOOK, rows)


def test_the_law_covers_every_domain_of_printed_errors_and_most_faults_of_nodes() -> None:
    assert {"python.argument_error", "storage.no_space", "scheduler.canceled", "loss.not_finite"} <= set(STOPS)
    assert {"xid.79", "xid.144", "host.disk_failed", "net.link_absent", "cloud.instance_gone"} <= set(FAULTS)
    assert not [one.name for one in FAULTS.values() if one.outlook is Outlook.STOP]


@pytest.mark.slow
@for_each(("number", "fault"), enumerate(FAULTS))
def test_no_printed_line_turns_a_decisive_fault_of_a_node_into_stop(number: int, fault: str) -> None:
    for other, printed in enumerate(PRINTED):
        # Each fault is before half of the printed lines, and each printed line is before half of the faults.
        seconds = -50 if (number + other) % 2 else 10
        found = verdict(f"+100 job - {printed}", f"+{100 + seconds} node n-1 {fault}", "+120 job - python.exception")
        expected = FAULTS[fault].outlook
        assert found.cause is not None
        assert (printed, found.outlook, found.nodes) == (
            printed,
            expected,
            ("n-1",) if expected is Outlook.RESTART_WITHOUT else (),
        )
        assert found.ranked[0] == found.cause
        assert found.hardware.state != "acquitted"


@given(
    failures=st.lists(st.tuples(st.integers(100, 159), st.sampled_from(FAILURES)), min_size=1, max_size=3),
    signs=st.lists(st.tuples(st.integers(0, 159), st.sampled_from(sorted({*PRINTED} - {*FAILURES}))), max_size=2),
    fault=st.sampled_from(sorted(FAULTS)),
    before=st.integers(0, 60),
    others=st.lists(st.tuples(st.integers(0, 5000), st.sampled_from(sorted(FAULTS))), max_size=2),
)
def test_no_set_of_printed_lines_does_so_whatever_else_happened_to_the_nodes(
    failures: list[tuple[int, str]],
    signs: list[tuple[int, str]],
    fault: str,
    before: int,
    others: list[tuple[int, str]],
) -> None:
    first = min(at for at, _ in failures)
    rows = [f"+{5000 + at} job - {name}" for at, name in failures + signs]
    rows += [f"+{at} node n-{at % 3} {name}" for at, name in others]
    assert verdict(*rows, f"+{5000 + first - before} node n-1 {fault}").outlook is not Outlook.STOP


@pytest.mark.slow
@pytest.mark.parametrize("printed", STOPS)
def test_a_fault_after_which_the_job_made_no_progress_comes_first_however_long_the_job_then_hangs(printed: str) -> None:
    found = verdict_after_progress(8980, printed)
    assert (found.outlook, found.nodes) == (Outlook.RESTART_WITHOUT, ("n-1",))


def test_a_fault_long_before_an_error_of_a_job_that_made_progress_after_it_does_not_change_the_cause() -> None:
    found = verdict_after_progress(12580, "python.user_error")
    assert (found.outlook, found.nodes, found.domain) == (Outlook.STOP, (), "software")
    assert verdict("+9000 job - python.user_error", "+0 node n-1 xid.79").nodes == ()


def verdict_after_progress(end: int, printed: str) -> Verdict:
    """Return the verdict on a job that made progress until `end`, lost a GPU, and printed a line an hour later."""
    lines = [line for one in BOOK.patterns if one.name == printed for line in one.cases]
    line = next(one for one in lines if not STEP.search(one))  # a line with a step is progress
    lost = "+9000 NVRM: Xid (PCI:0000:c1:00): 79, pid='<unknown>', GPU has fallen off the bus."
    files = files_of({"job": f"progress 0 {end}\n+12600 {line}", "n-1": lost})
    return corpus_verdict(Case(printed, {}, dict(files)))


def shortly_after(code: str, error: str, seconds: int, steps: str = "") -> Verdict:
    """Return the verdict on an error of rank 0 some seconds after a fault of node n-2."""
    at = 36_000 - seconds
    lost = f"+{at} NVRM: Xid (PCI:0000:c1:00): {code}, pid='<unknown>', name=<unknown>, fatal"
    job = f"{steps}\n+36000 [rank0]: {error}"
    return corpus_verdict(Case(code, {}, dict(files_of({"job": job, "n-2": lost}))))


@pytest.mark.parametrize("code", ["48", "79", "94"])
@pytest.mark.parametrize(
    ("error", "seconds", "steps"),
    [("FloatingPointError: loss is nan", 120, "progress 0 35980"), ("KeyError: 'labels'", 300, "")],
    ids=["nan", "no steps"],
)
def test_a_fault_of_a_node_shortly_before_leaves_stop_open_and_is_what_to_test(
    code: str, error: str, seconds: int, steps: str
) -> None:
    found = shortly_after(code, error, seconds, steps)
    assert (found.outlook, found.check) == (Outlook.RESTART, ("n-2",))
    assert found.hardware.state == "undetermined"
    assert [one.name for one in found.checks] == [f"xid.{code}"]


def test_a_fault_of_a_node_long_before_and_a_harmless_one_do_not_leave_stop_open() -> None:
    assert shortly_after("79", "KeyError: 'labels'", 1800, "progress 0 35980").outlook is Outlook.STOP
    assert shortly_after("63", "KeyError: 'labels'", 60, "progress 0 35980").outlook is Outlook.STOP


def test_another_node_with_a_fault_of_its_own_is_tested_before_a_restart_without_the_blamed_node() -> None:
    alone = ["+100 node n-2 xid.79", "+105 job n-4 cuda.launch_failure"]
    found = verdict(*alone, "+102 node n-3 host.disk_failed", "+99 node n-5 host.memory_corrected")
    assert (found.outlook, found.nodes, found.check) == (Outlook.RESTART_WITHOUT, ("n-2",), ("n-3",))
    assert [(one.node, one.name) for one in found.checks] == [("n-3", "host.disk_failed")]
    assert (verdict(*alone).nodes, verdict(*alone).check) == (("n-2",), ())
