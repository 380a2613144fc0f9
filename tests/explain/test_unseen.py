"""60 jobs of a third author, for which no rule was changed: what to expect of jobs that are new.

A rule that is changed for one of these jobs ends that: then the figures here and in docs/explain.md are no longer for
unseen jobs, and a new set is needed. Never correct a label.
"""

from __future__ import annotations

from pathlib import Path

from faultbridge.model.enums import Outlook
from tests.explain.labeled_jobs import is_domain_accepted, judged

FOLDER = Path(__file__).parent / "unseen"


def test_restart_or_stop_is_right_in_59_of_60_jobs_and_never_stop_by_mistake() -> None:
    stops = [(row["verdict"] == "STOP", one.outlook is Outlook.STOP) for row, one in judged(FOLDER)]
    assert len(stops) == 60
    assert sum(is_right is is_stopped for is_right, is_stopped in stops) >= 59
    assert (False, True) not in stops


def test_the_domain_is_right_in_52_jobs_and_one_that_the_author_accepts_in_55() -> None:
    assert sum(row["domain"] == one.domain for row, one in judged(FOLDER)) >= 52
    assert sum(map(is_domain_accepted, judged(FOLDER))) >= 55


def test_the_nodes_to_leave_out_are_right_in_52_jobs() -> None:
    assert sum(row["nodes"] == " ".join(one.nodes) for row, one in judged(FOLDER)) >= 52


def test_no_hardware_is_blamed_and_no_node_left_out_where_the_label_acquits_the_hardware() -> None:
    acquitted = [(row["case"], one) for row, one in judged(FOLDER) if row["acquit"] == "yes"]
    assert len(acquitted) == 40
    assert [case for case, one in acquitted if one.hardware.state == "blamed" or one.nodes] == []
