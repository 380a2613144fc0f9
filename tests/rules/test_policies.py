"""A stored policy is current, and its versions never change."""

from __future__ import annotations

import pytest

from faultbridge.decode.data.policies import version_of
from faultbridge.model.errors import Rejected
from faultbridge.model.storage import keys
from faultbridge.model.storage.writes import Delete
from faultbridge.record.policies import PolicyStore
from faultbridge.record.rulebook import Rulebook
from tests.builders import CATALOG, POLICY, STACK_ID, config
from tests.sim.fakes import FakeTable, ManualClock


def document(concurrent: int) -> dict[str, object]:
    made: dict[str, object] = {"rules": [{"name": "a", "repair_actions": []}], "limits": {"concurrent": concurrent}}
    return {**made, "version": version_of(made)}


def store_and_rulebook() -> tuple[PolicyStore, Rulebook]:
    table = FakeTable()
    return PolicyStore(table, ManualClock()), Rulebook(table, STACK_ID, lambda: CATALOG, lambda: POLICY)


def test_a_stored_policy_becomes_the_current_one() -> None:
    store, rulebook = store_and_rulebook()
    assert rulebook.policy(config()) is POLICY
    stored = store.put(document(7))
    assert rulebook.policy(config()) == stored
    assert (stored.limits.concurrent, stored.rules[0].repair_actions) == (7, ())
    assert store.current() == document(7)


def test_a_cluster_uses_the_version_that_it_names() -> None:
    store, rulebook = store_and_rulebook()
    old = store.put(document(1))
    store.put(document(2))
    assert rulebook.policy(config(policy=old.version)).limits.concurrent == 1
    assert rulebook.policy(config()).limits.concurrent == 2


def test_storing_the_same_policy_again_changes_nothing() -> None:
    store, _ = store_and_rulebook()
    assert store.put(document(1)) == store.put(document(1))


def test_an_unknown_version_is_rejected() -> None:
    store, _ = store_and_rulebook()
    assert store.current() is None
    with pytest.raises(Rejected, match="unknown_policy"):
        store.document("000000000000")


def test_a_shadow_policy_stays_beside_the_current_one() -> None:
    store, rulebook = store_and_rulebook()
    assert (store.shadow(), rulebook.rules(config()).shadow) == (None, None)
    shadow = store.put_shadow(document(5))
    assert (store.shadow(), rulebook.rules(config()).shadow) == (shadow.version, shadow)
    assert (store.current(), rulebook.policy(config())) == (None, POLICY)
    current = store.put(document(6))
    assert (rulebook.rules(config()).policy, rulebook.rules(config()).shadow) == (current, shadow)
    store.reset()
    assert (rulebook.rules(config()).policy, rulebook.rules(config()).shadow) == (POLICY, shadow)
    store.end_shadow()
    assert (store.shadow(), rulebook.rules(config()).shadow) == (None, None)


def test_a_cluster_that_names_a_version_has_no_shadow_policy() -> None:
    store, rulebook = store_and_rulebook()
    named = store.put(document(1))
    store.put_shadow(document(2))
    assert rulebook.rules(config(policy=named.version)).shadow is None


def test_an_unreadable_shadow_policy_is_left_out() -> None:
    store, rulebook = store_and_rulebook()
    store.put_shadow(document(2))
    store.table.write(Delete(keys.policy(str(store.shadow()))))
    assert rulebook.rules(config()).policy is POLICY
    assert rulebook.rules(config()).shadow is None


def test_an_unreadable_shadow_policy_is_read_and_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    store, rulebook = store_and_rulebook()
    store.put_shadow(document(2))
    store.table.write(Delete(keys.policy(str(store.shadow()))))
    assert [rulebook.rules(config()).shadow for _ in range(3)] == [None, None, None]
    assert [record.message for record in caplog.records].count("shadow_policy_unreadable") == 1
