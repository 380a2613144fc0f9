"""Provider conditions: which conditions of a cluster are open after the provider was asked.

The provider's current state opens and ends conditions. An event can only open the condition of a failed launch, and
only while the state shows that its group is not complete.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime

from faultbridge.domain.cluster.provider_status import (
    LAUNCHES,
    NEEDS_OPERATOR,
    ConditionKind,
    ProviderCondition,
    ProviderStatus,
)
from faultbridge.domain.safe_text import visible_line
from faultbridge.pipeline.normalize.mask_secrets import mask

MAX_MESSAGE = 300
MAX_CONDITIONS = 20
"""Limit of the conditions of a cluster, so that its entry stays small."""


def open_conditions(
    stored: Iterable[ProviderCondition],
    reported: Iterable[ProviderCondition],
    status: ProviderStatus,
    now: datetime,
) -> tuple[ProviderCondition, ...]:
    """Return the open conditions of a cluster. Each kind is open once a group, with its first message.

    `stored` were open before, `reported` come from events, and `status` is the provider's current state.
    """
    stored = tuple(stored)
    launches = [one for one in (*stored, *reported) if one.kind in LAUNCHES and not status.is_complete(one.group)]
    known = {(one.kind, one.group): one for one in stored}
    found: dict[tuple[ConditionKind, str | None], ProviderCondition] = {}
    for one in (*launches, *status.conditions):
        key = (one.kind, one.group)
        found.setdefault(key, known.get(key) or replace(one, message=_message(one.message), since=now))
    ordered = sorted(found, key=lambda key: (key[0] not in NEEDS_OPERATOR, key[0], key[1] or ""))
    return tuple(found[key] for key in ordered[:MAX_CONDITIONS])


def target_size(expected: int, registered: Mapping[str, int], status: ProviderStatus) -> int:
    """Return how many nodes a cluster should have: its registered ones, and those that its groups still lack.

    A desired size below the number of registered nodes lowers nothing: a node counts until it is retired.
    """
    return expected + sum(max(status.groups[name].desired - registered.get(name, 0), 0) for name in status.groups)


def _message(text: str) -> str:
    """Return a provider's text on one line, without secrets and of limited length."""
    shown = visible_line(mask(text.encode(errors="replace")).decode(errors="replace"))
    return shown if len(shown) <= MAX_MESSAGE else shown[: MAX_MESSAGE - 3] + "..."
