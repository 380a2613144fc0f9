"""Recognize throttled DynamoDB transactions, and define the retry setting that `table` uses."""

from __future__ import annotations

from collections.abc import Mapping

from botocore.exceptions import ClientError

from faultbridge.adapters.aws.errors import translate
from faultbridge.errors import Conflict, FaultbridgeError, Misconfigured, Transient
from faultbridge.log import log_cause
from faultbridge.retry import Retry

THROTTLE_RETRY = Retry(8)


class ThrottledTransaction(Transient):
    """DynamoDB canceled a transaction because of throttling.

    botocore does not retry such a transaction, although it retries other throttled calls.
    """


# Cancellation reasons of a transaction, and the error that each one becomes. Writes without a problem have none.
REASONS: Mapping[str, type[FaultbridgeError]] = {
    "ConditionalCheckFailed": Conflict,
    "TransactionConflict": Conflict,
    "DuplicateItem": Conflict,
    "ProvisionedThroughputExceeded": ThrottledTransaction,
    "ThrottlingError": ThrottledTransaction,
    "ItemCollectionSizeLimitExceeded": Misconfigured,
    "ValidationError": Misconfigured,
    "AccessDenied": Misconfigured,
}
# The first of these that occurs decides the error of a canceled transaction. Misconfigured comes first, because a retry
# cannot fix it.
PRECEDENCE: tuple[type[FaultbridgeError], ...] = (Misconfigured, Conflict, Transient, ThrottledTransaction)


def cancellation(error: BaseException | None, action: str) -> FaultbridgeError | None:
    """Convert the error of a canceled transaction to a FaultbridgeError.

    Returns None if `error` does not report a canceled transaction. DynamoDB lists a cancellation reason for each write
    of the transaction. These reasons determine the type of the returned error. `action` describes the transaction. The
    error text starts with `action`.
    """
    if not isinstance(error, ClientError) or "CancellationReasons" not in error.response:
        return None
    reasons = [
        (str(reason.get("Code")), str(reason.get("Message", "")))
        for reason in error.response["CancellationReasons"]
        if reason.get("Code") not in (None, "None")
    ]
    text = f"{action}: " + "; ".join(f"{code} {message}".strip() for code, message in reasons)
    kinds = {REASONS.get(code, Transient) for code, _ in reasons}
    return next((kind(text) for kind in PRECEDENCE if kind in kinds), translate(error, action))


def log_throttled(attempt: int, error: Exception, pause: float) -> None:
    """Log a throttled attempt and the pause before the next attempt, in seconds."""
    log_cause("write_throttled", reason=str(error), attempt=attempt, pause_seconds=round(pause, 3))
