"""The bus: one event that may want a person."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from faultbridge.adapters.telemetry import emit
from faultbridge.services.pager.deliver import Fate

if TYPE_CHECKING:
    from faultbridge.bootstrap import Application


def pager(event: Mapping[str, Any], application: Application) -> None:
    """Take one event of the bus and send the pages that it asks for; raises when a page could not be sent."""
    delivered = application.page(event["detail"])
    fates = Counter(page.fate.value for page in delivered)
    emit({f"Pages{fate.value.title().replace('_', '')}": fates[fate.value] for fate in Fate})
