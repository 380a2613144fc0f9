"""`faultbridge` alone, `stuck`, `context` and `top`: the stack that answers, and what waits for you."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from typing import Annotated

from msgspec import Struct

from faultbridge.cli.commands.fleet.orders import BREAKERS, Breaker, breaker_documents
from faultbridge.cli.commands.options import AnyClusterOption, Format
from faultbridge.cli.declare import Argument, BadParameter, Option, Text, command
from faultbridge.cli.errors import requires_extra
from faultbridge.cli.render import columns as render
from faultbridge.cli.render.columns import CLUSTERS, by_cluster, cluster_document
from faultbridge.cli.render.output import Columns, Document, OutputFormat, fields, notice, print_line, show, show_one
from faultbridge.cli.stack import locate
from faultbridge.cli.stack.session import Session, StackSession
from faultbridge.decide.answers import Answer, node_answer
from faultbridge.model.nodes import NodeState
from faultbridge.model.safe_text import visible_line
from faultbridge.repair.registry.documents import Case, Cluster, Incident, Node

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
    if not session.output.for_people:
        session.show([*found, *(_document(state, one, None) for state, one in unrepaired)], STUCK)
        return
    print_stuck(session, found, clusters)
    if not found:
        notice("nothing to list")
    for state, without in unrepaired[:MAX_UNREPAIRED]:
        command = f"faultbridge node show {state.key.node} --cluster {state.key.cluster}"
        notice(f"{state.key.stream} is {state.status} without a repair: {without.what} `{command}` shows more")
    if len(unrepaired) > MAX_UNREPAIRED:
        notice(f"more nodes without a repair: {len(unrepaired) - MAX_UNREPAIRED}")


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
    """Print the documents of nodes that wait; on a terminal, each with its command on a line of its own."""
    if session.output is OutputFormat.TABLE and sys.stdout.isatty():
        for one in found:  # a command on a line of its own can be copied
            print_line(f"{one['cluster']}/{one['node']} is {one['status']}: {visible_line(one['reason'])}")
            print_line(f"    {one['command']}")
    elif found:
        session.show(found, by_cluster(STUCK, clusters))


def _is_unrepaired(state: NodeState) -> bool:
    """Return whether a node in service has faults and no live case."""
    in_service = state.status is not None and state.status.in_service
    return in_service and state.live_case is None and any(True for _ in state.active())


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


@command("overview", "$ faultbridge", "--json")
def show_overview(session: StackSession) -> None:
    """Show which stack answers, its clusters, and what waits for you; so does `faultbridge` alone."""
    names = session.cluster_names()
    clusters = [cluster_document(session.directory.cluster(name)) for name in names]
    place = session.place_document()
    needed = _stuck(_answers(session, names))
    if session.prints_document({**place, "clusters": clusters, "needs_you": needed}):
        return
    show_one({**place, "clusters": clusters}, PLACE | fields("Clusters:len"), session.output)
    if clusters:
        print_line()
        session.show(clusters, CLUSTERS)
    print_line()
    print_line(f"Needs you ({len(needed)})" if needed else "Nothing waits for you.")
    print_stuck(session, needed, names)


CONTEXTS: Columns = fields("CURRENT, CONTEXT, STACK, WHERE, REGION, PROFILE, ENDPOINT=endpoint_url") | {
    "CURRENT": lambda one: "*" if one["current"] else "",
    "WHERE": lambda one: "this machine" if one["embedded"] else "AWS",
}
PLACE: Columns = fields("Context, Stack, Account, Region")
NO_CONTEXT = "-"
"""The name that `context use` takes for no context."""


@command("context list")
def list_contexts(output: Format) -> None:
    """List the contexts of this user, and the embedded stacks that run on this machine."""
    from faultbridge.local import stack_names

    current, contexts = locate.read_contexts()
    embedded = {name: locate.Target(name, embedded=True) for name in stack_names() if name not in contexts}
    rows = [_context_document(name, one, current) for name, one in {**embedded, **contexts}.items()]
    show(
        rows,
        CONTEXTS,
        output,
        empty="no context is stored and no embedded stack runs; `faultbridge context use` stores one",
    )


@command("context show")
def show_context(session: StackSession) -> None:
    """Show the stack that commands use now: its context, account and Region."""
    session.show_one(session.place_document(), PLACE)


@command("context use", "prod --region us-east-1 --profile ops", "prod", "faultbridge", "-")
def use_context(
    output: Format,
    name: Annotated[str, Argument("NAME", "Name of the context; - for none.")],
    stack: Annotated[Text, Option("NAME", "Name of the stack. Default: faultbridge.")] = None,
    region: Annotated[Text, Option("REGION", "AWS region of the stack.")] = None,
    profile: Annotated[Text, Option("PROFILE", "AWS configuration profile.")] = None,
    endpoint_url: Annotated[Text, Option("URL", "AWS endpoint URL.")] = None,
) -> None:
    """Use a context in each later command that names no stack; with options, store the context first.

    A name of `context list` needs no options: also that of an embedded stack. `--context NAME`, the variable
    FAULTBRIDGE_CONTEXT and the options of a stack have precedence. `-` ends the use of a context.
    """
    from faultbridge.local import stack_names

    _, contexts = locate.read_contexts()
    given = locate.Target(
        stack or locate.DEFAULT_STACK, locate.checked_endpoint("--endpoint-url", endpoint_url), region, profile
    )
    if name == NO_CONTEXT:
        locate.write_contexts(None, contexts)
        notice("no context is used")
        return
    if stack or given.has_options:
        contexts[name] = given
    elif name not in contexts and name in stack_names():
        contexts[name] = locate.Target(name, embedded=True)
    chosen = replace(locate.known_context(name, contexts), context=name)
    if not (chosen.embedded or chosen.has_options):
        raise BadParameter(f"context without a place: {name}; give --region, --profile or --endpoint-url")
    contexts[name] = chosen
    locate.write_contexts(name, contexts)
    show_one(_context_document(name, chosen, name), {title.title(): cell for title, cell in CONTEXTS.items()}, output)


def _context_document(name: str, one: locate.Target, current: str | None) -> Document:
    return {
        "context": name,
        "current": name == current,
        **{key: value for key, value in asdict(one).items() if key != "context"},
    }


SECTIONS: tuple[tuple[str, str, Columns], ...] = (
    ("Clusters", "clusters", render.CLUSTERS),
    ("Nodes not healthy", "nodes", render.NODES),
    ("Cases", "cases", render.CASES),
    ("Incidents", "incidents", render.INCIDENTS),
    ("Breakers", "breakers", BREAKERS),
)


class Look(Struct, frozen=True):
    """What needs attention in some clusters, at one time."""

    clusters: list[Cluster]
    nodes: list[Node]
    cases: list[Case]
    incidents: list[Incident]
    breakers: list[Breaker]


def read_look(session: Session, names: list[str]) -> Look:
    """Return the clusters with their unhealthy nodes, live cases, incidents and breakers."""
    views, now = session.directory, session.now()
    clusters = [views.cluster(name) for name in names]
    return Look(
        [render.cluster_document(one) for one in clusters],
        [render.node_document(state, one.config) for one in clusters for state in views.unhealthy(one.config.cluster)],
        [render.case_document(one, now) for name in names for one in views.cases(name)],
        [render.incident_document(one) for name in names for one in views.incidents(name)],
        [document for one in clusters for document in breaker_documents(one.control)],
    )


@command("top", "", "--cluster train-a", "--once")
def show_top(
    session: StackSession,
    cluster: AnyClusterOption = None,
    interval: Annotated[float, Option("SECONDS", "Seconds between two reads.", min=0.5)] = 2,
    once: Annotated[bool, Option(help="Print once and end; the default without a terminal.")] = False,
) -> None:
    """Watch the fleet or a cluster on the full screen: what is not healthy, live cases, incidents and breakers.

    The arrows choose a row, Enter opens it (fleet, cluster, node, case) and Escape goes back. `/` filters the rows. `a`
    acknowledges a case, `s` silences a node or cluster, `p` pauses a cluster: each shows its command before it runs.
    `?` lists the keys, and `q` ends. Install the screen with `pip install 'faultbridge[top]'`.
    """
    names = session.cluster_names(cluster)
    if once or not session.output.for_people or not sys.stdout.isatty():
        _print_once(session, read_look(session, names), names)
        return
    with requires_extra("top"):
        from faultbridge.cli.commands.fleet.top_screen import TopScreen
    TopScreen(session, cluster, interval).run()


def _print_once(session: Session, look: Look, names: list[str]) -> None:
    if session.prints_document(look):
        return
    blank = ""
    for title, name, columns in SECTIONS:
        listed = getattr(look, name)
        if listed:
            print_line(f"{blank}{title} ({len(listed)})")
            show(listed, render.by_cluster(columns, names) if "NODE" in columns else columns, session.output)
            blank = "\n"
