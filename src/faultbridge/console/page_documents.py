"""Page documents: the JSON documents from which a console page is built."""

from __future__ import annotations

from faultbridge.dataclass import dataclass
from faultbridge.presentation.cases.case_facts import CaseFacts
from faultbridge.presentation.entry_rows import Document


@dataclass(frozen=True, slots=True)
class CaseDocuments:
    """The documents of the console page of a case.

    `pages` are the notifications that were sent to operators about the case. `older` is True if the case has earlier
    entries that were not read.
    """

    facts: CaseFacts
    pages: tuple[Document, ...]
    older: bool


@dataclass(frozen=True, slots=True)
class StreamDocuments:
    """The documents of a node, job or incident page.

    `document` describes the node, job or incident. `older` is True if there are earlier entries that were not read.
    Only a node page has `case` (the last case of the node), `followed` (the number of followed jobs on the node) and
    `jobs` (the first of these jobs, sorted by id).
    """

    document: Document
    entries: tuple[Document, ...]
    older: bool
    jobs: tuple[Document, ...] = ()
    followed: int = 0
    case: CaseFacts | None = None
