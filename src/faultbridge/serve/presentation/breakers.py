"""Breakers: the limit of a circuit breaker, and sentences about what closes an open breaker and when."""

from __future__ import annotations

from datetime import datetime, timedelta

from faultbridge.model.cluster.state import BreakerLimit, BreakerScope, domain_of
from faultbridge.model.policy import Policy
from faultbridge.model.times import from_text
from faultbridge.record.entry_text import duration_text
from faultbridge.serve.presentation.entry_rows import Document


def breaker_limit(breaker: Document, policy: Policy | None) -> BreakerLimit | None:
    """Return the limit that a policy, if there is one, sets for the scope of a breaker, or None."""
    scope = BreakerScope.CLUSTER if domain_of(str(breaker["name"])) is None else BreakerScope.DOMAIN
    return next((one for one in policy.breakers if one.scope is scope), None) if policy else None


def breaker_end(breaker: Document, limit: BreakerLimit | None, now: datetime) -> tuple[str, str]:
    """Return two texts about an open or half-open breaker: what ends this state, and what follows."""
    trial = f"{limit.trial} repair{'s' if limit.trial > 1 else ''}" if limit else "a few repairs"
    if breaker["state"] == "half_open":
        return (
            f"The breaker permits {trial} at a time as a trial, until fewer nodes fail than its limit.",
            "If another node or a repair fails before, it opens again. An operator can close it.",
        )
    if breaker["stays_open"]:
        return (
            "The breaker stays open until no node fails, or an operator closes it.",
            "It opened too often within a day, so no further trial starts by itself.",
        )
    quiet, earliest = "for some time", ""
    if limit:
        quiet = f"for {duration_text(limit.quiet // timedelta(milliseconds=1))}"
        at = from_text(str(breaker["since"])) + limit.quiet
        earliest = f", at least until {at:%Y-%m-%d %H:%M} UTC" if at > now else ""
    return (
        f"The breaker stays open until no further node has failed {quiet}{earliest}.",
        f"It then closes if fewer nodes fail than its limit, and otherwise permits {trial} at a time as a trial. "
        "An operator can close it before.",
    )
