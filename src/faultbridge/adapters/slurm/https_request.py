"""Send one request to slurmrestd, with limits on time and length; no error contains the token."""

from __future__ import annotations

import http.client
import ssl
from dataclasses import field
from urllib.parse import SplitResult, urlsplit

from faultbridge.adapters.limited_connection import Limits, limited_connection
from faultbridge.dataclass import dataclass
from faultbridge.domain.names import rest_address
from faultbridge.errors import Misconfigured, Rejected, Transient

CONNECT_SECONDS, TOTAL_SECONDS = 3.0, 12.0
MAX_BYTES = 16 * 1024 * 1024
"""The longest answer that is read: about 3,000 jobs of Slurm 24.11, at 5.5 KB each."""


@dataclass(frozen=True, slots=True)
class Access:
    """Access to one slurmrestd: its URL, user, token and certificate authority.

    `authority` is PEM. If `authority` is None, the certificate authorities of the operating system are used.
    """

    url: str
    user: str
    token: str = field(repr=False)
    authority: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Answer:
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
    """Send one request and return the whole response; redirects are not followed.

    Raises Transient if no complete response arrives within the limits. Raises Misconfigured if the address, the
    certificate or the certificate authority is not valid.
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
