"""`faultbridge cluster`: registers, shows and changes clusters."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import datetime
from types import NoneType
from typing import Annotated, Any

from faultbridge.cli.commands.options import ClusterArgument
from faultbridge.cli.declare import EXIT_TRY_AGAIN, BadParameter, Exit, Group, Option, Text, Texts, command
from faultbridge.cli.render.columns import CLUSTER, CLUSTERS, cluster_document
from faultbridge.cli.render.output import Columns, fields, filled, notice
from faultbridge.cli.render.times import FUTURE_HELP, applies_text, parse_future_time, stated_time
from faultbridge.cli.stack.session import ChangingSession, Session, StackSession, wait_until
from faultbridge.decode.data import gpus_by_instance_type
from faultbridge.decode.data.counters import LINK_RATES, check_rates
from faultbridge.decode.data.policies import version_of
from faultbridge.model.cluster.config import (
    DECLARABLE,
    HYPERPOD,
    OWN_PARTS,
    ClusterConfig,
    DeclaredDomain,
    Mode,
    ProviderRole,
    RepairOwner,
)
from faultbridge.model.enums import ClusterStatus, DomainKind
from faultbridge.model.errors import Rejected
from faultbridge.model.names import expand_host_list, instance_id, node_name, rest_address
from faultbridge.repair.registry.documents import Cluster, shared
from faultbridge.repair.registry.views import ClusterView
from faultbridge.serve.ingest.canary import CLUSTER as CANARY_CLUSTER
from faultbridge.serve.ingest.mappings import MappingStore
from faultbridge.serve.wiring.services import wire_registration

RATES: Columns = fields("Mapping, Expected rates") | {
    "Expected rates": lambda one: ", ".join(f"{name}={rate}" for name, rate in one["link_rates"].items())
}
CHANGES: Columns = fields("SETTING, BEFORE, NOW")


class ChangedCluster(Cluster, frozen=True, kw_only=True):
    """A cluster whose settings were changed, and the time from which they apply everywhere."""

    applies_at: datetime


def show_changed(session: Session, before: ClusterConfig, effect: str = "") -> None:
    """Print the settings that differ from `before`, and from when they apply; as JSON, the whole cluster."""
    view = session.directory.cluster(before.cluster)
    applies_at = session.applies_at()
    if not session.output.for_people:
        session.show_one(shared(ChangedCluster, cluster_document(view), applies_at=applies_at), CLUSTER)
        return
    settings = [(name, getattr(before, name), getattr(view.config, name)) for name in ClusterConfig.__struct_fields__]
    changes = [
        {"setting": name.replace("_", " "), "before": _text(old), "now": _text(new)}
        for name, old, new in settings
        if old != new and name != "version"
    ]
    if not changes:
        notice(f"no setting of {before.cluster} changed{': ' if effect else ''}{effect}")
        return
    session.show(changes, CHANGES)
    notice(f"cluster {before.cluster}: {effect + '; ' if effect else ''}this applies {applies_text(applies_at)}")


def _text(value: object) -> str:
    texts: Mapping[type, Callable[[Any], str]] = {
        NoneType: lambda _: "",
        bool: lambda given: "yes" if given else "no",
        datetime: stated_time,
        ProviderRole: lambda role: role.arn,
        DeclaredDomain: lambda domain: f"{domain.kind}/{domain.name}={domain.nodes}",
        tuple: lambda given: ", ".join(map(_text, given)),
    }
    return texts.get(type(value), str)(value)


MIN_EXTERNAL_ID, MAX_EXTERNAL_ID = 2, 1224  # the limits of IAM
ROLE_ARN = re.compile(r"arn:aws[a-z-]*:iam::\d{12}:role/[\w+=,.@/-]{1,512}")
ROLE_ID = re.compile(r"AROA[A-Z0-9]{12,124}"), "--node-role", "allowed: a role id such as AROAEXAMPLEID123456"
SENDER = (
    re.compile(r"A[A-Z0-9]{3,127}(?::[\w+=,.@-]{2,64}|:\*)?"),
    "--trusted-sender",
    "allowed: ROLE_ID:SESSION or ROLE_ID:*",
)

SUBNET = re.compile(r"subnet-[0-9a-f]{8,17}"), "--subnet", "give a subnet id such as subnet-0a1b2c3d"
_REPLACES = 'Repeatable. Replaces all; "" removes all.'
SETTINGS: Mapping[str, Any] = {
    "mode": Annotated[
        Mode | None, Option(help="observe: record only; dry_run: also record planned repairs; act: repair.")
    ],
    "repair_owner": Annotated[RepairOwner | None, Option(help="Who repairs nodes; observe: no automation repairs.")],
    "provider": Annotated[
        Text,
        Option("NAME", "Provider: ec2-auto-scaling, ec2-launch-template, karpenter, hyperpod, parallelcluster or pcs."),
    ],
    "orchestrator": Annotated[Text, Option("NAME", "Orchestrator that cordons and drains nodes: none, eks or slurm.")],
    "verifier": Annotated[Text, Option("NAME", "Verifies nodes: ssm-dcgm, ssm-deep, ssm-pair, hyperpod, none.")],
    "restarter": Annotated[Text, Option("NAME", "Resets and reboots: ssm, hyperpod or slurm.")],
    "policy": Annotated[Text, Option("VERSION", 'Policy version to use; "" removes it. Default: the current version.')],
    "trusted_senders": Annotated[
        Texts,
        Option(
            "--trusted-sender ROLE_ID:SESSION",
            f"Sender that may report any node of the cluster; ROLE_ID:* for every session. {_REPLACES}",
        ),
    ],
    "node_roles": Annotated[
        Texts,
        Option(
            "--node-role ROLE_ID",
            f"Id (AROA...) of a role of the cluster's instances; other roles prove no instance. {_REPLACES}",
        ),
    ],
    "eks_cluster": Annotated[Text, Option("NAME", "Name of the EKS cluster.")],
    "hyperpod_cluster": Annotated[Text, Option("NAME|ARN", "Name or ARN of the HyperPod cluster.")],
    "slurm_head_node": Annotated[Text, Option("ID", 'Instance on which Slurm\'s commands run; "" removes it.')],
    "slurm_rest": Annotated[Text, Option("URL", 'Address of slurmrestd, used where it is set; "" removes it.')],
    "slurm_requeue": Annotated[
        bool | None, Option("--slurm-requeue/--no-slurm-requeue", "Requeue jobs that allow it when a node is drained.")
    ],
    "karpenter_repairs": Annotated[
        bool | None,
        Option(
            "--karpenter-repairs/--no-karpenter-repairs",
            "Whether Karpenter's gate NodeRepair is on, if Faultbridge cannot read it.",
        ),
    ],
    "job_callbacks": Annotated[
        Texts,
        Option(
            "--job-callback NAME",
            f"Callback for jobs that may resume: webhook, sns, slurm-requeue or kubernetes-annotation. {_REPLACES}",
        ),
    ],
    "provider_role": Annotated[Text, Option("ARN", "Role to assume for a provider in another AWS account.")],
    "external_id": Annotated[Text, Option("ID", "External id of the role's trust policy, 2 to 1224 characters.")],
    "domains": Annotated[
        Texts,
        Option(
            "--domain KIND/NAME=NODES",
            "Nodes that fail together, as in rack/r-7=gpu-[01-08]. Replaces all; empty text removes. Repeatable.",
        ),
    ],
}
"""The options of `add` and `set`, by the setting that each one changes."""


def _checked(given: dict[str, Any]) -> dict[str, Any]:
    """Return the settings given as options, and the adapters that belong to the provider."""
    role, external_id = given.pop("provider_role", None), given.pop("external_id", None)
    checked = {name: CHECKS[name](value) if name in CHECKS else value for name, value in given.items()}
    if role is not None or external_id is not None:
        checked["provider_role"] = _role(role, external_id)
    return {**OWN_PARTS.get(given.get("provider") or "", {}), **checked}


SettingsOptions = Annotated[dict[str, Any], Group(SETTINGS, _checked)]


def _matching(given: list[str], pattern: re.Pattern[str], option: str, allowed: str) -> tuple[str, ...]:
    """Check the texts of an option, and return them without duplicates; empty for one empty text."""
    wrong = [one for one in given if one and not pattern.fullmatch(one)]
    if wrong:
        raise BadParameter(f"invalid {option}: {wrong[0]!r}; {allowed}")
    return tuple(dict.fromkeys(filter(None, given)))


def _role(arn: str | None, external_id: str | None) -> ProviderRole:
    if arn is None:
        raise BadParameter("--external-id without --provider-role; give both")
    if not ROLE_ARN.fullmatch(arn):
        raise BadParameter(f"invalid --provider-role: {arn!r}; give the ARN of an IAM role")
    if external_id is not None and not MIN_EXTERNAL_ID <= len(external_id) <= MAX_EXTERNAL_ID:
        raise BadParameter(
            f"invalid --external-id: {len(external_id)} characters; allowed: {MIN_EXTERNAL_ID} to {MAX_EXTERNAL_ID}"
        )
    return ProviderRole(arn, external_id)


def _declared(text: str) -> DeclaredDomain:
    domain, _, nodes = text.partition("=")
    kind, _, name = domain.partition("/")
    if kind not in DECLARABLE:
        raise BadParameter(f"invalid --domain: {text!r}; allowed kinds: {', '.join(DECLARABLE)}")
    if not name or not nodes:
        raise BadParameter(f"invalid --domain: {text!r}; give KIND/NAME=NODES, as in rack/r-7=gpu-[01-08]")
    try:
        expand_host_list(nodes)
        return DeclaredDomain(DomainKind(kind), node_name(name), nodes)
    except Rejected as error:
        raise BadParameter(f"invalid --domain: {text!r}; {error.detail}") from None


def _types(given: list[str]) -> tuple[str, ...]:
    counts, types = gpus_by_instance_type(), tuple(dict.fromkeys(filter(None, given)))
    unknown = [one for one in types if one not in counts]
    if unknown:
        raise BadParameter(f"--instance-type without known GPUs: {unknown[0]!r}; give a GPU type such as p5.48xlarge")
    if len({counts[one] for one in types}) > 1:
        listed = ", ".join(f"{one} has {counts[one]}" for one in types)
        raise BadParameter(f"--instance-type with different GPU counts: {listed}; give types with equal counts")
    return types


CHECKS: Mapping[str, Callable[[Any], object]] = {
    "trusted_senders": lambda given: _matching(given, *SENDER),
    "node_roles": lambda given: _matching(given, *ROLE_ID),
    "slurm_head_node": lambda given: given and instance_id(given),
    "slurm_rest": lambda given: given and rest_address(given),
    "job_callbacks": lambda given: tuple(dict.fromkeys(filter(None, given))),
    "domains": lambda given: tuple(_declared(one) for one in given if one),
    "instance_types": _types,
    "subnets": lambda given: _matching(given, *SUBNET),
}
"""What converts the text of an option to its setting; an empty text removes a setting."""

TEMPLATE: Mapping[str, Any] = {
    "instance_types": Annotated[
        Texts,
        Option(
            "--instance-type TYPE",
            "Instance type to launch; the first with capacity is used. Repeatable. Replaces all. "
            "Empty text: the template's type.",
        ),
    ],
    "subnets": Annotated[
        Texts,
        Option(
            "--subnet SUBNET_ID", "Subnet to launch in. Repeatable. Replaces all. Empty text: the template's subnet."
        ),
    ],
    "spares": Annotated[int | None, Option("N", "Number of verified spare instances to keep ready.", min=0, max=100)],
    "spare_group": Annotated[Text, Option("NAME", "Launch template of the spare instances.")],
}


@command(
    "cluster template",
    "train-a --instance-type p5.48xlarge \\",
    "    --instance-type p5e.48xlarge --subnet subnet-0a1b2c3d",
    "train-a --spares 2 --spare-group gpu-workers",
)
def set_template(
    changes: Annotated[dict[str, Any], Group(TEMPLATE, _checked)], session: ChangingSession, cluster: ClusterArgument
) -> None:
    """Set the instance types, subnets and spares of a cluster.

    Instance types and subnets override the values of the launch templates. With the provider ec2-launch-template, the
    group of a node is the name of its launch template.
    """
    if not changes:
        raise BadParameter("no setting given; give at least one option")
    registration = wire_registration(session.application)
    if changes.get("spares") and not (changes.get("spare_group") or registration.cluster(cluster).spare_group):
        raise BadParameter("--spares without --spare-group; name the launch template of the spares")
    before = registration.cluster(cluster)
    registration.set_cluster(cluster, changes)
    show_changed(session, before)


@command("cluster list", "", "--json")
def list_clusters(session: StackSession) -> None:
    """List every cluster.

    The list can include `faultbridge-canary`, a cluster without nodes for Faultbridge's own test records.
    """
    views = session.directory.clusters()
    session.show(map(cluster_document, views), CLUSTERS)
    if any(view.config.cluster == CANARY_CLUSTER for view in views):
        session.remark(
            f"{CANARY_CLUSTER} has no nodes: every five minutes, a test record of Faultbridge passes through it"
        )


@command("cluster show", "train-a", "train-a --wait 300")
def show_cluster(
    session: StackSession,
    cluster: ClusterArgument,
    wait: Annotated[int, Option("SECONDS", "Wait until the cluster is healthy, and print its status.", min=0)] = 0,
) -> None:
    """Show settings, status and repairs of a cluster.

    Exit code 75: --wait ended before the cluster was healthy.
    """
    view = session.directory.cluster(cluster)
    if not wait:
        now, shown = session.now(), cluster_document(view)
        over = " (over)" if shown.maintenance_until and shown.maintenance_until <= now else ""
        session.show_one(shown, {**CLUSTER, "Maintenance until": lambda one: stated_time(one.maintenance_until) + over})
        return
    view = wait_until(lambda: session.directory.cluster(cluster), wait, _is_healthy)
    session.show_one(cluster_document(view), {title: CLUSTER[title] for title in ("Cluster", "Status", "By status")})
    if not _is_healthy(view):
        raise Exit(EXIT_TRY_AGAIN)


@command(
    "cluster add",
    "train-a",
    "train-a --mode act --repair-owner faultbridge \\",
    "    --provider ec2-auto-scaling --verifier ssm-dcgm",
    "train-b --mode act --repair-owner faultbridge \\",
    "    --provider hyperpod --hyperpod-cluster hp-train",
)
def add_cluster(session: ChangingSession, cluster: ClusterArgument, settings: SettingsOptions) -> None:
    """Register a cluster. In the default mode `observe`, Faultbridge records faults and repairs nothing."""
    _check_parts(session, settings, None)
    registered = wire_registration(session.application).add_cluster(ClusterConfig(cluster, **settings))
    session.remark(f"cluster {cluster} is registered: {_repair_text(registered)}")
    shown = cluster_document(session.directory.cluster(cluster))
    document = shared(ChangedCluster, shown, applies_at=session.applies_at())
    session.show_one(document, filled({**CLUSTER, "Applies": lambda one: applies_text(one.applies_at)}, document))


@command(
    "cluster set",
    "train-a --mode dry_run",
    "train-a --mode act --repair-owner faultbridge",
    "train-a --link-rate 'mlx5_*=400'",
)
def set_cluster(
    session: ChangingSession,
    cluster: ClusterArgument,
    settings: SettingsOptions,
    expected: Annotated[int | None, Option("N", "Expected number of nodes in the cluster.", min=0)] = None,
    link_rate: Annotated[
        Texts, Option("PORT=GBPS", "Expected rate of ports by shell pattern, as in mlx5_*=400; 0 removes it.")
    ] = None,
) -> None:
    """Change settings of a cluster, and print what changed.

    Settings that are not given stay unchanged, but --provider hyperpod also sets the verifier and the restarter. A rate
    of ports becomes a row of the mapping `link_rates`.
    """
    changes = settings if expected is None else {**settings, "expected": expected}
    if link_rate:
        _set_link_rates(session, session.directory.cluster(cluster).config.cluster, link_rate)
        if not changes:
            return
    if not changes:
        raise BadParameter("no setting given; give at least one option")
    before = session.directory.cluster(cluster).config
    _check_parts(session, changes, before)
    after = wire_registration(session.application).set_cluster(cluster, changes)
    show_changed(session, before, _repair_text(after))


def _set_link_rates(session: Session, cluster: str, texts: list[str]) -> None:
    stated = {f"{cluster}/{port}": rate for port, _, rate in (text.rpartition("=") for text in texts)}
    if not all(rate.isdecimal() and name != f"{cluster}/" for name, rate in stated.items()):
        raise BadParameter("give PORT=GBPS, as in mlx5_*=400", param_hint="'--link-rate'")
    store = MappingStore(session.ports.table, session.ports.clock)
    mappings = store.current()[1]
    # The first pattern that matches a port decides.
    rates = {name: int(rate) for name, rate in stated.items() if int(rate)}
    rates |= {name: int(str(one)) for name, one in mappings.get(LINK_RATES, {}).items() if name not in stated}
    check_rates(LINK_RATES, rates)
    changed = {**mappings, LINK_RATES: rates}
    store.put(version_of(changed), changed)
    session.show_one({"cluster": cluster, "mapping": version_of(changed), "link_rates": rates}, RATES)


@command("cluster maintain", "train-a --until 4h", "train-a --end")
def maintain_cluster(
    session: ChangingSession,
    cluster: ClusterArgument,
    until: Annotated[Text, Option("TIME", f"End of the maintenance: {FUTURE_HELP}.")] = None,
    end: Annotated[bool, Option(help="End the maintenance now.")] = False,
) -> None:
    """Start or end maintenance of a cluster.

    During maintenance, faults are recorded and no repair starts.
    """
    at = parse_future_time(until, session.now())
    if (at is None) is not end:
        raise BadParameter("give one of --until and --end")
    before = session.directory.cluster(cluster).config
    wire_registration(session.application).set_cluster(cluster, {"maintenance_until": at})
    show_changed(session, before, "no repair starts until then" if at else "no maintenance")


def _check_parts(session: Session, changes: dict[str, Any], before: ClusterConfig | None) -> None:
    named = changes.get("hyperpod_cluster", before.hyperpod_cluster if before else None)
    if changes.get("provider") == HYPERPOD and not named:
        raise BadParameter("--provider hyperpod without --hyperpod-cluster; name the HyperPod cluster")
    ports = session.ports
    for name, allowed in (
        ("provider", dict.fromkeys((*session.application.ports.inventories, *ports.providers))),
        ("orchestrator", ports.orchestrators),
        ("verifier", ports.verifiers),
        ("restarter", ports.restarters),
    ):
        if name in changes and changes[name] not in allowed:
            raise BadParameter(f"unknown --{name}: {changes[name]!r}; allowed: {', '.join(allowed)}")
    if version := changes.get("policy"):
        from faultbridge.cli.commands.policy.policy import known_policy

        known_policy(session, version)


def _repair_text(config: ClusterConfig) -> str:
    if not config.opens_cases:
        return "observe only; enable repairs with --mode act --repair-owner faultbridge"
    if config.mode is Mode.DRY_RUN:
        return "planned repairs are recorded, and none is done; --mode act does them"
    return "repairs are enabled" if config.acts else "the provider repairs, and Faultbridge follows"


def _is_healthy(view: ClusterView) -> bool:
    return view.state.status is ClusterStatus.HEALTHY
