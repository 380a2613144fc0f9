"""The Kubernetes nodes of our nodes: found by the instance in the node, patched by what they are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http import HTTPStatus

from lightkube import Client
from lightkube.resources.core_v1 import Node
from lightkube.types import PatchType

from faultbridge.adapters.kubernetes.client import Kubernetes, Refused
from faultbridge.adapters.kubernetes.marks import Patch
from faultbridge.ports import Member

MAX_TRIES = 3
"""How often a node is read and patched again when somebody else changes it at the same time."""


@dataclass(frozen=True, slots=True)
class Members:
    """The nodes of one cluster.

    `spec.providerID` says which instance a node is, because a successor has another name; names only save reading
    all nodes.
    """

    api: Kubernetes
    names: dict[str, str] = field(default_factory=dict)

    def find(self, member: Member) -> Node | None:
        """Return the node in which the instance sits, or None."""
        for name in dict.fromkeys(self._likely(member)):
            found = self._read(name)
            if found is not None and _is(found, member):
                return self._known(member, found)
        if member.instance_id is None:
            return None
        return next((self._known(member, found) for found in self.api.nodes() if _is(found, member)), None)

    def patch(self, member: Member, make: Callable[[Node], Patch | None]) -> Node:
        """Patch a node by what it is, again when somebody else was faster; returns it as it was before.

        Refused with 404 when there is no such node, with 409 when somebody else always is faster.
        """
        for tries in range(1, MAX_TRIES + 1):
            found = self.find(member)
            if found is None:
                raise Refused(HTTPStatus.NOT_FOUND, f"the cluster has no node with instance {member.instance_id}")
            patch = make(found)
            if patch is None:
                return found
            try:
                self._patch(name_of(found), patch)
            except Refused as refused:
                if refused.status != HTTPStatus.CONFLICT or tries == MAX_TRIES:
                    raise
            else:
                return found
        raise AssertionError("the last try returns or raises")

    def _patch(self, name: str, patch: Patch) -> None:
        def apply(client: Client) -> None:
            client.patch(Node, name, patch, patch_type=PatchType.MERGE)

        self.api.ask(f"patching node {name}", apply)

    def _read(self, name: str) -> Node | None:
        try:
            return self.api.ask(f"reading node {name}", lambda client: client.get(Node, name))
        except Refused as refused:
            if refused.status == HTTPStatus.NOT_FOUND:
                return None
            raise

    def _likely(self, member: Member) -> Iterator[str]:
        if member.instance_id:
            if member.instance_id in self.names:
                yield self.names[member.instance_id]
            if member.cluster.hyperpod_cluster:
                yield f"hyperpod-{member.instance_id}"
        yield from (member.node, *member.aliases)

    def _known(self, member: Member, found: Node) -> Node:
        if member.instance_id:
            self.names[member.instance_id] = name_of(found)
        return found


def name_of(node: Node) -> str:
    """Return what the cluster calls a node."""
    return str(node.metadata.name) if node.metadata else ""


def _is(found: Node, member: Member) -> bool:
    if member.instance_id is None:
        return name_of(found) == member.node
    provider_id = (found.spec.providerID if found.spec else None) or ""
    return provider_id.endswith(f"/{member.instance_id}") or name_of(found) == f"hyperpod-{member.instance_id}"
