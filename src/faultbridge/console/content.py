"""Content: the response to a page request, with headers that restrict what a browser loads and embeds."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from http import HTTPStatus

from faultbridge.dataclass import dataclass

HTML, CSV, JSON = "text/html; charset=utf-8", "text/csv; charset=utf-8", "application/json"

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'"
)
"""The content security policy: only own files, no inline script or style, no other host, no frame."""

SECURITY: Mapping[str, str] = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
REVALIDATE = "private, no-cache"
IMMUTABLE = "private, max-age=31536000, immutable"


def entity_tag(version: str) -> str:
    """Return the weak entity tag (HTTP `ETag`) for a page.

    `version` is a text that changes when the page shows another state, such as the text of the page itself.
    """
    return f'W/"{hashlib.sha256(version.encode()).hexdigest()[:32]}"'


@dataclass(frozen=True, slots=True)
class Content:
    """A response: its text, its media type, its status, and how long a browser may cache it.

    - If `file_name` is set, the browser saves the text as a file of this name. If it is None, the browser shows it.
    - `tag` is the entity tag. If it is empty, the tag is derived from the text.
    - Two texts with the same entity tag show the same state. Only durations until now may differ, such as "open for
      2m".
    """

    text: str
    media_type: str = HTML
    status: HTTPStatus = HTTPStatus.OK
    cache: str = REVALIDATE
    file_name: str | None = None
    tag: str = ""

    def headers(self) -> dict[str, str]:
        """Return the HTTP headers of the response, security headers included."""
        attachment = {"Content-Disposition": f'attachment; filename="{self.file_name}"'} if self.file_name else {}
        return {
            **SECURITY,
            "Content-Type": self.media_type,
            "Cache-Control": self.cache,
            "ETag": self.tag or entity_tag(self.text),
            **attachment,
        }

    def not_modified(self, if_none_match: str) -> bool:
        """Return whether the client already has this content, so that the content need not be sent.

        `if_none_match` is the request header with the entity tags of the content that the client has. The result is
        False if the status of the response is not 200.
        """
        named = {one.strip() for one in if_none_match.split(",")}
        return self.status is HTTPStatus.OK and (self.tag or entity_tag(self.text)) in named
