"""Run Slurm operations over slurmrestd, preferably with a tested version of its API."""

from __future__ import annotations

import http.client
import json
import re
import ssl
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any
from urllib.parse import SplitResult, urlsplit

from msgspec import Struct

from faultbridge.adapters.http_post import Limits, limited_connection
from faultbridge.decode.slurm import SlurmNode, slurm_nodes
from faultbridge.model.errors import FaultbridgeError, Misconfigured, Rejected, Transient
from faultbridge.model.names import expand_host_list, rest_address


class SlurmJob(Struct, frozen=True):
    """One job or array task; `reason` is Slurm's reason for the state, empty if it was not read."""

    id: str
    state: str
    reason: str = ""


CONNECT_SECONDS, TOTAL_SECONDS = 3.0, 12.0
MAX_BYTES = 16 * 1024 * 1024
"""The longest answer that is read: about 3,000 jobs of Slurm 24.11, at 5.5 KB each."""


@dataclass(frozen=True, slots=True)
class Access:
    """Access to one slurmrestd; without `authority` (PEM), those of the operating system are used."""

    url: str
    user: str
    token: str = field(repr=False)
    authority: str | None = field(default=None, repr=False)


class Answer(Struct, frozen=True):
    """The HTTP status and the body of a response."""

    status: int
    body: bytes


LIMITS = Limits(CONNECT_SECONDS, TOTAL_SECONDS, MAX_BYTES)


def checked_address(url: str) -> SplitResult:
    """Return the parts of a slurmrestd URL; raises Misconfigured if no token may be sent to the URL."""
    try:
        return urlsplit(rest_address(url))
    except Rejected as error:
        raise Misconfigured(f"no token goes to the address of slurmrestd: {error.detail}") from error


def send(access: Access, method: str, path: str, body: bytes | None = None, limits: Limits = LIMITS) -> Answer:
    """Send one request, without redirects, and return the whole response.

    Raises Transient if no complete response arrives within the limits, and Misconfigured if the address, the
    certificate or the authority is not valid.
    """
    address = checked_address(access.url)
    place = f"slurmrestd at {address.netloc}"
    try:
        context = _context(access.authority) if address.scheme == "https" else None
        with limited_connection(address, context, limits) as (connected, over):
            connection = http.client.HTTPConnection(address.hostname or "", connected.getpeername()[1])
            connection.sock = connected
            headers = {"X-SLURM-USER-NAME": access.user, "X-SLURM-USER-TOKEN": access.token, "Host": address.netloc}
            if body is not None:
                headers["Content-Type"] = "application/json"
            connection.request(method, f"{address.path.rstrip('/')}{path}", body, headers)
            response = connection.getresponse()
            content = response.read(limits.body + 1)
            # An end of the connection also ends headers and bodies without a length, so it is no error by itself.
            if over.is_set():
                raise TimeoutError(f"not complete after {limits.total} seconds")
    except ssl.SSLCertVerificationError as error:
        raise Misconfigured(f"the certificate of {place} is not valid: {error.verify_message}") from error
    except (OSError, http.client.HTTPException) as error:
        raise Transient(f"{place} gave no complete answer: {type(error).__name__}: {str(error)[:200]}") from None
    if len(content) > limits.body:
        raise Transient(f"{place} answered with more than {limits.body} bytes")
    if response.length:
        raise Transient(f"{place} gave no complete answer: {response.length} bytes are missing")
    return Answer(response.status, content)


def _context(authority: str | None) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cadata=authority)
    except (ssl.SSLError, ValueError, TypeError) as error:  # TypeError: not ASCII
        raise Misconfigured(f"the certificate authority of slurmrestd cannot be read: {error}") from error


Document = Mapping[str, Any]

# Numbers of Slurm's errors; version 24.11 answers a look-up of an unknown node with the number 0.
NO_NUMBER, INVALID_NODE_NAME, NOT_AUTHENTICATED = 0, 2018, 1007
DENIED = frozenset({2002, 2010})
"""Access or permission denied, and invalid user id."""

UNAUTHENTICATED = frozenset({HTTPStatus.UNAUTHORIZED, HTTPStatus.NETWORK_AUTHENTICATION_REQUIRED})
NOT_HOLDING = frozenset(
    {"BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "LAUNCH_FAILED", "NODE_FAIL", "OUT_OF_MEMORY"}
    | {"PENDING", "PREEMPTED", "REVOKED", "TIMEOUT"}
)
"""The states of a job that uses no node, unless the job is also COMPLETING."""


def document_of(answer: Answer, action: str) -> Document:
    """Return the JSON object of a response; raises Misconfigured for a refused token, else Transient."""
    try:
        found = json.loads(answer.body)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or not isinstance(found.get("errors", []), list):
        if is_unauthenticated(answer):
            raise failure(answer, {}, action)
        raise Transient(f"{action}: slurmrestd answered with HTTP {answer.status}, and not as documented")
    return found


def error_numbers(document: Document) -> list[int]:
    """Return Slurm's number of each error in a document; 0 for an error without a number."""
    return [_number(error.get("error_number", error.get("errno"))) or NO_NUMBER for error in _errors(document)]


def checked(answer: Answer, action: str) -> Document:
    """Return the document of a response; for a failed response, raise the error that `failure` returns."""
    document = document_of(answer, action)
    if answer.status != HTTPStatus.OK or document.get("errors"):
        raise failure(answer, document, action)
    return document


def is_unauthenticated(answer: Answer) -> bool:
    """Return whether slurmrestd or Slurm does not accept the token."""
    if answer.status in UNAUTHENTICATED:
        return True
    if answer.status < HTTPStatus.INTERNAL_SERVER_ERROR:
        return False
    try:
        found = json.loads(answer.body)
    except (ValueError, RecursionError):
        return False
    return isinstance(found, dict) and NOT_AUTHENTICATED in error_numbers(found)


def failure(answer: Answer, document: Document, action: str) -> FaultbridgeError:
    """Return Misconfigured if the token is not valid or the permission is missing, else Transient."""
    if is_unauthenticated(answer):
        return Misconfigured(f"{action}: slurmrestd does not accept the token; renew it in the secret of SlurmTokens")
    texts = [f"{error.get('description') or ''}: {error.get('error') or ''}".strip(": ") for error in _errors(document)]
    text = f"{action}: {'; '.join(texts)[:300] or f'HTTP {answer.status}'}"
    refused = answer.status == HTTPStatus.FORBIDDEN or not DENIED.isdisjoint(error_numbers(document))
    return Misconfigured(text) if refused else Transient(text)


def nodes_of(document: Document, answer: Answer) -> dict[str, SlurmNode]:
    """Return the nodes in a response, by name; raises Transient if a node cannot be read."""
    rows = document.get("nodes")
    found = {one.name: one for one in slurm_nodes(answer.body.decode(errors="replace"))}
    names = [row.get("name") for row in rows if isinstance(row, dict)] if isinstance(rows, list) else [None]
    if not isinstance(rows, list) or len(names) != len(rows) or sorted(map(str, names)) != sorted(found):
        raise Transient("slurmrestd answered with a list of nodes that cannot be read")
    return found


def jobs_on(document: Document, node: str) -> Iterator[SlurmJob]:
    """Yield the jobs that use resources of a node; raises Transient if a job cannot be read."""
    rows = document.get("jobs")
    if not isinstance(rows, list):
        raise Transient("slurmrestd answered without a list of jobs")
    for row in rows:
        states = _states(row.get("job_state")) if isinstance(row, dict) else []
        if not states or not isinstance(row.get("nodes", ""), str | None):
            raise Transient("slurmrestd answered with a job that cannot be read")
        if ("COMPLETING" in states or NOT_HOLDING.isdisjoint(states)) and node in _hosts(row.get("nodes")):
            yield SlurmJob(_job_id(row), "+".join(states))


def _errors(document: Document) -> list[Document]:
    return [error for error in document.get("errors") or [] if isinstance(error, dict)]


def _states(value: object) -> list[str]:
    """Return the states in upper case, none if unreadable: one text before v0.0.40, a list since then."""
    values = value if isinstance(value, list) else [value]
    texts = [item.upper() for item in values if isinstance(item, str) and item]
    return texts if len(texts) == len(values) else []


def _hosts(text: str | None) -> tuple[str, ...]:
    try:
        return expand_host_list(text) if text else ()
    except Rejected as error:
        raise Transient(f"slurmrestd answered with a job on nodes that cannot be read: {error}") from error


def _job_id(row: Document) -> str:
    array, task = _number(row.get("array_job_id")), _number(row.get("array_task_id"))
    return f"{array}_{task}" if array and task is not None else str(_number(row.get("job_id")))


def _number(value: object) -> int | None:
    """Return a number, or None if it is not set: since v0.0.39 an object with `set` and `number`."""
    if isinstance(value, dict):
        value = value.get("number") if value.get("set") else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None


OLDEST, NEWEST_RUN, NEWEST = 38, 42, 44
"""The versions that are used: v0.0.38 (Slurm 22.05) to v0.0.44 (25.11); v0.0.42 (24.11) is the newest tested one."""

CHANGES_NODES = 39
"""The first version that can change a node."""

DESCRIPTION = "/openapi/v3"
# Slurm 22.05 escapes each slash.
_NODE_PATH = re.compile(rb'"\\?/slurm\\?/v0\.0\.(\d{1,3})\\?/node\\?/')


class RestClient:
    """Sends requests with the user and token of a secret, which is read again when a request fails."""

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
        """Return the API version to use; the offered ones are read at first use and again after HTTP 404."""
        if self.version is None:
            self.version = usable_version(self)
        return self.version


class SlurmRest:
    """Operations over slurmrestd, whose API can neither requeue nor reboot; None means that no head node does it."""

    def __init__(
        self,
        client: RestClient,
        requeue_on_head_node: Callable[[SlurmJob], bool] | None = None,
        reboot_on_head_node: Callable[[str, str], None] | None = None,
    ) -> None:
        self._client, self._requeue, self._reboot = client, requeue_on_head_node, reboot_on_head_node
        self._listed: dict[str, SlurmNode] | None = None

    def node(self, name: str) -> SlurmNode | None:
        """Return a node by its exact name, or None if Slurm does not have the node.

        slurmrestd does not report an unknown node reliably: Slurm 24.11 answers with success and an error without a
        number. If the response contains no node, the list of all nodes is therefore read. If this list contains the
        node, the two responses contradict each other, and Transient is raised.
        """
        action = f"looking up Slurm node {name}"
        answer = self._ask("GET", f"node/{name}")
        document = document_of(answer, action)
        numbers = set(error_numbers(document))
        if not numbers and answer.status == HTTPStatus.OK:
            found = nodes_of(document, answer)
            if set(found) == {name}:
                return found[name]
            if found:
                raise Transient(f"{action}: slurmrestd answered with another node")
        elif not numbers or not numbers <= {NO_NUMBER, INVALID_NODE_NAME}:
            raise failure(answer, document, action)
        if name in self._all_nodes():
            raise Transient(f"{action}: {failure(answer, document, 'slurmrestd lists it, but')}")
        return None

    def jobs(self, name: str) -> tuple[SlurmJob, ...]:
        """Return the jobs on a node; the API has no filter for nodes, so all jobs are listed."""
        document = checked(self._ask("GET", "jobs"), f"listing the jobs of {name}")
        return tuple(jobs_on(document, name))

    def addresses(self) -> dict[str, str]:
        """Return the names of all nodes, by the address at which Slurm reaches each of them."""
        return {one.address: name for name, one in self._all_nodes().items() if one.address}

    def drain(self, name: str, reason: str, state: str = "DRAIN") -> None:
        """Keep new jobs off a node by a state, and store the reason in Slurm."""
        self._change(name, f"draining {name}", {"state": [state], "reason": reason})

    def reboot(self, name: str, reason: str) -> None:
        """Reboot a node through the head node; raises Misconfigured if none is registered."""
        if self._reboot is None:
            raise Misconfigured(f"rebooting {name}: slurmrestd cannot reboot a node; register --slurm-head-node too")
        self._reboot(name, reason)

    def resume(self, name: str) -> None:
        """Resume a drained node, so that it runs jobs again."""
        self._change(name, f"resuming {name}", {"state": ["RESUME"]})

    def comment(self, job_id: str) -> str:
        """Return the comment of a job, empty without one."""
        rows = checked(self._ask("GET", f"job/{job_id}"), f"reading the comment of job {job_id}").get("jobs")
        row = rows[0] if isinstance(rows, list) and rows and isinstance(rows[0], dict) else {}
        return str(row.get("comment") or "")

    def signal(self, job_id: str, signal: str) -> None:
        """Send a signal to the steps of a job, as `scancel --signal`; this cancels nothing.

        Without flags, slurmrestd would signal the batch shell too, which ends at a signal without a handler. Without a
        signal, it would cancel the job; it refuses a signal that it cannot read.
        """
        if self._client.negotiated() < CHANGES_NODES:
            raise Misconfigured(f"signaling job {job_id}: slurmrestd is too old; use Slurm 23.02 or newer")
        path = f"job/{job_id}?signal={signal}&flags=FULL_STEPS_ONLY"
        checked(self._ask("DELETE", path), f"signaling job {job_id}")

    def requeue(self, job: SlurmJob) -> bool:
        """Requeue a job through the head node; raises Misconfigured if none is registered."""
        if self._requeue is None:
            raise Misconfigured(f"requeuing job {job.id}: slurmrestd cannot requeue; register --slurm-head-node too")
        return self._requeue(job)

    def _all_nodes(self) -> dict[str, SlurmNode]:
        if self._listed is None:
            answer = self._ask("GET", "nodes")
            listed = nodes_of(checked(answer, "listing the nodes of Slurm"), answer)
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
        checked(self._ask("POST", f"node/{name}", json.dumps(change).encode()), action)

    def _ask(self, method: str, path: str, body: bytes | None = None) -> Answer:
        answer = self._client(method, f"/slurm/v0.0.{self._client.negotiated()}/{path}", body)
        if answer.status == HTTPStatus.NOT_FOUND:
            # Perhaps slurmrestd was upgraded, and no longer offers this version.
            self._client.version = None
            raise Transient(f"slurmrestd has no {path.partition('/')[0]} in its API: HTTP 404")
        return answer


def usable_version(ask: Callable[[str, str], Answer]) -> int:
    """Return the version N of `v0.0.N`: the newest up to NEWEST_RUN, else the newest that is known.

    Raises Misconfigured without a usable version or an accepted token, and Transient if the versions cannot be read.
    """
    answer = ask("GET", DESCRIPTION)
    if is_unauthenticated(answer):
        raise failure(answer, {}, "reading the versions of its API")
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
