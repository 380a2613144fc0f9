"""A pager in memory."""

from __future__ import annotations

from faultbridge.ports import PageMessage
from faultbridge.simulation.fakes.seams import Seam


class FakePager:
    """A Pager (fake) that remembers every page, repetitions included; `tried` has those too that it did not take."""

    def __init__(self, *, seam: Seam | None = None) -> None:
        self.seam = seam or Seam()
        self.sent: list[PageMessage] = []
        self.tried: list[PageMessage] = []

    def send(self, page: PageMessage) -> str:
        """Take it."""
        if "default" not in page.bodies:
            raise ValueError(f"page {page.key} has no default body")
        self.tried.append(page)
        with self.seam.around("pager", "send", page):
            self.sent.append(page)
            return f"message-{len(self.sent)}"

    @property
    def keys(self) -> list[str]:
        """The keys of the pages, in order, repetitions included."""
        return [page.key for page in self.sent]
