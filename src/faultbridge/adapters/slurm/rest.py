"""Run Slurm operations over slurmrestd, preferably with a tested version of its API."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from http import HTTPStatus
from typing import Protocol

from faultbridge.adapters.slurm import rest_answers
from faultbridge.adapters.slurm.https_request import Access, Answer, send
from faultbridge.adapters.slurm.operations import SlurmJob
from faultbridge.adapters.slurm.rest_answers import INVALID_NODE_NAME, NO_NUMBER
from faultbridge.decoders.slurm.node_listing import SlurmNode
from faultbridge.errors import FaultbridgeError, Misconfigured, Transient

OLDEST, NEWEST_RUN, NEWEST = 38, 42, 44
"""The versions that are used: v0.0.38 (Slurm 22.05) to v0.0.44 (25.11); v0.0.42 (24.11) is the newest tested one."""

CHANGES_NODES = 39
"""The first version that can change a node."""

DESCRIPTION = "/openapi/v3"
# Slurm 22.05 escapes each slash.
_NODE_PATH = re.compile(rb'"\\?/slurm\\?/v0\.0\.(\d{1,3})\\?/node\\?/')


class Ask(Protocol):
    """A function that sends one request to slurmrestd: method, path and body."""

    def __call__(self, method: str, path: str, body: bytes | None = None) -> Answer:
        """Return the response to the request; raises Transient if there is no response."""


class RestClient:
    """Sends requests to slurmrestd with the user and token from a secret.

    When a request fails, the secret is read again.
    """

    def __init__(self, read: Callable[[], Access], transport: Callable[..., Answer] = send) -> None:
        self._read, self._transport = read, transport
        self._access: Access | None = None
        self.version: int | None = None

    def __call__(self, method: str, path: str, body: bytes | None = None) -> Answer:
        """Send one request, and return the response.

        A failed request is repeated once if the secret now contains another user, token or certificate authority. Every
        server error counts as failed, because Slurm 22.05 reports an expired token as a server error.
        """
        access = self._access = self._access or self._read()
        try:
            answer = self._transport(access, method, path, body)
        except FaultbridgeError:
            if not self._has_changed(access):
                raise
        else:
            failed = answer.status >= HTTPStatus.INTERNAL_SERVER_ERROR or answer.status == HTTPStatus.UNAUTHORIZED
            if not failed or not self._has_changed(access):
                return answer
        return self._transport(self._access, method, path, body)

    def _has_changed(self, access: Access) -> bool:
        """Read the secret again; returns whether its user, token or certificate authority has changed."""
        self._access = self._read()
        return self._access != access

    def negotiated(self) -> int:
        """Return the API version to use, chosen from those that slurmrestd offers.

        The offered versions are read on first use, and again after a request gets HTTP 404.
        """
        if self.version is None:
            self.version = usable_version(self)
        return self.version


class SlurmRest:
    """Operations on one Slurm cluster over its slurmrestd.

    The API cannot requeue a job, so `requeue_on_head_node` requeues jobs. `requeue_on_head_node` is None if no head
    node is registered.
    """

    def __init__(self, client: RestClient, requeue_on_head_node: Callable[[SlurmJob], bool] | None = None) -> None:
        self._client, self._requeue = client, requeue_on_head_node
        self._listed: dict[str, SlurmNode] | None = None

    def node(self, name: str) -> SlurmNode | None:
        """Return a node by its exact name, or None if Slurm does not have the node.

        slurmrestd does not report an unknown node reliably: Slurm 24.11 answers with success and an error without a
        number. If the response contains no node, the list of all nodes is therefore read. If this list contains the
        node, the two responses contradict each other, and Transient is raised.
        """
        action = f"looking up Slurm node {name}"
        answer = self._ask("GET", f"node/{name}")
        document = rest_answers.document_of(answer, action)
        numbers = set(rest_answers.error_numbers(document))
        if not numbers and answer.status == HTTPStatus.OK:
            found = rest_answers.nodes_of(document, answer)
            if set(found) == {name}:
                return found[name]
            if found:
                raise Transient(f"{action}: slurmrestd answered with another node")
        elif not numbers or not numbers <= {NO_NUMBER, INVALID_NODE_NAME}:
            raise rest_answers.failure(answer, document, action)
        if name in self._all_nodes():
            raise Transient(f"{action}: {rest_answers.failure(answer, document, 'slurmrestd lists it, but')}")
        return None

    def jobs(self, name: str) -> tuple[SlurmJob, ...]:
        """Return the jobs that use resources of a node.

        The API has no filter for nodes, so the call lists all jobs of the cluster.
        """
        document = rest_answers.checked(self._ask("GET", "jobs"), f"listing the jobs of {name}")
        return tuple(rest_answers.jobs_on(document, name))

    def drain(self, name: str, reason: str) -> None:
        """Drain a node, and store the reason in Slurm."""
        self._change(name, f"draining {name}", {"state": ["DRAIN"], "reason": reason})

    def resume(self, name: str) -> None:
        """Resume a drained node, so that it runs jobs again."""
        self._change(name, f"resuming {name}", {"state": ["RESUME"]})

    def requeue(self, job: SlurmJob) -> bool:
        """Requeue a job through the head node; returns False, and changes nothing, if Slurm cannot requeue it.

        Raises Misconfigured if no head node is registered.
        """
        if self._requeue is None:
            raise Misconfigured(f"requeuing job {job.id}: slurmrestd cannot requeue; register --slurm-head-node too")
        return self._requeue(job)

    def _all_nodes(self) -> dict[str, SlurmNode]:
        if self._listed is None:
            answer = self._ask("GET", "nodes")
            listed = rest_answers.nodes_of(rest_answers.checked(answer, "listing the nodes of Slurm"), answer)
            if not listed:
                raise Transient("slurmrestd lists no node at all")
            self._listed = listed
        return self._listed

    def _change(self, name: str, action: str, change: dict[str, object]) -> None:
        version = self._client.negotiated()
        if version < CHANGES_NODES:
            raise Misconfigured(
                f"{action}: slurmrestd offers v0.0.{version}, which cannot change a node; "
                "use Slurm 23.02 or newer, or --slurm-head-node"
            )
        rest_answers.checked(self._ask("POST", f"node/{name}", json.dumps(change).encode()), action)

    def _ask(self, method: str, path: str, body: bytes | None = None) -> Answer:
        answer = self._client(method, f"/slurm/v0.0.{self._client.negotiated()}/{path}", body)
        if answer.status == HTTPStatus.NOT_FOUND:
            # Perhaps slurmrestd was upgraded, and no longer offers this version.
            self._client.version = None
            raise Transient(f"slurmrestd has no {path.partition('/')[0]} in its API: HTTP 404")
        return answer


def usable_version(ask: Ask) -> int:
    """Return the number N of the API version `v0.0.N` to use, among those that slurmrestd offers.

    Versions from OLDEST to NEWEST are usable. NEWEST_RUN, between them, is the newest version that was tested.

    - If slurmrestd offers usable versions up to NEWEST_RUN, the newest of these is used.
    - If slurmrestd offers only usable versions after NEWEST_RUN, the newest of these is used.
    - If slurmrestd offers no usable version, or does not accept the token, Misconfigured is raised.
    - If the versions cannot be read for another reason, Transient is raised.
    """
    answer = ask("GET", DESCRIPTION)
    if rest_answers.is_unauthenticated(answer):
        raise rest_answers.failure(answer, {}, "reading the versions of its API")
    offered = {int(number) for number in _NODE_PATH.findall(answer.body)}
    if answer.status != HTTPStatus.OK or not offered:
        raise Transient(f"slurmrestd does not describe its API at {DESCRIPTION}: HTTP {answer.status}")
    known = offered & set(range(OLDEST, NEWEST + 1))
    if not known:
        raise Misconfigured(
            f"slurmrestd offers only {', '.join(f'v0.0.{one}' for one in sorted(offered))}; "
            f"known: v0.0.{OLDEST} to v0.0.{NEWEST}"
        )
    return max((one for one in known if one <= NEWEST_RUN), default=max(known))
