"""Page documents: the documents that one page is built from."""

from __future__ import annotations

from dataclasses import dataclass

from faultbridge.presentation.cases.case_facts import CaseFacts
from faultbridge.presentation.entry_rows import Document


@dataclass(frozen=True, slots=True)
class CaseDocuments:
    """The documents of a case page; `older` states that earlier entries were not read."""

    facts: CaseFacts
    pages: tuple[Document, ...]
    older: bool


@dataclass(frozen=True, slots=True)
class StreamDocuments:
    """A document, the newest entries of its stream (`older`: not all), and of a node its last case and first jobs."""

    document: Document
    entries: tuple[Document, ...]
    older: bool
    jobs: tuple[Document, ...] = ()
    followed: int = 0
    case: CaseFacts | None = None
