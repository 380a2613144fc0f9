"""`faultbridge timeline --cause`: shows what caused an event, and what the event caused."""

from __future__ import annotations

from faultbridge.cli.render.columns import CHAIN, entry_document
from faultbridge.cli.render.output import notice
from faultbridge.cli.stack.session import Session
from faultbridge.ledger.causes import MAX_LINKS, read_chain


def show_chain(session: Session, event_id: str) -> None:
    """Print the causes of an event, the event itself and its effects, in the order of recording."""
    chain = read_chain(session.ports.table, event_id)
    session.show(
        (
            {**entry_document(link.line), "relation": link.relation.value, "distance": link.distance}
            for link in chain.links
        ),
        CHAIN,
    )
    if chain.record is not None and session.prints_table:
        notice(f"the chain starts with the raw record {chain.record}")
    if not chain.complete:
        notice(f"output truncated: the event has more than {MAX_LINKS} causes or effects")
