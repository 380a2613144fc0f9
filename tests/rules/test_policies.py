"""A policy that was put holds; its versions stay as they are."""

from __future__ import annotations

import pytest

from faultbridge.data.policies import version_of
from faultbridge.errors import Rejected
from faultbridge.rules.policies import Policies
from faultbridge.rules.rulebook import Rulebook
from faultbridge.simulation.fakes import FakeTable, ManualClock
from tests.builders import CATALOG, POLICY, STACK_ID, config


def document(concurrent: int) -> dict[str, object]:
    made: dict[str, object] = {"rules": [{"name": "a", "repair_actions": []}], "limits": {"concurrent": concurrent}}
    return {**made, "version": version_of(made)}


def made() -> tuple[Policies, Rulebook]:
    table = FakeTable()
    return Policies(table, ManualClock()), Rulebook(table, STACK_ID, lambda: CATALOG, lambda: POLICY)


def test_a_policy_that_is_put_is_the_one_by_which_is_decided() -> None:
    policies, rulebook = made()
    assert rulebook.policy(config()) is POLICY
    put = policies.put(document(7))
    assert rulebook.policy(config()) == put
    assert (put.limits.concurrent, put.rules[0].repair_actions) == (7, ())
    assert policies.current() == document(7)


def test_a_cluster_keeps_the_version_that_it_names() -> None:
    policies, rulebook = made()
    old = policies.put(document(1))
    policies.put(document(2))
    assert rulebook.policy(config(policy=old.version)).limits.concurrent == 1
    assert rulebook.policy(config()).limits.concurrent == 2


def test_putting_the_same_policy_again_is_harmless() -> None:
    policies, _ = made()
    assert policies.put(document(1)) == policies.put(document(1))


def test_a_version_that_is_not_kept_is_said_not_to_be() -> None:
    policies, _ = made()
    assert policies.current() is None
    with pytest.raises(Rejected, match="unknown_policy"):
        policies.document("000000000000")
