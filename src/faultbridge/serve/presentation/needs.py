"""Needs: the states of a cluster in which an operator must act, each with its answer from the table of answers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec import Struct

from faultbridge.decide.answers import Answer, answer
from faultbridge.repair.registry.documents import Breaker, Cluster, Incident, ShownNode


class Need(Struct, frozen=True):
    """A state that needs an operator: what it is about, its answer, and the node, case or incident to look at."""

    name: str
    answer: Answer
    node: str = ""
    case_id: str = ""
    incident_id: str = ""


def cluster_needs(cluster: Cluster, nodes: Iterable[ShownNode], incidents: Iterable[Incident]) -> tuple[Need, ...]:
    """Return what needs an operator in a cluster: what concerns many nodes first, then node by node."""
    paused = [f"by {one.by}{f': {one.reason}' if one.reason else ''}" for one in cluster.pauses]
    provider = [one.message for one in cluster.provider_conditions]
    every = (
        *(Need(f"Incident on {one.domain.name}", incident_answer(one, cluster), incident_id=one.incident_id)
          for one in incidents),
        *(Need(f"Breaker of {one.name.removeprefix('domain:')}", _breaker_answer(one, cluster))
          for one in cluster.breakers),
        *((Need("Provider", _answer("provider.action_required", cluster, reason="; ".join(provider))),)
          if provider else ()),
        *((Need("Pause", _answer("pause.paused", cluster, reason="; ".join(paused))),) if paused else ()),
        *(Need(one.node, one.answer, one.node, one.case.case_id if one.case else "") for one in nodes),
    )  # fmt: skip
    return tuple(one for one in every if one.answer.needs_you)


def incident_answer(incident: Incident, cluster: Cluster) -> Answer:
    """Return the answer for an incident."""
    status = "origin" if incident.status == "open" and incident.origin else incident.status
    known = status in {"open", "origin", "recovering", "expired", "closed"}
    return _answer(
        f"incident.{status if known else 'open'}",
        cluster,
        reason=incident.reason,
        nodes=incident.nodes,
        incident_id=incident.incident_id,
    )


def _breaker_answer(breaker: Breaker, cluster: Cluster) -> Answer:
    known = breaker.state if breaker.state in {"half_open", "closed"} else "open"
    state = "stays_open" if breaker.state == "open" and breaker.stays_open else known
    return _answer(f"breaker.{state}", cluster, reason=f"{breaker.failing} of {breaker.of} nodes failed")


def _answer(row: str, cluster: Cluster, **fields: Any) -> Answer:  # noqa: ANN401 - the values of the fields
    names = ("cluster", "mode", "repair_owner", "orchestrator")
    acts = cluster.mode == "act" and cluster.repair_owner == "faultbridge"
    return answer(row, {**{name: getattr(cluster, name) for name in names}, "repairs": acts, **fields})
