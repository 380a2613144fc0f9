"""`faultbridge stuck`, and `faultbridge` alone: the stack that answers, its clusters, and what waits for you."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence

from faultbridge.cli.commands.options import AnyClusterOption
from faultbridge.cli.declare import command
from faultbridge.cli.render.columns import CLUSTERS, by_cluster, cluster_document
from faultbridge.cli.render.output import Columns, Document, OutputFormat, fields, notice, print_line, show_one
from faultbridge.cli.stack.session import Session, StackSession
from faultbridge.decide.answers import Answer, node_answer
from faultbridge.model.nodes import NodeState
from faultbridge.model.safe_text import visible_line

MAX_UNREPAIRED = 10
"""Maximum number of nodes without a repair that are printed."""

STUCK: Columns = fields("NODE, STATUS, COMMAND, REASON")


@command("stuck", "", "--cluster train-a --json")
def list_stuck(session: StackSession, cluster: AnyClusterOption = None) -> None:
    """List the nodes and cases that wait for an operator's command, with the command.

    Nodes whose faults start no repair are also listed, with the reason; in JSON, their `command` is null. The command
    `faultbridge node show` shows what would make a repair start. Nodes and cases that are not listed are final or
    continue without an operator.
    """
    clusters = session.cluster_names(cluster)
    answers = _answers(session, clusters)
    found = _stuck(answers)
    unrepaired = [(state, one) for state, one in answers if not one.needs_you and _is_unrepaired(state)]
    if not session.prints_table:
        found += [_document(state, one, None) for state, one in unrepaired]
    if found or not session.prints_table:
        print_stuck(session, found, clusters)
    else:
        notice("nothing to list")
    if session.prints_table:
        _print_unrepaired(unrepaired)


def stuck_documents(session: Session, clusters: Iterable[str]) -> list[Document]:
    """Return a document for each node of the clusters that waits for an operator's command."""
    return _stuck(_answers(session, clusters))


def _stuck(answers: Iterable[tuple[NodeState, Answer]]) -> list[Document]:
    return [_document(state, one, one.commands[0]) for state, one in answers if one.needs_you and one.commands]


def _answers(session: Session, clusters: Iterable[str]) -> list[tuple[NodeState, Answer]]:
    """Return each node of the clusters with its answer."""
    directory, now = session.directory, session.now()
    views = [directory.cluster(name) for name in clusters]
    return [
        (state, node_answer(state, view.config, view.control, now))
        for view in views
        for state in directory.nodes(view.config.cluster)
    ]


def print_stuck(session: Session, found: Sequence[Document], clusters: Sequence[str]) -> None:
    """Print the documents of `stuck_documents`; on a terminal, each with its command on a line of its own."""
    if found and session.output is OutputFormat.TABLE and sys.stdout.isatty():
        for one in found:  # a command on a line of its own can be copied
            print_line(f"{one['cluster']}/{one['node']} is {one['status']}: {visible_line(one['reason'])}")
            print_line(f"    {one['command']}")
    elif found or not session.prints_table:
        session.show(found, by_cluster(STUCK, clusters))


def _is_unrepaired(state: NodeState) -> bool:
    """Return whether a node in service has faults and no live case."""
    in_service = state.status is not None and state.status.in_service
    return in_service and state.live_case is None and any(True for _ in state.active())


def _print_unrepaired(unrepaired: Sequence[tuple[NodeState, Answer]]) -> None:
    for state, without in unrepaired[:MAX_UNREPAIRED]:
        command = f"faultbridge node show {state.key.node} --cluster {state.key.cluster}"
        notice(f"{state.key.stream} is {state.status} without a repair: {without.what} `{command}` shows more")
    if len(unrepaired) > MAX_UNREPAIRED:
        notice(f"more nodes without a repair: {len(unrepaired) - MAX_UNREPAIRED}")


def _document(state: NodeState, answer: Answer, command: str | None) -> Document:
    case = state.live_case
    return {
        "cluster": state.key.cluster,
        "node": state.key.node,
        "status": state.status.value if state.status else None,
        "case": case.id if case else None,
        "case_status": case.status.value if case else None,
        "reason": answer.what,
        "command": command,
        "answer": answer,
    }


PLACE: Columns = fields("Context, Stack, Account, Region, Clusters:len")


@command("overview", "$ faultbridge", "--json")
def show_overview(session: StackSession) -> None:
    """Show which stack answers, its clusters, and what waits for you; so does `faultbridge` alone."""
    names = session.cluster_names()
    clusters = [cluster_document(session.directory.cluster(name)) for name in names]
    place = session.place_document()
    needed = stuck_documents(session, names)
    if session.prints_document({**place, "clusters": clusters, "needs_you": needed}):
        return
    show_one({**place, "clusters": clusters}, PLACE, session.output)
    if clusters:
        print_line()
        session.show(clusters, CLUSTERS)
    print_line()
    print_line(f"Needs you ({len(needed)})" if needed else "Nothing waits for you.")
    print_stuck(session, needed, names)
