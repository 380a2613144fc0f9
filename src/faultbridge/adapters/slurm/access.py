"""Select the access to Slurm for a registered cluster: slurmrestd or the head node.

slurmrestd is used if its address is registered, else the head node.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable

from faultbridge.adapters.aws.clients import Clients
from faultbridge.adapters.slurm.head_node import connect
from faultbridge.adapters.slurm.https_request import Access, checked_address
from faultbridge.adapters.slurm.operations import SlurmOperations
from faultbridge.adapters.slurm.rest import RestClient, SlurmRest
from faultbridge.adapters.slurm.scontrol import Scontrol
from faultbridge.domain.cluster.config import ClusterConfig
from faultbridge.errors import Misconfigured

_USER = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,31}")
_TOKEN = re.compile(r"[A-Za-z0-9_.~+/=-]{1,8192}")


def connections(clients: Clients, read_tokens: Callable[[], bytes]) -> Callable[[ClusterConfig], SlurmOperations]:
    """Return a function that returns the Slurm operations of a registered cluster.

    `read_tokens` reads the secret with the tokens of slurmrestd. The returned function raises Misconfigured if neither
    slurmrestd nor a head node is registered.
    """
    head_node = connect(clients)
    known: dict[str, RestClient] = {}

    def of_cluster(config: ClusterConfig) -> SlurmOperations:
        url = config.slurm_rest
        if not url:
            return Scontrol(head_node(config))
        client = known.setdefault(url, RestClient(lambda: access_of(read_tokens(), url)))
        return SlurmRest(client, Scontrol(head_node(config)).requeue if config.slurm_head_node else None)

    return of_cluster


def access_of(document: bytes, url: str) -> Access:
    """Return the user, token and certificate authority for the slurmrestd at an address.

    `document` is `{"URL": {"user": NAME, "token": JWT, "ca": PEM}}`. Raises Misconfigured if the document has no valid
    entry for the address, or if the address is neither an https URL nor on loopback. No error contains a value of the
    document.
    """
    checked_address(url)
    try:
        entries = json.loads(document)
        given = entries.get(url)
        user, token, authority = (given["user"], given["token"], given.get("ca")) if given else (None, None, None)
    except (ValueError, AttributeError, KeyError, TypeError):
        raise Misconfigured("the tokens of slurmrestd cannot be read; correct the JSON in the secret") from None
    if token is None:
        raise Misconfigured(f"no token is configured for {url}; add it to the secret of SlurmTokens")
    if not isinstance(user, str) or not _USER.fullmatch(user):
        raise Misconfigured(f"the user for {url} is not a user name; correct it in the secret of SlurmTokens")
    if not isinstance(token, str) or not _TOKEN.fullmatch(token):
        raise Misconfigured(f"the token for {url} is not a JSON Web Token; correct it in the secret of SlurmTokens")
    if authority is not None and not isinstance(authority, str):
        raise Misconfigured(f"the authority for {url} is not PEM; correct it in the secret of SlurmTokens")
    return Access(url, user, token, authority)
