"""Generates the page that says how each stored attribute is proven, from the table that `verify` uses."""

from __future__ import annotations

from faultbridge.storage.item_kinds import ITEM_KINDS
from faultbridge.storage.proof import ItemKind, Proof
from infra.docs.markdown import code, page, table

INTRODUCTION = """\
How `faultbridge verify` proves each attribute of each item in the table:

- *hashed*: the hash chain covers it. A change breaks the chain.
- *derived*: `verify` computes it again from hashed attributes, or compares it with a second stored copy. Where there is
  only a second copy (the status and the case in the state of a node), a change of both copies is not detected.
- *unproven*: `verify` does not detect a change.

A principal that can write the table can rewrite a whole chain consistently. Only the anchors detect that: use
`verify --anchor`. A test refuses a stored attribute that this table does not list."""


def generate() -> str:
    """Return the page of all kinds of items."""
    rows = [(kind.name, *(_names(kind, proof) for proof in Proof), kind.limit) for kind in ITEM_KINDS]
    header = ["item", "hashed", "derived", "unproven", "what that means"]
    return page("Proof of stored data", INTRODUCTION, table(header, rows))


def _names(kind: ItemKind, proof: Proof) -> str:
    return " ".join(code(name) for name, one in kind.proofs.items() if one is proof)
