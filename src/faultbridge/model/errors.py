"""The exceptions of Faultbridge, grouped by what the caller must do.

- `Rejected`: the input is invalid, so the caller must not repeat the call. The request or message is not delivered
  again.
- `Transient`: a retry may succeed.
- `Misconfigured`: an operator must change something.

After `Transient` or `Misconfigured`, the service that delivered the work (the queue, the stream or Step Functions)
tries again, a limited number of times.
"""

from __future__ import annotations


class FaultbridgeError(Exception):
    """Base class of Faultbridge's own errors, such as `Rejected`, `Transient` and `Misconfigured`."""


class Rejected(FaultbridgeError):  # noqa: N818 - a term of the design: the record is stored with the rejects
    """The input is invalid, so the caller must not repeat the call.

    `reason` is a stable lower-case code, such as `not_xml`. `detail` is one line of text for operators. A rejected raw
    record is stored with `reason` and `detail`. If its node or cluster was unknown, Faultbridge itself retries the
    record for a day (`ingest.rejects`).
    """

    def __init__(self, reason: str, detail: str = "") -> None:
        """Store the reason code and the detail; the text of the error contains both."""
        super().__init__(f"{reason}: {detail}" if detail else reason)
        self.reason = reason
        self.detail = detail


class Transient(FaultbridgeError):  # noqa: N818 - names the situation, like `Rejected` and `Misconfigured`
    """A retry may succeed: a dependency did not respond, or refused the call for the moment.

    The cause can also be another writer that changed the item first (`Conflict`).
    """


class Conflict(Transient):
    """A conditional write failed because another writer changed the item first; read the item and retry."""


class Misconfigured(FaultbridgeError):  # noqa: N818 - names the situation, like `Rejected` and `Transient`
    """A setting, a permission or a resource is wrong; an operator must fix it."""


class Unverifiable(Misconfigured):
    """The verifier cannot verify an instance; an operator must change the verifier or the instance type."""


class UnknownName(Rejected):
    """A name or id does not exist; the reason code names its kind, such as `unknown_cluster`."""

    def __init__(self, kind: str, name: str, cluster: str | None = None) -> None:
        """Store the unknown name, its kind such as `node`, and the cluster that was searched, if any."""
        where = f" in cluster {cluster}" if cluster else ""
        super().__init__(f"unknown_{kind}", f"unknown {kind}{where}: {name}")
        self.kind, self.name, self.cluster = kind, name, cluster


class IllegalTransition(Rejected):
    """A bug: the transition tables do not allow a status change of a node or case; nothing was written."""

    def __init__(self, detail: str) -> None:
        """Store the text about the refused status change; the reason code is `illegal_move`."""
        super().__init__("illegal_move", detail)
