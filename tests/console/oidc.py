"""A local OIDC issuer, and a check of its tokens as API Gateway documents it for JWT authorizers.

The check follows the page "Control access to HTTP APIs with JWT authorizers" of the API Gateway guide: the signature by
the key `kid` of the `jwks_uri`, then `iss`, `aud` or `client_id`, `exp`, `nbf` and `iat`. It is not AWS's code.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.request import urlopen

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.hashes import SHA256

KEY_ID = "key-1"
METADATA = "/.well-known/openid-configuration"


def encode(data: bytes) -> str:
    """Return base64url without padding."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def decode(text: str) -> bytes:
    """Return the bytes of base64url without padding."""
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


class Issuer:
    """An issuer with one RSA key; `address` is its issuer identifier once it is served."""

    def __init__(self) -> None:
        self.key = rsa.generate_private_key(65537, 2048)
        self.address = ""

    def document(self, path: str) -> dict[str, Any]:
        """Return the metadata of the issuer, or its keys."""
        if path == METADATA:
            return {"issuer": self.address, "jwks_uri": f"{self.address}/keys"}
        number = self.key.public_key().public_numbers()
        parts = {
            name: encode(value.to_bytes(256, "big").lstrip(b"\0")) for name, value in (("n", number.n), ("e", number.e))
        }
        return {"keys": [{"kty": "RSA", "alg": "RS256", "use": "sig", "kid": KEY_ID, **parts}]}

    def token(self, *, algorithm: str = "RS256", **claims: Any) -> str:
        """Return a signed token with these claims."""
        parts = ({"alg": algorithm, "kid": KEY_ID, "typ": "JWT"}, {"iss": self.address, **claims})
        signed = ".".join(encode(json.dumps(part).encode()) for part in parts)
        signature = self.key.sign(signed.encode(), padding.PKCS1v15(), SHA256()) if algorithm == "RS256" else b""
        return f"{signed}.{encode(signature)}"


@contextmanager
def served(issuer: Issuer) -> Iterator[Issuer]:
    """Serve the metadata and the keys of an issuer on loopback."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = json.dumps(issuer.document(self.path)).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Write no access log."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    issuer.address = f"http://127.0.0.1:{server.server_port}"
    try:
        yield issuer
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def authorize(header: str, issuer: str, audience: str, now: float) -> dict[str, str] | None:
    """Return the claims that API Gateway passes to the function, all as text, or None for a refused token."""
    try:
        head, body, signature = header.removeprefix("Bearer ").split(".")
        kind, claims = json.loads(decode(head)), json.loads(decode(body))
        numbers = _key(issuer, kind["kid"])
        numbers.public_key().verify(decode(signature), f"{head}.{body}".encode(), padding.PKCS1v15(), SHA256())
    except (ValueError, KeyError, InvalidSignature):
        return None
    audiences = claims.get("aud", claims.get("client_id", ()))
    valid = (
        kind["alg"].startswith("RS")
        and claims.get("iss") == issuer
        and audience in ([audiences] if isinstance(audiences, str) else audiences)
        and claims.get("exp", 0) > now
        and claims.get("nbf", 0) <= now
        and claims.get("iat", 0) <= now
    )
    return {name: _text(value) for name, value in claims.items()} if valid else None


def _key(issuer: str, key_id: str) -> rsa.RSAPublicNumbers:
    with urlopen(f"{issuer}{METADATA}") as answer:  # noqa: S310 - a loopback address
        address = json.load(answer)["jwks_uri"]
    with urlopen(address) as answer:  # noqa: S310 - a loopback address
        found = {one["kid"]: one for one in json.load(answer)["keys"]}[key_id]
    return rsa.RSAPublicNumbers(*(int.from_bytes(decode(found[name]), "big") for name in ("e", "n")))


def _text(value: object) -> str:
    """Return a claim as API Gateway passes it: a list as `[a b]`."""
    return f"[{' '.join(map(str, value))}]" if isinstance(value, list) else str(value)
