"""The changes on AWS that a cluster needs before Faultbridge may watch it, each with what was found and how to make it.

Nothing here changes anything until `Change.make` is called, and a change that was made is found as made: a command
that was interrupted can be repeated.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec
from botocore.exceptions import ClientError

from faultbridge.adapters.aws.errors import code_of
from faultbridge.adapters.aws.stack import stack_outputs
from faultbridge.install.cloudformation import find_stack
from faultbridge.model.errors import Misconfigured

if TYPE_CHECKING:
    from faultbridge.adapters.aws.clients import Clients

STACK_TAG: Final = "faultbridge:stack"
POLICY_NAME: Final = "faultbridge-verify"
"""The inline policy of a node role: diagnostics write long reports into the bucket."""

SSM_POLICY: Final = "AmazonSSMManagedInstanceCore"
REPAIR_GROUP, INVENTORY_GROUP = "faultbridge", "faultbridge-inventory"
_MISSING = frozenset({"NoSuchEntity", "NoSuchEntityException", "ResourceNotFoundException"})
_MAX_INSTANCES = 50  # the roles of more instances of a group are the same


class Change(msgspec.Struct, frozen=True):
    """One change: what it does, to which object, whether it was made before, and the function that makes it."""

    what: str
    target: str
    made: bool
    make: Callable[[], object]


class Installation(msgspec.Struct, frozen=True):
    """What the changes need to know about the stack: the value of its tag, its outputs and its parameters."""

    tag: str
    outputs: Mapping[str, str]
    parameters: Mapping[str, str] = {}

    @classmethod
    def read(cls, clients: Clients, stack: str) -> Installation:
        """Read the installation; the tag is the parameter `RepairTagValue`, by default the name of the stack."""
        found = find_stack(clients.cloudformation, stack)
        parameters = found.parameters if found else {}
        return cls(parameters.get("RepairTagValue") or stack, stack_outputs(clients, stack), parameters)

    def parameter(self, name: str) -> str:
        """Return the value of a parameter; empty if it is not set."""
        return self.parameters.get(name, "")


def tag_group(clients: Clients, group: str, tag: str) -> Change:
    """Return the tag that permits the repair of an Auto Scaling group; raises `Misconfigured` without such a group."""
    found = clients.autoscaling.describe_auto_scaling_groups(AutoScalingGroupNames=[group])["AutoScalingGroups"]
    if not found:
        raise Misconfigured(f"Auto Scaling group not found: {group!r}; check the account and the region")
    tags = {one["Key"]: one.get("Value") for one in found[0].get("Tags", [])}

    def make() -> None:
        clients.autoscaling.create_or_update_tags(
            Tags=[
                {
                    "ResourceId": group,
                    "ResourceType": "auto-scaling-group",
                    "Key": STACK_TAG,
                    "Value": tag,
                    "PropagateAtLaunch": True,
                }
            ]
        )

    return Change(f"tag {STACK_TAG}={tag}", group, tags.get(STACK_TAG) == tag, make)


def tag_instance(clients: Clients, instance: str, tag: str) -> Change:
    """Return the tag that permits commands on an instance, such as the head node of Slurm."""
    filters: Any = [{"Name": "resource-id", "Values": [instance]}, {"Name": "key", "Values": [STACK_TAG]}]
    tags = clients.ec2.describe_tags(Filters=filters)["Tags"]
    made = any(one.get("Value") == tag for one in tags)
    return Change(
        f"tag {STACK_TAG}={tag}",
        instance,
        made,
        lambda: clients.ec2.create_tags(Resources=[instance], Tags=[{"Key": STACK_TAG, "Value": tag}]),
    )


def roles_of_group(clients: Clients, group: str) -> list[str]:
    """Return the names of the roles of a group's instances; empty if it has no instance with a role."""
    found = clients.autoscaling.describe_auto_scaling_groups(AutoScalingGroupNames=[group])["AutoScalingGroups"]
    ids = [one["InstanceId"] for group_ in found for one in group_["Instances"]][:_MAX_INSTANCES]
    if not ids:
        return []
    answer = clients.ec2.describe_instances(InstanceIds=ids)
    profiles = {
        one["IamInstanceProfile"]["Arn"].rpartition("/")[2]
        for reservation in answer["Reservations"]
        for one in reservation["Instances"]
        if "IamInstanceProfile" in one
    }
    return sorted({role for profile in profiles for role in _roles_of_profile(clients, profile)})


def _roles_of_profile(clients: Clients, profile: str) -> list[str]:
    try:
        answer = clients.iam.get_instance_profile(InstanceProfileName=profile)
    except ClientError as error:
        if code_of(error) in _MISSING:
            return []
        raise
    return [one["RoleName"] for one in answer["InstanceProfile"]["Roles"]]


def permit_role(clients: Clients, role: str, stack: Installation, *, verified: bool = True) -> Iterator[Change]:
    """Yield the permissions of a node's role: to send records, and if `verified` to run diagnostics."""
    pages = clients.iam.get_paginator("list_attached_role_policies").paginate(RoleName=role)
    attached = {one["PolicyArn"] for page in pages for one in page["AttachedPolicies"]}
    partition = stack.outputs["NodePolicyArn"].split(":")[1]
    wanted = [stack.outputs["NodePolicyArn"]]
    if verified:
        wanted.append(f"arn:{partition}:iam::aws:policy/{SSM_POLICY}")
    for policy in wanted:
        yield Change(
            f"attach {policy.rpartition('/')[2]}", f"role {role}", policy in attached, _attach(clients, role, policy)
        )
    if not verified:
        return
    document = verify_policy(partition, stack.outputs["RawBucketName"])
    yield Change(
        f"put {POLICY_NAME} (s3:PutObject under verify/)",
        f"role {role}",
        _inline_policy(clients, role) == document,
        lambda: clients.iam.put_role_policy(RoleName=role, PolicyName=POLICY_NAME, PolicyDocument=json.dumps(document)),
    )


def _attach(clients: Clients, role: str, policy: str) -> Callable[[], object]:
    return lambda: clients.iam.attach_role_policy(RoleName=role, PolicyArn=policy)


def verify_policy(partition: str, bucket: str) -> dict[str, object]:
    """Return the policy with which a diagnosis may write its report."""
    resource = f"arn:{partition}:s3:::{bucket}/verify/*"
    return {
        "Version": "2012-10-17",
        "Statement": [{"Effect": "Allow", "Action": "s3:PutObject", "Resource": resource}],
    }


def _inline_policy(clients: Clients, role: str) -> Any:  # noqa: ANN401 - a policy document
    try:
        found: Any = clients.iam.get_role_policy(RoleName=role, PolicyName=POLICY_NAME)["PolicyDocument"]
    except ClientError as error:
        if code_of(error) in _MISSING:
            return None
        raise
    return json.loads(found) if isinstance(found, str) else found


# ---------------------------------------------------------------- EKS


class EksCluster(msgspec.Struct, frozen=True):
    """What connecting an EKS cluster needs of it: its name, whether functions reach it, and its node groups."""

    name: str
    reachable: bool
    groups: tuple[str, ...]
    roles: tuple[str, ...]


def read_eks(clients: Clients, name: str, *, gpu_types: Iterable[str], in_subnets: bool) -> EksCluster:
    """Read an EKS cluster with its managed node groups that may have GPUs; raises `Misconfigured` if it refuses us."""
    try:
        cluster: Any = clients.eks.describe_cluster(name=name)["cluster"]
    except ClientError as error:
        if code_of(error) in _MISSING:
            raise Misconfigured(f"EKS cluster not found: {name!r}; check the account and the region") from None
        raise
    mode = cluster.get("accessConfig", {}).get("authenticationMode", "CONFIG_MAP")
    if mode == "CONFIG_MAP":
        raise Misconfigured(
            f"{name} accepts no access entries; first run `aws eks update-cluster-config --name {name} "
            "--access-config authenticationMode=API_AND_CONFIG_MAP`"
        )
    groups, roles, known = [], set(), frozenset(gpu_types)
    for page in clients.eks.get_paginator("list_nodegroups").paginate(clusterName=name):
        for one in page["nodegroups"]:
            found: Any = clients.eks.describe_nodegroup(clusterName=name, nodegroupName=one)["nodegroup"]
            types = found.get("instanceTypes") or []
            # Without types, a launch template of its own decides, so the group may have GPUs.
            if types and not known.intersection(types):
                continue
            groups += [group["name"] for group in found.get("resources", {}).get("autoScalingGroups", [])]
            roles.add(found["nodeRole"].rpartition("/")[2])
    network = cluster.get("resourcesVpcConfig", {})
    reachable = in_subnets or bool(network.get("endpointPublicAccess", True))
    return EksCluster(name, reachable, tuple(groups), tuple(sorted(roles)))


def access_entries(clients: Clients, cluster: str, stack: Installation) -> Iterator[Change]:
    """Yield the access entries with which the functions act in an EKS cluster."""
    wanted = dict.fromkeys(stack.outputs["KubernetesRoleArns"].split(), REPAIR_GROUP)
    wanted[stack.outputs["KubernetesInventoryRoleArn"]] = INVENTORY_GROUP
    for arn, group in wanted.items():
        groups = _groups_of_entry(clients, cluster, arn)
        yield Change(
            f"access entry in group {group}",
            f"role {arn.rpartition('/')[2]}",
            groups is not None and group in groups,
            _grant(clients, cluster, arn, group, groups),
        )


def _groups_of_entry(clients: Clients, cluster: str, arn: str) -> Sequence[str] | None:
    try:
        answer: Any = clients.eks.describe_access_entry(clusterName=cluster, principalArn=arn)
    except ClientError as error:
        if code_of(error) in _MISSING:
            return None
        raise
    return list(answer["accessEntry"].get("kubernetesGroups", []))


def _grant(clients: Clients, cluster: str, arn: str, group: str, groups: Sequence[str] | None) -> Callable[[], object]:
    if groups is None:
        return lambda: clients.eks.create_access_entry(clusterName=cluster, principalArn=arn, kubernetesGroups=[group])
    return lambda: clients.eks.update_access_entry(
        clusterName=cluster, principalArn=arn, kubernetesGroups=[*groups, group]
    )


def roles_of_hyperpod(clients: Clients, cluster: str) -> tuple[list[str], list[str]]:
    """Return the instance groups of a HyperPod cluster, and the names of their execution roles."""
    try:
        found: Any = clients.sagemaker.describe_cluster(ClusterName=cluster)
    except ClientError as error:
        if code_of(error) in {*_MISSING, "ResourceNotFound"}:
            raise Misconfigured(f"HyperPod cluster not found: {cluster!r}; check the account and the region") from None
        raise
    groups = found.get("InstanceGroups", [])
    roles = {one["ExecutionRole"].rpartition("/")[2] for one in groups if one.get("ExecutionRole")}
    return [one["InstanceGroupName"] for one in groups], sorted(roles)
