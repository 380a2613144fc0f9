"""Every error that Faultbridge raises on purpose, and what a caller may do about each.

Three leaves, told apart by what helps: nothing (`Rejected`), time (`Transient`), a person (`Misconfigured`).
What is retried stands here and nowhere else: `Transient` is retried by whoever delivered the work (the queue,
the stream, Step Functions); the other two never are.
"""

from __future__ import annotations


class FaultbridgeError(Exception):
    """Something that Faultbridge knows how to name went wrong."""


class Rejected(FaultbridgeError):  # noqa: N818 - the word of the design: the record goes to the rejects
    """Input that will never be accepted as it is; it is kept with its reason and not tried again by itself.

    `reason` is a stable lower-case word (`unknown_node`, `not_xml`, ...); `detail` is one line for people.
    """

    def __init__(self, reason: str, detail: str = "") -> None:
        """Keep the stable reason apart from the text for people."""
        super().__init__(f"{reason}: {detail}" if detail else reason)
        self.reason = reason
        self.detail = detail


class Transient(FaultbridgeError):  # noqa: N818 - names the situation, as the two beside it do
    """A dependency did not answer, throttled or lost a race; the same call may succeed later."""


class Conflict(Transient):
    """A conditional write lost against another writer; read again and run again."""


class Misconfigured(FaultbridgeError):  # noqa: N818 - names the situation, as the two beside it do
    """A setting, permission or resource is wrong; only a person can mend it."""


class IllegalMove(Rejected):
    """A node or case was to move where the edge tables have no edge for this actor: a bug, never written."""

    def __init__(self, detail: str) -> None:
        """Name the move and who wanted it."""
        super().__init__("illegal_move", detail)
