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
    """The documents of a node, job or incident page; `older` states that earlier entries were not read.

    For a node, also its last case, its first jobs, and in `followed` the number of all its jobs.
    """

    document: Document
    entries: tuple[Document, ...]
    older: bool
    jobs: tuple[Document, ...] = ()
    followed: int = 0
    case: CaseFacts | None = None
