"""The shapes of answers, as models: what the API's description is made from. Nothing that is served imports them."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from faultbridge.api.node_shapes import Component, Count, Instant, Node, Shape


class Problem(Shape):
    """Why a request was not answered (RFC 9457)."""

    type: str = Field(description="`urn:faultbridge:` and a stable word.")
    title: str
    status: int
    detail: str


class Cluster(Shape):
    """A cluster: how it is registered, how it is doing, who holds its repair slots."""

    cluster: str
    status: str | None
    counts: dict[str, int]
    expected: Count
    mode: str
    repair_owner: str
    provider: str
    orchestrator: str
    verifier: str
    restarter: str
    eks_cluster: str | None
    hyperpod_cluster: str | None
    instance_types: list[str]
    subnets: list[str]
    spares: Count
    spare_group: str | None
    pool: dict[str, int]
    provider_role: str | None
    shards: int
    policy: str | None
    version: int
    paused: bool
    maintenance_until: Instant | None
    holders: dict[str, Instant]


class Asked(Shape):
    """What a person was asked about an attempt, until when, and what the answer was; `null`: none yet."""

    attempt: Count
    asked_at: Instant
    answer_by: Instant
    answer: Literal["approved", "denied"] | None
    operator: str | None


class Case(Shape):
    """A case, with the time it spent in each phase so far, in milliseconds."""

    case_id: str
    cluster: str
    node: str
    status: str
    waiting_for: str | None
    resolution: str | None
    reason: str
    code: str
    component: Component
    severity: str
    action: str
    repair_action: str
    attempt: Count
    approval: Asked | None
    opened_at: Instant
    not_before: Instant | None
    closed_at: Instant | None
    age_ms: Count
    phases: dict[str, int]
    rule: str
    policy: str
    previous_case: str | None


class Entry(Shape):
    """An entry: its event without evidence, the hash of the stored body, and whether it was recorded late."""

    metadata: dict[str, Any] = Field(description="As in `schemas/<event>/v1.json`.")
    data: dict[str, Any] = Field(description="As in `schemas/<event>/v1.json` of the entry's type.")
    hash: str
    late: bool = Field(description="Recorded more than two minutes after it happened.")


class Break(Shape):
    """The place from which a stream cannot be trusted, and why."""

    stream: str
    epoch: int
    sequence: int
    kind: str
    detail: str
    object: str | None


class Verified(Shape):
    """What a verification found, without anchors: it proves accidents only (`faultbridge verify --anchor` more)."""

    streams: Count
    entries: Count
    breaks: list[Break]
    whole: bool
    anchored: bool


class Reject(Shape):
    """A record that nobody could use."""

    record_id: str
    cluster: str
    node: str | None
    source: str
    reason: str
    detail: str
    sent_at: Instant
    rejected_at: Instant
    size: int | None


class Clusters(Shape):
    """Every cluster."""

    items: list[Cluster]


class Nodes(Shape):
    """A page of nodes; `next` is the token of the page after it."""

    items: list[Node]
    next: str | None


class Cases(Shape):
    """Cases, oldest first."""

    items: list[Case]


class Entries(Shape):
    """A page of entries; it may be short and have a `next`, which is null on the last page only."""

    items: list[Entry]
    next: str | None


class Stream(Shape):
    """Entries of one stream, and where the stream stands: whoever has all up to `last` has missed nothing."""

    items: list[Entry]
    epoch: int
    last: Count


class Rejects(Shape):
    """Records that nobody could use, oldest first."""

    items: list[Reject]


class Answer(Shape):
    """The answer to an attempt that waits for a person."""

    attempt: int = Field(ge=1, le=9999, description="The attempt that is answered, and no other.")
    reason: str = Field(default="", max_length=256)


class Answered(Shape):
    """The answer that stands."""

    case_id: str
    attempt: int
    answer: Literal["approved", "denied"]


SHAPES = {
    shape.__name__: shape
    for shape in (Problem, Cluster, Clusters, Node, Nodes, Case, Cases, Entries, Stream, Verified, Rejects, Answer)
} | {"Answered": Answered}
