"""The packaged patterns and mechanisms pass their own golden cases, and a customer's are validated."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from faultbridge.decode.data import load_catalog, packaged_json
from faultbridge.decode.data.patterns import check_repetitions
from faultbridge.explain.verdict.document import broken_cases, verdict_on
from faultbridge.explain.verdict.mechanisms import DOMAINS, SCHEMA, GoldenCase, extended_book, packaged_book
from faultbridge.model.enums import Outlook
from faultbridge.model.errors import Misconfigured
from faultbridge.model.values import replace
from tests.explain.builders import OWN


def test_every_packaged_golden_case_passes() -> None:
    assert list(broken_cases(packaged_book())) == []


def test_a_golden_case_with_another_result_is_reported() -> None:
    book = packaged_book()
    first, *others = book.mechanisms
    wrong = replace(first, cases=(GoldenCase(("+0 job - python.user_error",), Outlook.STOP),))
    pattern = replace(book.patterns[0], cases=("something else",))
    broken = list(broken_cases(replace(book, mechanisms=(wrong, *others), patterns=(pattern,))))
    assert [one.split(":")[0] for one in broken[:2]] == [f"pattern {pattern.name}", f"mechanism {first.name}"]


def test_the_packaged_documents_fit_the_schema_of_a_customer() -> None:
    Draft202012Validator.check_schema(packaged_json(SCHEMA))
    for document in (packaged_json(f"explain/{domain}.json") for domain in DOMAINS):
        assert list(Draft202012Validator(packaged_json(SCHEMA)).iter_errors(document)) == []


def test_every_name_in_a_mechanism_is_a_pattern_a_fault_code_or_a_finding_in_dumps() -> None:
    book = packaged_book()
    names = {one.name for one in book.patterns} | set(load_catalog().rows)
    names |= {f"collective.{state}" for state in ("unfinished", "behind", "mismatched", "order", "no_dump")}
    unknown = [
        (one.name, name)
        for one in book.mechanisms
        for name in one.initiators
        if "*" not in name and "[" not in name and not name.startswith("fault.") and name not in names
    ]
    assert unknown == []


def test_every_pattern_is_the_first_sign_or_a_consequence_of_a_mechanism_or_a_role_apart() -> None:
    book = packaged_book()
    used = {name for one in book.mechanisms for name in one.initiators}
    unused = {one.name for one in book.patterns if one.role == "initiating" and one.name not in used}
    assert unused == set()


def test_a_mechanism_of_a_customer_is_used_first_and_its_cases_are_run() -> None:
    book = extended_book([OWN])
    assert list(broken_cases(book)) == []
    verdict = verdict_on(book, ["+0 job - own.license"])
    assert verdict.cause is not None
    assert verdict.cause.mechanism.name == "license"


def test_the_example_of_the_documentation_passes_its_cases() -> None:
    page = (Path(__file__).parents[2] / "docs/explain.md").read_text(encoding="utf-8")
    (text,) = (one.partition("```")[0] for one in page.split("```json\n")[1:] if '"mechanisms"' in one)
    book = extended_book([json.loads(text)])
    assert list(broken_cases(book)) == []
    verdict = verdict_on(book, ["+0 job - own.license", "+5 job - elastic.child_failed"])
    assert verdict.cause is not None
    assert verdict.cause.mechanism.name == "license"


def test_a_mechanism_of_a_customer_replaces_the_packaged_one_of_its_name() -> None:
    own = {
        "mechanisms": [
            {**OWN["mechanisms"][0], "name": "program_error", "initiators": {"python.user_error": "decisive"}}
        ]
    }
    assert verdict_on(extended_book([own]), ["+0 job - python.user_error"]).outlook is Outlook.RESTART
    assert verdict_on(packaged_book(), ["+0 job - python.user_error"]).outlook is Outlook.STOP


@pytest.mark.parametrize(
    "document",
    [
        [],
        {"mechanism": []},
        {"mechanisms": [{**OWN["mechanisms"][0], "domain": "weather"}]},
        {"mechanisms": [{**OWN["mechanisms"][0], "cases": []}]},
        {"signals": [{**OWN["signals"][0], "pattern": "(a+)+b"}]},
        {"signals": [{**OWN["signals"][0], "contains": ""}]},
    ],
)
def test_invalid_mechanisms_and_patterns_without_a_time_bound_are_refused(document: Any) -> None:
    with pytest.raises(Misconfigured):
        extended_book([document])


@pytest.mark.parametrize(
    "repetition",
    [
        "(?:a|ab|b){1,60}X",
        "(?:.{0,9},){1,40}X",
        "(?:ab?){1,9}X",
        "(?:(?:a|ab)c){2}X",
        "(?:x(?=a|ab)){1,9}X",
        "(?:(a)?(?(1)b|c)){1,9}X",
        "(?:a(?:bc){1,3}?){2}X",
    ],
)
def test_a_repeated_group_with_alternatives_or_a_repetition_is_refused_by_name(repetition: str) -> None:
    pattern = f"license server{repetition}"
    with pytest.raises(Misconfigured, match=re.escape(repr(pattern))):
        extended_book([{"signals": [{**OWN["signals"][0], "pattern": pattern}]}])


@pytest.mark.parametrize(
    "pattern", [r"(?: \d\d){1,9}", "(?: up| down)?", r" [\w.]{1,64} (?:not|never) found", "(?:a|b)c"]
)
def test_a_repetition_that_matches_in_one_way_is_accepted(pattern: str) -> None:
    extended_book([{"signals": [{**OWN["signals"][0], "pattern": f"license server{pattern}"}]}])


def test_no_packaged_pattern_repeats_alternatives() -> None:
    for document in (packaged_json(f"explain/{domain}.json") for domain in DOMAINS):
        for row in document.get("signals", ()):
            check_repetitions(row.get("pattern", ""))


def test_the_tables_of_weights_and_limits_in_the_documentation_are_those_of_the_data() -> None:
    page = (Path(__file__).parents[2] / "docs/explain.md").read_text(encoding="utf-8")
    for kind, key in (("weights", "points"), ("limits", "value")):
        values = packaged_json("explain/weights.json")[kind]
        rows = [f"| `{one['name']}` | {one[key]} | {one['meaning']} |" for one in values]
        assert "\n".join(rows) in page


def test_an_array_that_is_not_active_blames_no_disk() -> None:
    unread = "+3 job - storage.io_error"
    found = verdict_on(packaged_book(), ["+0 node n-2 host.raid_inactive", unread])
    assert (found.outlook, found.nodes, found.domain) == (Outlook.RESTART, (), "storage")
    assert verdict_on(packaged_book(), ["+0 node n-2 host.raid_member_failed", unread]).nodes == ("n-2",)
