"""Show which settings of a cluster a command changed, with the old and the new values."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from datetime import datetime

from faultbridge.cli.render.columns import CLUSTER, cluster_document
from faultbridge.cli.render.output import Columns, Document, notice
from faultbridge.cli.render.times import applies_text, json_time, short_time
from faultbridge.cli.stack.session import Session
from faultbridge.domain.cluster.config import ClusterConfig, ProviderRole
from faultbridge.domain.cluster.failure_domains import DeclaredDomain
from faultbridge.domain.times import to_text

CHANGES: Columns = {
    "SETTING": lambda one: one["setting"],
    "BEFORE": lambda one: one["before"],
    "NOW": lambda one: one["now"],
}


def show_changed(session: Session, before: ClusterConfig, effect: str = "") -> None:
    """Print the settings of a cluster that differ from `before`, and the time from which they apply.

    As JSON, the whole cluster is printed. `effect` describes the new settings, as a sentence for people.
    """
    view = session.directory.cluster(before.cluster)
    applies_at = json_time(session.applies_at()) or ""
    if not session.prints_table:
        session.show_one({**cluster_document(view), "applies_at": applies_at}, CLUSTER)
        return
    changes = list(_changes(before, view.config))
    if not changes:
        notice(f"no setting of {before.cluster} changed{': ' if effect else ''}{effect}")
        return
    session.show(changes, CHANGES)
    notice(f"cluster {before.cluster}: {effect + '; ' if effect else ''}this applies {applies_text(applies_at)}")


def _changes(before: ClusterConfig, after: ClusterConfig) -> Iterator[Document]:
    for one in fields(ClusterConfig):
        old, new = getattr(before, one.name), getattr(after, one.name)
        if old != new and one.name != "version":
            yield {"setting": one.name.replace("_", " "), "before": _text(old), "now": _text(new)}


def _text(value: object) -> str:
    match value:
        case None:
            text = ""
        case bool():
            text = "yes" if value else "no"
        case datetime():
            text = short_time(to_text(value))
        case ProviderRole():
            text = value.arn
        case DeclaredDomain():
            text = f"{value.kind}/{value.name}={value.nodes}"
        case tuple():
            text = ", ".join(map(_text, value))
        case _:
            text = str(value)
    return text
