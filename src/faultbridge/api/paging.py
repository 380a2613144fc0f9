"""Paging: reads the limit and the page token of a request, and creates the token of the next page."""

from __future__ import annotations

from faultbridge.api.requests import Request
from faultbridge.dataclass import dataclass
from faultbridge.ledger.page_tokens import Tokens
from faultbridge.registry.documents import Document

DEFAULT_LIMIT, MAX_LIMIT = 100, 500


@dataclass(frozen=True, slots=True)
class Paging:
    """Reads and signs the page tokens of lists.

    A token is valid only for one list of one cluster. The parameter `scope` of the methods names the list, such as
    `nodes`.
    """

    tokens: Tokens

    def read(self, request: Request, scope: str) -> tuple[int, str | None]:
        """Return the page size of a request, and the position in the list after which the page begins.

        The position comes from the page token. It is None if the request has no token, which means the first page.
        """
        limit, token = request.integer("limit", DEFAULT_LIMIT, 1, MAX_LIMIT), request.text("token")
        return limit, self.tokens.read(f"{request.cluster}\n{scope}", token) if token else None

    def page(self, request: Request, scope: str, items: list[Document], more: str | None) -> Document:
        """Return a page as a document; `more` is the position after which the next page begins.

        `more` is None for the last page.
        """
        token = self.tokens.sign(f"{request.cluster}\n{scope}", more) if more else None
        return {"items": items, "next": token}
