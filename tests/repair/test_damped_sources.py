"""A source whose claims were refuted or expired twice within a day is ignored by its whole cluster."""

from __future__ import annotations

from datetime import datetime, timedelta

from faultbridge.decide.fold.claims import DAMPED_FOR
from faultbridge.model.cluster.config import DampedSource
from faultbridge.model.storage.node_rows import FalseClaims
from faultbridge.model.times import to_text
from faultbridge.repair.breakers import MAX_DAMPED_FOR, update_damped
from tests.builders import NOON, after, config, data_of

DAY = timedelta(days=1)


def rows(*ends: datetime, source: str = "prometheus") -> list[FalseClaims]:
    """Return the rows of nodes whose claims ended at these times, one node each."""
    return [FalseClaims(f"node-{number}", {f"{source} xid.79": at + DAMPED_FOR}) for number, at in enumerate(ends)]


def damped(since: datetime, lasts: timedelta = DAY, *, over: bool = False) -> DampedSource:
    return DampedSource("prometheus", since, since + lasts, over=over)


def named(since: datetime, *, over: bool = False) -> DampedSource:
    """Return a source with one false claim, whose claims are ignored only about the node of that claim."""
    return DampedSource("prometheus", since, since + DAY, cluster=False, over=over)


def test_one_false_claim_names_its_source_once_and_damps_it_in_no_cluster() -> None:
    known, (draft,) = update_damped((), rows(NOON), NOON)
    assert known == (named(NOON),)
    assert config(damped_sources=known).damped(NOON) == frozenset()
    assert (data_of(draft)["to"], data_of(draft)["source"]) == ("damped", "prometheus")
    assert update_damped(known, rows(NOON), after(hours=1)) == (known, ())
    known, (draft,) = update_damped(known, (), NOON + DAY)
    assert (known, data_of(draft)["to"]) == ((named(NOON, over=True),), "accepted")
    assert update_damped(known, rows(after(hours=30)), after(hours=30)) == (known, ())


def test_false_claims_of_different_sources_damp_no_cluster() -> None:
    known, _ = update_damped((), [*rows(NOON), *rows(NOON, source="grafana")], NOON)
    assert config(damped_sources=known).damped(NOON) == frozenset()


def test_a_second_false_claim_damps_a_source_in_the_whole_cluster() -> None:
    known, (draft,) = update_damped((named(NOON),), rows(NOON, after(hours=2)), after(hours=2))
    assert known == (damped(after(hours=2)),)
    assert (data_of(draft)["from"], data_of(draft)["to"]) == ("damped", "damped")
    assert config(damped_sources=known).damped(after(hours=25)) == {"prometheus"}
    assert config(damped_sources=known).damped(after(hours=26)) == frozenset()


def test_two_false_claims_of_one_source_damp_it_for_a_day_and_say_so_once() -> None:
    known, (draft,) = update_damped((), rows(NOON, after(hours=-3)), NOON)
    assert known == (damped(NOON),)
    assert (data_of(draft)["from"], data_of(draft)["to"], data_of(draft)["source"]) == (
        "accepted",
        "damped",
        "prometheus",
    )
    assert data_of(draft)["until"] == to_text(NOON + DAY)
    assert "2 claims of prometheus" in data_of(draft)["reason"]
    assert update_damped(known, rows(NOON, after(hours=-3), after(hours=1)), after(hours=1)) == (known, ())


def test_two_codes_of_one_node_are_two_false_claims() -> None:
    until = {f"prometheus {code}": NOON + DAMPED_FOR for code in ("xid.79", "xid.48")}
    assert update_damped((), [FalseClaims("node-1", until)], NOON)[0] == (damped(NOON),)


def test_after_its_time_claims_of_a_source_count_again_whatever_ended_meanwhile() -> None:
    known, (draft,) = update_damped((damped(NOON),), rows(after(hours=1), after(hours=24)), NOON + DAY)
    assert known == (damped(NOON, over=True),)
    assert (data_of(draft)["from"], data_of(draft)["to"]) == ("damped", "accepted")
    assert update_damped(known, (), NOON + DAY) == (known, ())


def test_each_further_damping_lasts_twice_as_long_up_to_seven_days() -> None:
    lasts, last, at = [], damped(NOON), NOON
    for _ in range(4):
        at = last.until + timedelta(hours=1)
        known, drafts = update_damped((last,), rows(at, at), at)
        assert [data_of(draft)["to"] for draft in drafts] == ["accepted", "damped"]
        (last,) = known
        lasts.append(last.until - last.since)
    assert lasts == [2 * DAY, 4 * DAY, MAX_DAMPED_FOR, MAX_DAMPED_FOR]


def test_a_source_without_false_claims_for_seven_days_starts_again_with_a_day() -> None:
    old = damped(NOON, 4 * DAY, over=True)
    at = old.until + MAX_DAMPED_FOR
    assert update_damped((old,), (), at) == ((), ())
    assert update_damped((), rows(at, at), at)[0] == (damped(at),)
