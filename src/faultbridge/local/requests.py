"""Small HTTP calls to the two emulators' own routes (not to AWS interfaces: those are boto3's)."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import Any

from faultbridge.errors import Transient

# A proxy of the person at the keyboard is not asked about loopback.
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def call(address: str, body: object = None, *, timeout: float = 5.0) -> Any:  # noqa: ANN401 - JSON
    """Return the JSON answer to a GET, or to a POST of a JSON body; `Transient` when there is none."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(  # noqa: S310 - always http on loopback
        address, data=data, headers={"Content-Type": "application/json"}
    )
    try:
        with _OPENER.open(request, timeout=timeout) as answer:
            return json.loads(answer.read())
    except urllib.error.HTTPError as error:
        with error:
            raise Transient(f"{address} answered {error.code}: {error.read(500).decode(errors='replace')}") from None
    except (OSError, ValueError) as error:
        raise Transient(f"{address} does not answer: {error}") from error
