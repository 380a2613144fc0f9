"""Repeat offenders: whether a card or its slot is the cause of faults that come back.

A card that fails in several slots is suspect, and so is a slot in which several cards fail. The likelihood ratio is how
much more likely the card is the cause than the slot. It is computed from the faults of the card in its other slots, and
from the faults of other cards in the slot.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from math import prod
from typing import NamedTuple

from msgspec import Struct

DECISIVE = 3
"""The likelihood ratio from which one explanation is favored."""


class Place(NamedTuple):
    """A PCI slot of a host: the host, and the PCI address in the host."""

    host: str
    pci: str


class Stay(NamedTuple):
    """One use of a card in a slot, with the number of faults that the card had there."""

    card: str
    place: Place
    faults: int = 0


class Trials(NamedTuple):
    """The tests of one suspected cause, a card or a slot: their number, and how many had a fault.

    Each test is another pair of card and slot that contains the suspect: the same card in another slot, or another card
    in the same slot.
    """

    number: int
    faulty: int


class Odds(NamedTuple):
    """The probability of a fault if the cause is present (`repeat`) or absent (`background`), from 0 to 1."""

    repeat: float
    background: float

    def weight(self, trials: Trials) -> float:
        """Return the likelihood of the trials with the cause present, divided by that with the cause absent."""
        fault, none = self.repeat / self.background, (1 - self.repeat) / (1 - self.background)
        return prod((fault,) * trials.faulty) * prod((none,) * (trials.number - trials.faulty))


class Offender(Struct, frozen=True):
    """A card that had faults in a slot, with the evidence against the card and against the slot.

    `card` are the tests of the card: the other slots in which it was. `slot` are the tests of the slot: the other cards
    that were in it. `ratio` is how much more likely the card is the cause than the slot.
    """

    name: str
    place: Place
    faults: int
    card: Trials
    slot: Trials
    ratio: float

    @property
    def favors(self) -> str:
        """Return the cause that is at least `DECISIVE` times as likely, `card` or `slot`, else `undetermined`."""
        return "card" if self.ratio >= DECISIVE else "slot" if self.ratio <= 1 / DECISIVE else "undetermined"


def find_offenders(stays: Iterable[Stay], odds: Odds, min_faults: int = 2) -> tuple[Offender, ...]:
    """Return the pairs of card and slot with repeated faults, most faults first.

    The card of each pair had a fault in the slot of the pair, and at least one of these is true:

    - The card had at least `min_faults` faults in the slot.
    - The card had a fault in another slot.
    - Another card had a fault in the slot.
    """
    merged: dict[tuple[str, Place], int] = {}
    for stay in stays:
        merged[stay.card, stay.place] = merged.get((stay.card, stay.place), 0) + stay.faults
    known = [Stay(card, place, faults) for (card, place), faults in merged.items()]
    found = [_offender(stay, known, odds) for stay in known if stay.faults]
    repeated = [one for one in found if one.faults >= min_faults or one.card.faulty or one.slot.faulty]
    return tuple(sorted(repeated, key=lambda one: (-one.faults, one.name, one.place)))


def _offender(stay: Stay, known: Collection[Stay], odds: Odds) -> Offender:
    card = _trials(one for one in known if one.card == stay.card and one.place != stay.place)
    slot = _trials(one for one in known if one.place == stay.place and one.card != stay.card)
    return Offender(stay.card, stay.place, stay.faults, card, slot, odds.weight(card) / odds.weight(slot))


def _trials(stays: Iterable[Stay]) -> Trials:
    counted = [one.faults > 0 for one in stays]
    return Trials(len(counted), sum(counted))
