"""`faultbridge cluster template`: sets the instance types, subnets and spares of a cluster.

Instance types and subnets override those of the launch templates.
"""

from __future__ import annotations

import re
from typing import Annotated

import typer

from faultbridge.cli.commands.fleet.changed_settings import show_changed
from faultbridge.cli.commands.options import ClusterArgument
from faultbridge.cli.render.output import examples
from faultbridge.cli.stack.command import stack_command
from faultbridge.cli.stack.session import Session
from faultbridge.data import gpus_by_instance_type

TEMPLATE_EXAMPLES = examples(
    "faultbridge cluster template train-a --instance-type p5.48xlarge \\",
    "    --instance-type p5e.48xlarge --subnet subnet-0a1b2c3d",
    "faultbridge cluster template train-a --spares 2 --spare-group gpu-workers",
)
SUBNET = re.compile(r"subnet-[0-9a-f]{8,17}")

TypesOption = Annotated[
    list[str] | None,
    typer.Option(
        "--instance-type",
        metavar="TYPE",
        help="Instance type to launch; the first with capacity is used. Repeatable. Replaces all. "
        "Empty text: the template's type.",
    ),
]
SubnetsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--subnet",
        metavar="SUBNET_ID",
        help="Subnet to launch in. Repeatable. Replaces all. Empty text: the template's subnet.",
    ),
]
SparesOption = Annotated[
    int | None, typer.Option(min=0, max=100, metavar="N", help="Number of verified spare instances to keep ready.")
]
SpareGroupOption = Annotated[str | None, typer.Option(metavar="NAME", help="Launch template of the spare instances.")]


@stack_command
def set_template(
    session: Session,
    cluster: ClusterArgument,
    instance_type: TypesOption = None,
    subnet: SubnetsOption = None,
    spares: SparesOption = None,
    spare_group: SpareGroupOption = None,
) -> None:
    """Set the instance types, subnets and spares of a cluster.

    Instance types and subnets override the values of the launch templates. With the provider ec2-launch-template, the
    group of a node is the name of its launch template.
    """
    given = {
        "instance_types": _types(instance_type),
        "subnets": _subnets(subnet),
        "spares": spares,
        "spare_group": spare_group,
    }
    changes = {name: value for name, value in given.items() if value is not None}
    if not changes:
        raise typer.BadParameter("no setting given; give at least one option")
    registration = session.application.registry.registration
    if changes.get("spares") and not (spare_group or registration.cluster(cluster).spare_group):
        raise typer.BadParameter("--spares without --spare-group; name the launch template of the spares")
    before = registration.cluster(cluster)
    registration.set_cluster(cluster, changes)
    show_changed(session, before)


def _types(given: list[str] | None) -> tuple[str, ...] | None:
    if given is None:
        return None
    counts, types = gpus_by_instance_type(), tuple(dict.fromkeys(filter(None, given)))
    unknown = [one for one in types if one not in counts]
    if unknown:
        raise typer.BadParameter(
            f"--instance-type without known GPUs: {unknown[0]!r}; give a GPU type such as p5.48xlarge"
        )
    if len({counts[one] for one in types}) > 1:
        listed = ", ".join(f"{one} has {counts[one]}" for one in types)
        raise typer.BadParameter(f"--instance-type with different GPU counts: {listed}; give types with equal counts")
    return types


def _subnets(given: list[str] | None) -> tuple[str, ...] | None:
    if given is None:
        return None
    wrong = [one for one in given if one and not SUBNET.fullmatch(one)]
    if wrong:
        raise typer.BadParameter(f"invalid --subnet: {wrong[0]!r}; give a subnet id such as subnet-0a1b2c3d")
    return tuple(dict.fromkeys(filter(None, given)))
