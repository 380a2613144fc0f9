"""The verdicts on the corpus: the bars, the confusion table of docs/explain.md, and laws that hold for every case."""

from __future__ import annotations

from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from faultbridge.explain.verdict.doubts import Point
from faultbridge.explain.verdict.verdict import Verdict
from faultbridge.model.enums import Outlook
from faultbridge.model.values import replace
from tests.explain.corpus_cases import JOB_FILE, Case, cases, verdict_on
from tests.explain.labeled_jobs import is_domain_accepted, judged
from tests.loops import for_each

pytestmark = pytest.mark.slow

BLIND = (*cases("blind.yaml"), *cases("unseen.yaml"))
INFORMED = (*cases("informed.yaml"), *cases("corrected.yaml"))
CASES = (*BLIND, *INFORMED)
DOMAINS = ("hardware", "network", "storage", "platform", "software", "numerical", "unknown")
FORGED = "NVRM: Xid (PCI:0000:c1:00): 79, pid=1, name=python, GPU has fallen off the bus.\n"


@cache
def verdicts() -> tuple[tuple[Case, Verdict], ...]:
    return tuple((case, verdict_on(case)) for case in CASES)


def is_stop(outlook: str) -> bool:
    return outlook == Outlook.STOP


def confusion_table() -> list[str]:
    """Return the rows of the table: the label, and the number of verdicts in each domain."""
    found = Counter((case.label["domain"], verdict.domain) for case, verdict in verdicts())
    rows = [f"| {label} | {' | '.join(str(found[label, each] or '') for each in DOMAINS)} |" for label in DOMAINS]
    return [one.replace("|  |", "| |").replace("|  |", "| |") for one in rows]


def test_the_corpus_has_100_cases_ten_of_each_domain_and_half_of_them_blind() -> None:
    counts = Counter(case.label["domain"] for case in CASES)
    assert len(CASES) >= 100
    assert 2 * len(BLIND) >= len(CASES)
    assert {domain: count for domain, count in counts.items() if count < 10} == {}
    assert set(counts) == set(DOMAINS)
    assert len({case.name for case in CASES}) == len(CASES)


def test_restart_or_stop_is_right_in_95_percent_and_stop_is_never_wrong() -> None:
    wrong = [
        (case.name, verdict.outlook)
        for case, verdict in verdicts()
        if is_stop(case.label["verdict"]) is not is_stop(verdict.outlook)
    ]
    assert 20 * len(wrong) <= len(CASES), wrong
    assert [name for name, outlook in wrong if is_stop(outlook)] == []


def test_the_domain_is_right_in_90_percent() -> None:
    wrong = [(case.name, verdict.domain) for case, verdict in verdicts() if case.label["domain"] != verdict.domain]
    assert 10 * len(wrong) <= len(CASES), wrong


def test_exactly_the_faulty_nodes_are_left_out_in_95_percent() -> None:
    wrong = [(case.name, verdict.nodes) for case, verdict in verdicts() if case.nodes != list(verdict.nodes)]
    assert 20 * len(wrong) <= len(CASES), wrong


def test_no_hardware_is_blamed_where_the_label_acquits_it() -> None:
    blamed = [
        case.name
        for case, verdict in verdicts()
        if case.label["domain"] not in {"hardware", "network"}
        and not case.nodes
        and (verdict.nodes or verdict.hardware.state == "blamed")
    ]
    assert blamed == []


def test_the_first_sign_is_the_labeled_one() -> None:
    wrong = [
        (case.name, verdict.cause and verdict.cause.lead.name)
        for case, verdict in verdicts()
        if "initiating" in case.label
        and case.label["initiating"] not in {point.signal.name for point in _points(verdict) if point.signal}
    ]
    assert wrong == []


def _points(verdict: Verdict) -> tuple[Point, ...]:
    return verdict.cause.points if verdict.cause else ()


@for_each("case", CASES, ids=lambda case: case.name)
def test_a_forged_kernel_line_in_the_job_log_changes_no_verdict(case: Case) -> None:
    log = case.files.get(JOB_FILE, "")
    forged = replace(case, files={**case.files, JOB_FILE: FORGED + log + FORGED})
    (before,) = (verdict for one, verdict in verdicts() if one is case)
    after = verdict_on(forged)
    assert (after.outlook, after.domain, after.nodes) == (before.outlook, before.domain, before.nodes)
    assert len(after.line.claims) > 0


@for_each("case", [one for one in CASES if one.label["verdict"] != "STOP"], ids=lambda case: case.name)
def test_a_job_that_may_restart_is_not_stopped_without_the_logs_of_the_nodes(case: Case) -> None:
    alone = replace(case, files={name: body for name, body in case.files.items() if name == JOB_FILE})
    assert verdict_on(alone).outlook is not Outlook.STOP


def test_the_confusion_table_of_the_documentation_is_that_of_the_corpus() -> None:
    page = (Path(__file__).parents[2] / "docs/explain.md").read_text(encoding="utf-8")
    assert "\n".join(confusion_table()) in page


FOLDER = Path(__file__).parent / "held_out"


@pytest.mark.slow
def test_stop_is_given_exactly_where_it_is_the_label() -> None:
    stops = [(row["case"], row["verdict"] == "STOP", one.outlook is Outlook.STOP) for row, one in judged(FOLDER)]
    assert len(stops) == 60
    assert [case for case, is_right, is_stopped in stops if is_stopped is not is_right] == []


def test_the_verdict_is_right_in_54_cases_and_the_domain_in_49() -> None:
    assert sum(row["verdict"] == one.outlook for row, one in judged(FOLDER)) >= 54
    assert sum(row["domain"] == one.domain for row, one in judged(FOLDER)) >= 49


def test_no_hardware_is_blamed_where_the_label_names_no_node() -> None:
    blamed = [
        row["case"]
        for row, one in judged(FOLDER)
        if not row["nodes"] and row["domain"] not in {"hardware", "network"} and one.hardware.state == "blamed"
    ]
    assert blamed == []


def test_no_node_is_left_out_that_is_not_the_labeled_one() -> None:
    assert [row["case"] for row, one in judged(FOLDER) if one.nodes and " ".join(one.nodes) != row["nodes"]] == []


UNSEEN = Path(__file__).parent / "unseen"


def test_restart_or_stop_is_right_in_59_of_60_jobs_and_never_stop_by_mistake() -> None:
    stops = [(row["verdict"] == "STOP", one.outlook is Outlook.STOP) for row, one in judged(UNSEEN)]
    assert len(stops) == 60
    assert sum(is_right is is_stopped for is_right, is_stopped in stops) >= 59
    assert (False, True) not in stops


def test_the_domain_is_right_in_52_jobs_and_one_that_the_author_accepts_in_55() -> None:
    assert sum(row["domain"] == one.domain for row, one in judged(UNSEEN)) >= 52
    assert sum(map(is_domain_accepted, judged(UNSEEN))) >= 55


def test_the_nodes_to_leave_out_are_right_in_52_jobs() -> None:
    assert sum(row["nodes"] == " ".join(one.nodes) for row, one in judged(UNSEEN)) >= 52


def test_no_hardware_is_blamed_and_no_node_left_out_where_the_label_acquits_the_hardware() -> None:
    acquitted = [(row["case"], one) for row, one in judged(UNSEEN) if row["acquit"] == "yes"]
    assert len(acquitted) == 40
    assert [case for case, one in acquitted if one.hardware.state == "blamed" or one.nodes] == []
