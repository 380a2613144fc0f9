"""`faultbridge fleet`: creates, breaks and heals fake GPU nodes on the embedded stack."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from faultbridge import local
from faultbridge.cli.commands.options import ClusterArgument, ClusterOption, Format, StackName
from faultbridge.cli.commands.records.send import sender
from faultbridge.cli.declare import Argument, Group, Option, command
from faultbridge.cli.render.columns import NODES, node_document
from faultbridge.cli.render.output import Columns, fields
from faultbridge.cli.stack.locate import DEFAULT_STACK, Target, require_embedded_stack
from faultbridge.cli.stack.session import Session, use_session
from faultbridge.model.cluster.config import ClusterConfig, Mode, RepairOwner
from faultbridge.model.errors import Rejected
from faultbridge.model.names import expand_host_list
from faultbridge.model.nodes import Instance, NodeKey, NodeState
from faultbridge.model.values import replace
from faultbridge.repair.registry.registration import NewNode, Registration
from faultbridge.serve.ingest.send import RawInput
from faultbridge.serve.wiring.services import wire_registration

# The faults that `faultbridge fleet break` injects into nodes of the embedded stack.

# The link is listed as configured: an unused link may be down, and that is no fault.
_LINK = (
    '{"interfaces": [{"ifname": "ib0", "flags": ["BROADCAST", "UP"%s], "operstate": "%s", "link_type": "infiniband"}],'
    ' "configured": ["ib0"]}'
)
LINK_UP = _LINK % (', "LOWER_UP"', "UP")
"""A health snapshot of the links of a node in which no link is down."""


class FleetFault(StrEnum):
    """The names of the faults that can be injected into nodes of the embedded stack."""

    GPU_LOST = "gpu-lost"
    GPU_MEMORY = "gpu-memory"
    LINK_DOWN = "link-down"


@dataclass(frozen=True, slots=True)
class Injection:
    """One injected fault: its record, whether diagnostics fail, and whether only until a `reset`."""

    source: str
    record: str
    fails_diagnostics: bool = True
    until: str | None = None


INJECTIONS: Mapping[FleetFault, Injection] = {
    FleetFault.GPU_LOST: Injection(
        "kernel-log", "NVRM: Xid (PCI:0000:c1:00): 79, pid=1234, name=python, GPU has fallen off the bus.\n"
    ),
    FleetFault.GPU_MEMORY: Injection(
        "kernel-log",
        "NVRM: Xid (PCI:0000:c1:00): 48, pid=1234, name=python, An uncorrectable double bit error (DBE) has been"
        " detected on GPU.\n",
        until="reset",
    ),
    FleetFault.LINK_DOWN: Injection("link-state", _LINK % ("", "DOWN"), fails_diagnostics=False),
}


NODE_NAME = "gpu-{}"
NO_PROVIDER = "none"
CHANGED: Columns = fields("NODE, INSTANCE=instance_id, CHANGE")
NodesArgument = Annotated[list[str], Argument("NODE...", "Nodes, or host lists such as gpu-[1-4].")]


def _embedded_session(output: Format, stack: StackName = DEFAULT_STACK) -> Session:
    require_embedded_stack(stack)
    return use_session(Session(Target(stack), output, embedded=True))


EmbeddedSession = Annotated[Session, Group(_embedded_session)]


@command("fleet create", "lab", "lab --nodes 16")
def create(
    session: EmbeddedSession,
    cluster: ClusterArgument,
    nodes: Annotated[int, Option("N", "Number of nodes: gpu-1 to gpu-N.", min=1, max=64)] = 8,
    mode: Annotated[Mode, Option(help="Mode of the cluster.")] = Mode.ACT,
) -> None:
    """Create a cluster of fake GPU nodes on the embedded stack, and register it.

    In the default mode `act`, Faultbridge repairs the nodes.
    """
    from faultbridge.adapters.ec2.inventory import Ec2Inventory

    registration = wire_registration(session.application)
    config = ClusterConfig(cluster, mode=mode, repair_owner=RepairOwner.FAULTBRIDGE)
    registration.add_cluster(replace(config, provider=NO_PROVIDER))
    local.create_fleet(cluster, nodes, stack=session.target.stack)
    add_fleet(registration, config, Ec2Inventory(session.clients).serving_instances(config, cluster))
    session.show(map(node_document, session.directory.nodes(cluster)), NODES)


def add_fleet(registration: Registration, config: ClusterConfig, instances: Iterable[Instance]) -> None:
    """Register instances as `gpu-1` and so on; the provider is set last, because its inventory would rename them."""
    for number, instance in enumerate(instances, 1):
        registration.add_node(config.cluster, replace(NewNode.of_instance(instance), name=NODE_NAME.format(number)))
    registration.set_cluster(config.cluster, {"provider": config.provider})


@command("fleet break", "gpu-1 --cluster lab", "'gpu-[1-4]' --cluster lab --fault link-down")
def break_nodes(
    session: EmbeddedSession,
    nodes: NodesArgument,
    cluster: ClusterOption,
    fault: Annotated[FleetFault, Option(help="Fault to inject.")] = FleetFault.GPU_LOST,
) -> None:
    """Break nodes of the embedded stack: each node reports the fault as a real node does.

    With gpu-lost and gpu-memory, the diagnostics of the instance also fail until the instance is replaced or the node
    is healed. A GPU reset also repairs gpu-memory. With link-down, the node reports that a network link is down.
    """
    chosen = INJECTIONS[fault]
    states = list(_states(session, cluster, nodes))
    for state in states:
        if chosen.fails_diagnostics:
            local.break_diagnostics(_compute_endpoint(session), _instance(state), until=chosen.until)
    _send(session, states, chosen.source, chosen.record)
    _show(session, states, f"{fault} injected and reported")


@command("fleet heal", "gpu-1 --cluster lab")
def heal_nodes(session: EmbeddedSession, nodes: NodesArgument, cluster: ClusterOption) -> None:
    """Heal the hardware of nodes: diagnostics pass again, and links are reported as up.

    The command returns no node to service. For a node with an escalated case, use `faultbridge node return`.
    """
    states = list(_states(session, cluster, nodes))
    for state in states:
        local.heal_instance(_compute_endpoint(session), _instance(state))
    _send(session, states, "link-state", LINK_UP)
    _show(session, states, "healed")


def _states(session: Session, cluster: str, nodes: Iterable[str]) -> Iterator[NodeState]:
    for node in dict.fromkeys(one for given in nodes for one in expand_host_list(given)):
        yield session.directory.node(NodeKey(cluster, node))


def _instance(state: NodeState) -> str:
    instance = state.incarnation.instance_id if state.incarnation else None
    if instance is None:
        raise Rejected("no_instance", f"node has no instance: {state.key.node}")
    return instance


def _compute_endpoint(session: Session) -> str:
    return require_embedded_stack(session.target.stack).compute_endpoint


def _send(session: Session, states: Iterable[NodeState], source: str, record: str) -> None:
    body = record.encode()
    sender(session)(
        # As the agent does, a record names its instance: right after a replacement, the node alone is ambiguous.
        RawInput(source, state.key.cluster, body, node=state.key.node, instance_id=_instance(state))
        for state in states
    )


def _show(session: Session, states: Iterable[NodeState], change: str) -> None:
    rows = [
        {"cluster": state.key.cluster, "node": state.key.node, "instance_id": _instance(state), "change": change}
        for state in states
    ]
    session.show(rows, CHANGED)
    session.remark(f"`faultbridge timeline --cluster {rows[0]['cluster']} --follow` shows what happens next")
