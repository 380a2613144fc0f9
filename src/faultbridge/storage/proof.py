"""Proof: how `faultbridge verify` proves the attributes of one kind of table item.

`item_kinds` lists all kinds.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum

from faultbridge.dataclass import dataclass
from faultbridge.storage.writes import Key


class Proof(StrEnum):
    """Whether and how `faultbridge verify` proves an attribute of a table item.

    HASHED: the hash chain covers it. DERIVED: `verify` computes it again from proven attributes, or compares it with a
    second stored copy. UNPROVEN: `verify` does not detect a change.
    """

    HASHED = "hashed"
    DERIVED = "derived"
    UNPROVEN = "unproven"


@dataclass(frozen=True, slots=True)
class ItemKind:
    """One kind of table item, and how each of its attributes is proven.

    - `pk` and `sk` are regular expressions for the keys of the items.
    - `hashed`, `derived` and `unproven` contain the names of the attributes with that proof, separated by spaces. The
      name `state.head` means one key of the mapping `state`.
    - Every item also has `schema` and `updated_at`, which are unproven unless they are listed.
    - `may_lack` contains the names of derived attributes whose absence is not detected.
    - `limit` explains, for example, what the unproven attributes are used for, or when a derived attribute is not
      compared.
    """

    name: str
    pk: str
    sk: str
    hashed: str = ""
    derived: str = ""
    unproven: str = ""
    may_lack: str = ""
    limit: str = ""
    proofs: Mapping[str, Proof] = field(init=False, hash=False, compare=False)
    listed: frozenset[str] = field(init=False, hash=False, compare=False)

    def __post_init__(self) -> None:
        """Compute which attributes are listed, and how each of them is proven."""
        proofs = dict.fromkeys(("schema", "updated_at", *self.unproven.split()), Proof.UNPROVEN)
        proofs |= dict.fromkeys(self.derived.split(), Proof.DERIVED)
        proofs |= dict.fromkeys(self.hashed.split(), Proof.HASHED)
        object.__setattr__(self, "proofs", proofs)
        parts = (name.partition(".")[0] for name in proofs)
        object.__setattr__(self, "listed", frozenset({"pk", "sk", *proofs, *parts}))

    def matches(self, key: Key) -> bool:
        """Return whether an item with this key is of this kind."""
        return re.fullmatch(self.pk, key.pk) is not None and re.fullmatch(self.sk, key.sk) is not None

    def lists(self, attribute: str) -> bool:
        """Return whether this kind of item lists an attribute, or one key of a mapping (`state.head`)."""
        return attribute in self.listed

    def proof(self, attribute: str) -> Proof | None:
        """Return how an attribute or one key of a mapping (`state.head`) is proven; None if not listed."""
        return self.proofs.get(attribute)
