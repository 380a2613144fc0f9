"""Answers of approvals, matches of policy rules, names of instances and registrations of EKS clusters."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from faultbridge.decide.fold.fold import fold
from faultbridge.model.cases import Approval
from faultbridge.model.cluster.config import MAX_SHARDS, ClusterConfig, Mode, RepairOwner, UpdateHold
from faultbridge.model.conditions import Condition
from faultbridge.model.enums import RepairAction
from faultbridge.model.errors import Rejected
from faultbridge.model.fault_enums import Action, ComponentType, Severity
from faultbridge.model.nodes import Instance
from faultbridge.model.policy import Limits, Match, Policy, Rule
from faultbridge.model.values import replace
from tests.builders import CATALOG, NOON, after, arrival, fault, node


def condition() -> Condition:
    """A condition that the kernel log reported once, at noon."""
    folded = fold(node(), [arrival(fault())], now=NOON, catalog=CATALOG, limits=Limits())
    return next(iter(folded.state.conditions.values()))


def seen(hours: dict[str, int]) -> Condition:
    """Return a condition that one source observed in these hours."""
    one = condition()
    return replace(one, reporters={key: replace(each, hours=hours) for key, each in one.reporters.items()})


@pytest.mark.parametrize(("granted", "answer"), [(None, None), (True, "approved"), (False, "denied")])
def test_an_approval_names_its_answer(granted: bool | None, answer: str | None) -> None:
    assert Approval(1, RepairAction.REPLACE_NODE, NOON, after(hours=1), granted).answer == answer


@pytest.mark.parametrize(("sources", "covered"), [((), True), (("kernel-log",), True), (("dcgm-health",), False)])
def test_a_rule_for_some_sources_covers_only_conditions_that_these_report(
    sources: tuple[str, ...], covered: bool
) -> None:
    assert Match(sources=sources).covers(condition(), "c") is covered


@pytest.mark.parametrize(
    ("match", "covered"),
    [
        (Match(actions=(Action.REPLACE_NODE,)), True),
        (Match(actions=(Action.REBOOT_NODE,)), False),
        (Match(severities=(Severity.FATAL,)), True),
        (Match(severities=(Severity.WARNING, Severity.ERROR)), False),
        (Match(components=(ComponentType.GPU,)), True),
        (Match(components=(ComponentType.NIC,)), False),
        (Match(instance_types=("p5.*",)), True),
        (Match(instance_types=("p4d.*",)), False),
        (Match(count=1), True),
        (Match(count=2), False),
    ],
)
def test_a_rule_covers_a_condition_if_each_of_its_fields_does(match: Match, covered: bool) -> None:
    assert match.covers(condition(), "c", "p5.48xlarge") is covered


@pytest.mark.parametrize(("cluster", "rule"), [("train-a", "training"), ("infer-a", "others")])
def test_a_rule_for_some_clusters_covers_no_node_of_another(cluster: str, rule: str) -> None:
    training = Match(clusters=("train-*",))
    assert training.covers(condition(), cluster) is (rule == "training")
    policy = Policy("p", (Rule("training", training), Rule("others")))
    assert policy.rule_for(condition(), cluster).name == rule


def test_a_rule_for_some_types_covers_no_node_of_an_unknown_type() -> None:
    assert not Match(instance_types=("p5.*",)).covers(condition(), "c", None)


def test_a_rule_without_a_minimum_count_is_never_below_it() -> None:
    assert not Match(count=1).below_count(condition(), NOON)
    assert Match(count=2).below_count(condition(), NOON)
    assert not Match(codes=("sxid.*",), count=2).below_count(condition(), NOON)


def test_an_instance_has_its_first_name_or_its_id() -> None:
    instance = Instance("i-0aaaaaaaaaaaaaaa1")
    assert instance.name == "i-0aaaaaaaaaaaaaaa1"
    assert replace(instance, names=("a", "b")).name == "a"


def test_an_eks_cluster_needs_its_name() -> None:
    with pytest.raises(Rejected, match="no_eks_cluster"):
        ClusterConfig("c", orchestrator="eks").validated()
    named = ClusterConfig("c", orchestrator="eks", eks_cluster="gpus")
    assert named.validated() is named


@pytest.mark.parametrize(
    ("given", "reason", "detail"),
    [
        ({"job_callbacks": ("webhook", "mail")}, "bad_callback", "unknown job callback: mail"),
        ({"orchestrator": "eks"}, "no_eks_cluster", "orchestrator eks requires it"),
        ({"job_callbacks": ("kubernetes-annotation",)}, "no_eks_cluster", "job callback kubernetes-annotation"),
        ({"orchestrator": "slurm"}, "no_slurm_head_node", "orchestrator slurm requires one of them"),
        ({"job_callbacks": ("slurm-requeue",)}, "no_requeue_head_node", "job callback slurm-requeue requires it"),
        (
            {"orchestrator": "slurm", "slurm_rest": "https://slurm.example", "slurm_requeue": True},
            "no_requeue_head_node",
            "slurm_requeue requires it",
        ),
    ],
)
def test_a_registration_without_a_setting_that_another_one_requires_is_rejected(
    given: dict[str, Any], reason: str, detail: str
) -> None:
    with pytest.raises(Rejected) as caught:
        ClusterConfig("c", **given).validated()
    assert caught.value.reason == reason
    assert detail in caught.value.detail


@pytest.mark.parametrize(
    "given",
    [
        {"job_callbacks": ("webhook", "sns")},
        {"job_callbacks": ("kubernetes-annotation",), "eks_cluster": "gpus"},
        {"job_callbacks": ("slurm-requeue",), "slurm_head_node": "i-0123456789abcdef0"},
        {"orchestrator": "slurm", "slurm_head_node": "i-0123456789abcdef0", "slurm_requeue": True},
    ],
)
def test_a_registration_with_every_required_setting_is_accepted(given: dict[str, Any]) -> None:
    complete = ClusterConfig("c", **given)
    assert complete.validated() is complete


def test_only_commands_on_the_head_node_can_requeue_the_jobs_of_a_slurm_cluster() -> None:
    slurm = ClusterConfig("c", orchestrator="slurm", slurm_rest="https://slurm.example.com")
    assert slurm.validated() is slurm
    with pytest.raises(Rejected, match="no_requeue_head_node"):
        replace(slurm, slurm_requeue=True).validated()
    other = ClusterConfig("c", orchestrator="none", slurm_requeue=True)
    assert other.validated() is other


def test_no_head_node_is_registered_for_hyperpod() -> None:
    own = ClusterConfig("c", provider="hyperpod", verifier="hyperpod", restarter="hyperpod")
    by_rest = replace(own, orchestrator="slurm", slurm_rest="https://slurm.example.com")
    assert by_rest.validated() is by_rest
    for rest in (None, by_rest.slurm_rest):
        with pytest.raises(Rejected, match=r"hyperpod_head_node.*use slurmrestd, or no orchestrator"):
            replace(by_rest, slurm_rest=rest, slurm_head_node="i-0123456789abcdef0").validated()


@pytest.mark.parametrize(
    ("owner", "mode", "follows"),
    [
        (RepairOwner.PROVIDER, Mode.ACT, True),
        (RepairOwner.PROVIDER, Mode.OBSERVE, False),
        (RepairOwner.FAULTBRIDGE, Mode.ACT, False),
    ],
)
def test_the_provider_is_followed_where_it_repairs_and_faultbridge_may_act(
    owner: RepairOwner, mode: Mode, follows: bool
) -> None:
    assert ClusterConfig("c", repair_owner=owner, mode=mode).follows_provider is follows


def test_the_last_observation_that_a_rule_requires_counts() -> None:
    twice = seen({"2026-02-03T12": 2})
    assert Match(count=2).covers(twice, "c")
    assert not Match(count=2).below_count(twice, NOON)
    assert not Match(count=3).covers(twice, "c")
    assert Match(count=3).below_count(twice, NOON)


@pytest.mark.parametrize(
    ("action", "permitted", "taken"),
    [
        (Action.NONE, tuple(RepairAction), None),
        (Action.REBOOT_NODE, tuple(RepairAction), RepairAction.REBOOT_NODE),
        (Action.REBOOT_NODE, (RepairAction.VERIFY, RepairAction.REPLACE_NODE), RepairAction.REPLACE_NODE),
        (Action.REPLACE_NODE, (RepairAction.VERIFY, RepairAction.REBOOT_NODE), None),
    ],
)
def test_a_rule_takes_the_mildest_permitted_repair_action_that_is_sufficient(
    action: Action, permitted: tuple[RepairAction, ...], taken: RepairAction | None
) -> None:
    assert Rule("r", repair_actions=permitted).repair_action(action) is taken


def test_a_rule_is_found_by_its_name_and_a_former_one_overrides_nothing() -> None:
    policy = Policy("p", (Rule("first", wait_seconds=60), Rule("second", wait_seconds=120)))
    assert policy.rule_named("second").wait_seconds == 120
    assert policy.rule_named("former") == Rule("former")


def test_repairs_of_a_group_are_held_until_the_end_of_its_update() -> None:
    hold = UpdateHold("workers", NOON, after(hours=1))
    updating = ClusterConfig("c", update_holds=(hold, replace(hold, group="others", until=after(hours=9))))
    assert updating.update_hold("workers", after(minutes=59)) == hold
    assert updating.update_hold("workers", after(hours=1)) is None
    assert updating.update_hold(None, NOON) is None


@pytest.mark.parametrize(("mode", "acts"), [(Mode.OBSERVE, False), (Mode.DRY_RUN, True), (Mode.ACT, True)])
def test_faultbridge_acts_where_it_repairs_and_does_not_only_observe(mode: Mode, acts: bool) -> None:
    assert ClusterConfig("c", repair_owner=RepairOwner.FAULTBRIDGE, mode=mode).acts is acts
    assert not ClusterConfig("c", repair_owner=RepairOwner.OBSERVE, mode=mode).opens_cases


def test_a_cluster_has_more_shards_only_when_its_nodes_no_longer_fit() -> None:
    full = ClusterConfig("c", expected=2, nodes_per_shard=2, shards=1)
    assert (full.with_next_node().expected, full.with_next_node().shards) == (3, 2)
    assert ClusterConfig("c", expected=1, nodes_per_shard=2, shards=1).with_next_node().shards == 1
    assert ClusterConfig("c", expected=10**6, nodes_per_shard=2, shards=1).with_next_node().shards == MAX_SHARDS


def test_a_hundred_thousand_nodes_are_spread_evenly_over_the_shards() -> None:
    sizes = Counter(ClusterConfig("c", expected=before, shards=MAX_SHARDS).next_shard for before in range(100_000))
    assert len(sizes) == MAX_SHARDS
    assert max(sizes.values()) - min(sizes.values()) <= 1


@pytest.mark.parametrize(("hours", "covered"), [(1, False), (2, True), (3, True)])
def test_a_rule_counts_the_hour_of_the_last_observation_and_those_before_it(hours: int, covered: bool) -> None:
    twice = seen({"2026-02-03T11": 1, "2026-02-03T12": 1})
    assert Match(count=2, hours=hours).covers(twice, "c") is covered


@pytest.mark.parametrize(("part", "given"), [("verifier", "ssm-dcgm"), ("verifier", "ssm-pair"), ("restarter", "ssm")])
def test_a_hyperpod_cluster_may_use_only_parts_that_reach_its_instances(part: str, given: str) -> None:
    own = ClusterConfig("c", provider="hyperpod", verifier="hyperpod", restarter="hyperpod")
    assert own.validated() == own
    with pytest.raises(Rejected) as caught:
        replace(own, **{part: given}).validated()
    expected = f"{part} cannot be used with provider hyperpod: {given}; allowed: hyperpod"
    assert (caught.value.reason, caught.value.detail) == ("foreign_part", expected)
