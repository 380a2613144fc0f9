"""`faultbridge cluster template`: what is launched where a cluster's machines come from launch templates."""

from __future__ import annotations

import re
from typing import Annotated

import typer

from faultbridge.cli.documents import CLUSTER, cluster_document
from faultbridge.cli.session import Session, on_stack
from faultbridge.data import gpus_by_instance_type

EXAMPLE = "Example: faultbridge cluster template train-a --instance-type p5.48xlarge --instance-type p5e.48xlarge"
SUBNET = re.compile(r"subnet-[0-9a-f]{8,17}")

Name = Annotated[str, typer.Argument(metavar="CLUSTER", help="The cluster's name.")]
TypesOption = Annotated[
    list[str] | None,
    typer.Option("--instance-type", help="Launched, the first to be had; repeatable. Empty: as the template says."),
]
SubnetsOption = Annotated[
    list[str] | None,
    typer.Option("--subnet", help="Where, in any of these; repeatable. Empty: as the template says."),
]

SparesOption = Annotated[int | None, typer.Option(min=0, max=100, help="How many verified machines are to wait.")]
SpareGroupOption = Annotated[str | None, typer.Option(help="The launch template that they come from.")]


@on_stack
def set_template(
    session: Session,
    cluster: Name,
    instance_type: TypesOption = None,
    subnet: SubnetsOption = None,
    spares: SparesOption = None,
    spare_group: SpareGroupOption = None,
) -> None:
    """Say what is launched instead of what the launch template says; the group of a node names its template."""
    given = {
        "instance_types": _types(instance_type),
        "subnets": _subnets(subnet),
        "spares": spares,
        "spare_group": spare_group,
    }
    changes = {name: value for name, value in given.items() if value is not None}
    if not changes:
        raise typer.BadParameter("nothing is to be changed")
    registration = session.application.registration
    if changes.get("spares") and not (spare_group or registration.cluster(cluster).spare_group):
        raise typer.BadParameter("--spares needs a --spare-group: the launch template that they come from")
    registration.set_cluster(cluster, changes)
    session.show_one(cluster_document(session.directory.cluster(cluster)), CLUSTER)


def _types(given: list[str] | None) -> tuple[str, ...] | None:
    if given is None:
        return None
    counts, types = gpus_by_instance_type(), tuple(dict.fromkeys(filter(None, given)))
    unknown = [one for one in types if one not in counts]
    if unknown:
        raise typer.BadParameter(f"--instance-type {unknown[0]!r} has no GPUs that Faultbridge knows of")
    if len({counts[one] for one in types}) > 1:
        told = ", ".join(f"{one} has {counts[one]}" for one in types)
        raise typer.BadParameter(f"--instance-type: all need the same number of GPUs, and {told}")
    return types


def _subnets(given: list[str] | None) -> tuple[str, ...] | None:
    if given is None:
        return None
    wrong = [one for one in given if one and not SUBNET.fullmatch(one)]
    if wrong:
        raise typer.BadParameter(f"--subnet {wrong[0]!r} is no id of a subnet")
    return tuple(dict.fromkeys(filter(None, given)))
