"""Case facts: the documents from which the page of a case is built."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from faultbridge.dataclass import dataclass
from faultbridge.domain.policy import Policy
from faultbridge.domain.times import from_text
from faultbridge.presentation.entry_rows import Document


@dataclass(frozen=True, slots=True)
class CaseFacts:
    """The documents of a case; `meaning` is the name of the fault code in the catalog.

    `policy` is None unless a budget or a breaker delays the repair now. `failing` names the other nodes with a live
    case. It is empty unless a breaker delays the repair now.
    """

    case: Document
    node: Document
    cluster: Document
    entries: Sequence[Document]
    meaning: str = ""
    policy: Policy | None = None
    failing: Sequence[str] = ()

    @property
    def now(self) -> datetime:
        """The time for which the case is described: the current time of a live case, the end of a closed case."""
        return from_text(str(self.case["opened_at"])) + timedelta(milliseconds=self.case["age_ms"])
