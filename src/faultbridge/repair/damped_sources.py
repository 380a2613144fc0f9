"""Damped sources: the sources whose claims a whole cluster ignores, because several of them were refuted or expired."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from faultbridge.decide.fold.claims import DAMPED_FOR
from faultbridge.model.cluster.config import DampedSource
from faultbridge.model.entries import Draft
from faultbridge.model.storage.writes import Item
from faultbridge.model.times import from_text
from faultbridge.repair.controls import control_draft

FALSE_CLAIMS = 2
"""The number of false claims of one source within 24 hours from which on the whole cluster ignores its claims."""

MAX_DAMPED_FOR = timedelta(days=7)


def update_damped(
    known: Sequence[DampedSource], rows: Sequence[Item], now: datetime
) -> tuple[tuple[DampedSource, ...], tuple[Draft, ...]]:
    """Return the damped sources of a cluster, and the entries for the sources that are damped or accepted from now on.

    `rows` list, for each node, its false claims: those that were refuted or expired. The first one names its source to
    the operators. A source with `FALSE_CLAIMS` false claims is damped for 24 hours. If it was damped in the last 7
    days, it is damped for twice as long as last time, at most for 7 days, and only later false claims count.
    """
    ends, kept, drafts = _ends(rows), [], []
    last_of = {one.source: one for one in known}
    for source in sorted({*last_of, *ends}):
        last = last_of.get(source)
        if last is not None and not last.over and last.until <= now:
            drafts.append(_draft(last, "damped", "accepted", now, "the time is over; its claims count again"))
            last = replace(last, over=True)
        before = "accepted" if last is None or last.over else "damped"
        false = [at for at in ends.get(source, ()) if last is None or not last.cluster or at > last.until]
        if len(false) >= FALSE_CLAIMS:
            lasts = min(2 * (last.until - last.since), MAX_DAMPED_FOR) if last and last.cluster else DAMPED_FOR
            last = DampedSource(source, now, now + lasts)
            reason = f"{len(false)} claims of {source} were refuted or expired; claims of it are only notes"
            drafts.append(_draft(last, before, "damped", now, reason))
        elif false and last is None:
            last = DampedSource(source, now, false[0] + DAMPED_FOR, cluster=False)
            reason = (
                f"a claim of {source} was refuted or expired; claims of it with the same code are notes on that node"
            )
            drafts.append(_draft(last, before, "damped", now, reason))
        if last is not None and now - last.until < MAX_DAMPED_FOR:
            kept.append(last)
    return tuple(kept), tuple(drafts)


def _ends(rows: Sequence[Item]) -> Mapping[str, list[datetime]]:
    ends: dict[str, list[datetime]] = {}
    for row in rows:
        until = row["until"]
        for name, at in until.items() if isinstance(until, dict) else ():
            ends.setdefault(name.partition(" ")[0], []).append(from_text(str(at)) - DAMPED_FOR)
    return ends


def _draft(one: DampedSource, before: str, after: str, now: datetime, reason: str) -> Draft:
    until = one.until if after == "damped" else None
    name = f"claims:{one.source}"
    return control_draft("claims", before, after, now, reason=reason, until=until, name=name, source=one.source)
