"""The option `--domain` of `cluster add` and `cluster set`, which declares failure domains.

The option is for failure domains that no inventory reports, such as racks.
"""

from __future__ import annotations

from typing import Annotated

import typer

from faultbridge.domain.cluster.failure_domains import DECLARABLE, DeclaredDomain
from faultbridge.domain.names import expand_host_list, node_name
from faultbridge.domain.nodes import DomainKind
from faultbridge.errors import Rejected

DomainOption = Annotated[
    list[str] | None,
    typer.Option(
        "--domain",
        metavar="KIND/NAME=NODES",
        help="Nodes that fail together, as in rack/r-7=gpu-[01-08]. Replaces all; empty text removes. Repeatable.",
    ),
]


def declared_domains(given: list[str] | None) -> tuple[DeclaredDomain, ...] | None:
    """Return the failure domains of the option `--domain`; None if the option was not given.

    One empty text removes all declared failure domains.
    """
    return None if given is None else tuple(_declared(one) for one in given if one)


def _declared(text: str) -> DeclaredDomain:
    domain, _, nodes = text.partition("=")
    kind, _, name = domain.partition("/")
    if kind not in DECLARABLE:
        raise typer.BadParameter(f"invalid --domain: {text!r}; allowed kinds: {', '.join(DECLARABLE)}")
    if not name or not nodes:
        raise typer.BadParameter(f"invalid --domain: {text!r}; give KIND/NAME=NODES, as in rack/r-7=gpu-[01-08]")
    try:
        expand_host_list(nodes)
        return DeclaredDomain(DomainKind(kind), node_name(name), nodes)
    except Rejected as error:
        raise typer.BadParameter(f"invalid --domain: {text!r}; {error.detail}") from None
