"""The models of the API's documents, for the OpenAPI description: pydantic models of the structures of the routes."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from functools import cache
from inspect import getdoc
from types import GenericAlias, UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from msgspec import NODEFAULT, Struct
from msgspec.structs import FieldInfo, fields
from pydantic import BaseModel, ConfigDict, Field, create_model

from faultbridge.model.enums import RepairAction
from faultbridge.model.findings import Mark
from faultbridge.record.history import DeviceEvent
from faultbridge.repair.jobs.reports import JobReport
from faultbridge.repair.registry.documents import Case, Cluster, Entry, Incident, Node, Reject, Silence
from faultbridge.repair.registry.hardware_documents import Finding, Offender
from faultbridge.repair.registry.job_views import Job
from faultbridge.repair.registry.views import CasePageSent
from faultbridge.serve.api.problems import Problem
from faultbridge.serve.api.routes import ROUTES
from infra.event_models import limits

CLOSED = frozenset({RepairAction, Mark})
"""The vocabularies whose values the description lists; any other one may grow, and is a text for clients."""

LISTS: Mapping[type[Struct], tuple[str, str]] = {
    Cluster: ("Clusters", "A list of all clusters."),
    Node: ("Nodes", "A page of nodes. `next` is the token of the next page, or null."),
    Case: ("Cases", "A list of cases, oldest first."),
    CasePageSent: (
        "CasePages",
        "The pages (notifications to operators) that were sent about a case, sorted by kind.\n\n"
        "A page is listed for 30 days after it was sent.",
    ),
    Incident: ("Incidents", "A list of incidents, oldest first."),
    Entry: (
        "Entries",
        "A page of entries. `next` is the token of the next page; only the last page has null.\n\n"
        "A page with fewer entries than the limit is not necessarily the last page.",
    ),
    Silence: ("Silences", "The silences of a cluster that have not ended, the earliest start first."),
    Reject: ("Rejects", "A list of rejected records, earliest sent first."),
    DeviceEvent: ("DeviceEvents", "The history of a device in one cluster, oldest first."),
    Offender: (
        "Offenders",
        "Pairs of a device (card) and a slot with repeated severe faults.\n\nThe pair with the most faults is first.",
    ),
    Finding: ("Findings", "A list of findings, oldest first."),
    Job: ("Jobs", "A page of jobs in the order of their ids. `next` is the token of the next page, or null."),
}
"""The name and the description of the list, or of a page of the list, of a class of documents."""

Instant = Annotated[str, Field(json_schema_extra={"format": "date-time"}, description="RFC 3339, UTC, milliseconds.")]


def models() -> dict[str, type[BaseModel]]:
    """Return the models of the responses and of the bodies of all routes, by name."""
    bodies = [model(route.body, is_body=True) for route in ROUTES if route.body]
    responses = [model(route.response) for route in ROUTES]
    return {one.__name__: one for one in (*responses, *bodies, model(Problem))}


@cache
def model(kind: type[Struct], *, is_body: bool = False) -> type[BaseModel]:
    """Return the model of a structure, or of a list of structures; all fields of a response are always present."""
    config = ConfigDict(extra="forbid", strict=True, json_schema_extra={"additionalProperties": kind is not JobReport})
    given: dict[str, Any] = {one.name: _field(one, is_body=is_body) for one in fields(kind)}
    name, text = LISTS[get_args(kind)[0]] if get_args(kind) else (kind.__name__, getdoc(kind))
    return create_model(name, __config__=config, __doc__=text, **given)


def _field(one: FieldInfo, *, is_body: bool) -> tuple[object, object]:
    hint, found = _with_metas(one.type)
    if is_body and one.default is not NODEFAULT:
        found["default"] = one.default
    if is_body and one.default_factory is not NODEFAULT:
        found["default"] = one.default_factory()
    return _hint(hint), Field(**found)


def _with_metas(hint: object) -> tuple[object, dict[str, Any]]:
    """Return an annotation without its limits and descriptions, and these for pydantic's `Field`."""
    if get_origin(hint) is not Annotated:
        return hint, {}
    inner, *metas = get_args(hint)
    text = next((meta.description for meta in metas if meta.description), None)
    return inner, limits(tuple(metas)) | ({"description": text} if text else {})


def _hint(hint: Any) -> Any:  # noqa: ANN401 - any annotation
    if get_origin(hint) is Annotated:
        inner, found = _with_metas(hint)
        return Annotated[_hint(inner), Field(**found)] if found else _hint(inner)
    if get_origin(hint) in {Union, UnionType}:
        return Union[tuple(_hint(one) for one in get_args(hint))]  # noqa: UP007 - of a variable number
    if get_origin(hint) in {tuple, list, dict}:
        inner = _hint(get_args(hint)[get_origin(hint) is dict])
        return GenericAlias(dict, (str, inner)) if get_origin(hint) is dict else GenericAlias(list, (inner,))
    if isinstance(hint, type) and issubclass(hint, Struct):
        return model(hint)
    is_open = isinstance(hint, type) and issubclass(hint, StrEnum) and hint not in CLOSED
    return str if is_open else Instant if hint is datetime else hint
