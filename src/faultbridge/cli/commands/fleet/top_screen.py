"""The full screen of `faultbridge top`, with Textual: a stack of tables, from the fleet down to a case."""

from __future__ import annotations

import io
import shlex
from collections.abc import Callable, Mapping
from contextlib import redirect_stderr, redirect_stdout
from typing import Any, ClassVar

from msgspec import Struct
from rich.text import Text
from textual import work
from textual.app import App, ComposeResult
from textual.binding import Binding
from textual.widgets import DataTable, Footer, Input, Static

from faultbridge.cli.app import run
from faultbridge.cli.render import columns as render
from faultbridge.cli.render.output import STYLES, Columns, cell_text
from faultbridge.cli.render.times import short_time, zone_name
from faultbridge.cli.stack.session import Session
from faultbridge.model.errors import FaultbridgeError
from faultbridge.model.nodes import NodeKey
from faultbridge.model.safe_text import visible_line
from faultbridge.repair.registry.documents import shown_case_document, shown_node_document

SEVERITY = {"critical": 0, "degraded": 1, "healthy": 3}
"""The order of the clusters by status; others are between."""


class Place(Struct, frozen=True):
    """What one table shows: the fleet, or a cluster, node or case of it."""

    cluster: str | None = None
    node: str | None = None
    case: str | None = None

    @property
    def title(self) -> str:
        """Return the path of the place, as in `fleet > train-a > gpu-7`."""
        return " > ".join(filter(None, ("fleet", self.cluster, self.node, self.case)))


class Row(Struct, frozen=True):
    """One row: its cells, and the place that Enter opens."""

    cells: tuple[str, ...]
    opens: Place | None = None


class Table(Struct, frozen=True):
    """The rows of a place, their titles, and one line that summarizes them."""

    titles: tuple[str, ...]
    rows: tuple[Row, ...]
    summary: str


def read_table(session: Session, place: Place) -> Table:
    """Return the table of a place from the current state of the stack."""
    if place.case is not None:
        return _case_table(session, place)
    if place.node is not None and place.cluster is not None:
        return _node_table(session, place.cluster, place.node)
    return _cluster_table(session, place.cluster) if place.cluster is not None else _fleet_table(session)


def _fleet_table(session: Session) -> Table:
    found = [render.cluster_document(one) for one in session.directory.clusters()]
    found.sort(key=lambda one: (SEVERITY.get(one.status or "", 2), one.cluster))
    nodes, healthy = sum(one.expected for one in found), sum(one.counts.get("healthy", 0) for one in found)
    rows = tuple(Row(_cells(render.CLUSTERS, one), Place(one.cluster)) for one in found)
    return Table(tuple(render.CLUSTERS), rows, f"{healthy} of {nodes} nodes healthy in {len(found)} clusters")


def _cluster_table(session: Session, cluster: str) -> Table:
    views, now = session.directory, session.now()
    view = views.cluster(cluster)
    shown = render.cluster_document(view)
    cases = {one.key.node: render.case_document(one, now) for one in views.cases(cluster)}
    columns = {**render.NODES, "CASE": lambda one: cases[one.node].status if one.node in cases else None}
    rows = [
        Row(_cells(columns, one), Place(cluster, one.node))
        for one in map(render.node_document, views.unhealthy(cluster))
    ]
    listed = {row.cells[0] for row in rows}
    others = [
        _line("case", render.CASES, one, len(columns), Place(cluster, one.node, one.case_id))
        for one in cases.values()
        if one.node not in listed
    ]
    incidents = [
        _line("incident", render.INCIDENTS, render.incident_document(one), len(columns))
        for one in views.incidents(cluster)
    ]
    rows = [*incidents, *rows, *others]
    paused = ", repairs paused" if shown.paused else ""
    summary = f"{shown.status}, {shown.counts.get('healthy', 0)} of {shown.expected} nodes healthy{paused}"
    return Table(tuple(columns), tuple(rows), summary)


def _line(title: str, columns: Columns, document: Any, width: int, opens: Place | None = None) -> Row:  # noqa: ANN401 - any document
    """Return a document of another kind as one row: its texts in the first cell."""
    texts = [text for text in _cells(columns, document) if text != "-"]
    return Row((f"{title}: {' '.join(texts)}", *[""] * (width - 1)), opens)


def _node_table(session: Session, cluster: str, node: str) -> Table:
    state, view = session.directory.node(NodeKey(cluster, node)), session.directory.cluster(cluster)
    shown = shown_node_document(state, view, session.now())
    case = Place(cluster, node, shown.case.case_id) if shown.case else None
    return _fields(render.SHOWN_NODE, shown, {"Case": case}, shown.answer.what)


def _case_table(session: Session, place: Place) -> Table:
    view, directory = session.directory.case(str(place.case)), session.directory
    cluster, state = directory.cluster(view.key.cluster), directory.node(view.key)
    found = shown_case_document(view, state, cluster, session.now())
    columns = {title: cell for title, cell in render.CASE.items() if title != "Capacity"}
    return _fields(columns, found, {}, f"{found.status}: {found.reason}")


def _fields(columns: Columns, document: Any, opens: Mapping[str, Place | None], summary: str) -> Table:  # noqa: ANN401 - any document
    rows = []
    for title, cell in columns.items():
        lines = cell_text(cell(document)).split("\n")
        rows += [Row(("" if number else title, line), opens.get(title)) for number, line in enumerate(lines)]
    return Table(("FIELD", "VALUE"), tuple(rows), summary)


def _cells(columns: Columns, document: Any) -> tuple[str, ...]:  # noqa: ANN401 - any document
    return tuple(visible_line(cell_text(cell(document))) for cell in columns.values())


def order_line(key: str, place: Place) -> str | None:
    """Return the command that a key proposes for a place; None if the place has no such order."""
    cluster, node, case = place.cluster, place.node, place.case
    if key == "acknowledge" and case:
        return f"ack {case} --reason ''"
    if key == "silence" and cluster:
        return f"silence add --cluster {cluster}{f' --node {node}' if node else ''} --until 2h --reason ''"
    return f"pause --cluster {cluster} --until 2h --reason ''" if key == "pause" and cluster else None


class TopScreen(App[None]):
    """The live screen; it reads the current place again at each interval."""

    CSS = "#summary { padding: 0 1; text-style: bold; } #line { dock: bottom; } DataTable { height: 1fr; }"
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar = [
        Binding("escape,backspace", "up", "Back"),
        Binding("slash", "filter", "Filter", key_display="/"),
        Binding("a", "order('acknowledge')", "Ack"),
        Binding("s", "order('silence')", "Silence"),
        Binding("p", "order('pause')", "Pause"),
        Binding("question_mark", "keys", "Keys", key_display="?"),
        Binding("q", "quit", "Quit"),
    ]
    KEYS = (
        "arrows: choose a row   Enter: open it   Escape: back   /: filter   a: acknowledge the case   "
        "s: silence   p: pause the cluster   q: quit"
    )

    def __init__(self, session: Session, cluster: str | None, interval: float) -> None:
        super().__init__()
        self.session, self.interval = session, interval
        self.places = [Place(), Place(cluster)] if cluster else [Place()]
        self.pattern, self.table, self.problem = "", Table((), (), "reading"), ""
        self.finish: Callable[[str], object] | None = None

    def compose(self) -> ComposeResult:
        """Create the summary, the table, the line for input, and the keys."""
        yield Static(id="summary")
        yield DataTable(cursor_type="row", zebra_stripes=True)
        yield Input(id="line")
        yield Footer()

    def on_mount(self) -> None:
        """Read the first place, and then again at each interval."""
        self.theme = "textual-ansi" if "textual-ansi" in self.available_themes else self.theme
        self.query_one(Input).display = False
        self.query_one(DataTable).focus()
        self.set_interval(self.interval, self.read)
        self.read()

    @property
    def place(self) -> Place:
        """Return what the screen shows now."""
        return self.places[-1]

    @work(thread=True, exclusive=True, group="read")
    def read(self) -> None:
        """Read the current place in a thread, and show it unless the reader moved on."""
        place = self.place
        try:
            table, problem = read_table(self.session, place), ""
        except FaultbridgeError as error:
            table, problem = self.table, visible_line(str(error))
        self.call_from_thread(self.show, place, table, problem)

    def show(self, place: Place, table: Table, problem: str = "") -> None:
        """Show the rows of a place that match the filter; the cursor stays on its row."""
        if place != self.place:
            return
        self.table, self.problem = table, problem
        rows = [row for row in table.rows if self.pattern.lower() in " ".join(row.cells).lower()]
        widget: DataTable[Text] = self.query_one(DataTable)
        at = widget.cursor_row
        widget.clear(columns=True)
        widget.add_columns(*table.titles)
        for row in rows:
            widget.add_row(*(Text(cell, style=STYLES.get(cell, "")) for cell in row.cells))
        widget.move_cursor(row=min(at, max(0, len(rows) - 1)))
        self.shown = rows
        self._summarize()

    def _summarize(self) -> None:
        filtered = f"   filter: {self.pattern}" if self.pattern else ""
        at = f"{short_time(self.session.now())[11:]} {zone_name()}"
        failure = f"   not read: {self.problem}" if self.problem else ""
        text = f"{self.place.title}   {self.table.summary}{filtered}   {self.session.place}, {at}{failure}"
        self.query_one("#summary", Static).update(Text(visible_line(text), overflow="ellipsis", no_wrap=True))

    def _open(self, places: list[Place]) -> None:
        self.places, self.pattern, self.table = places, "", Table((), (), "reading")
        self.show(self.place, self.table)
        self.read()

    def on_data_table_row_selected(self, event: DataTable.RowSelected) -> None:
        """Open the place of the chosen row."""
        opens = self.shown[event.cursor_row].opens if event.cursor_row < len(self.shown) else None
        if opens is not None:
            self._open([*self.places, opens])

    def action_up(self) -> None:
        """Close the input, else end the filter, else go to the place above."""
        if self.finish is not None:
            self._end_input()
        elif self.pattern:
            self.pattern = ""
            self.show(self.place, self.table)
        elif len(self.places) > 1:
            self._open(self.places[:-1])

    def action_filter(self) -> None:
        """Ask for a text; only rows that contain it are shown."""
        self._ask("rows that contain", self.pattern, self._filter)

    def action_keys(self) -> None:
        """Show what each key does."""
        self.notify(self.KEYS, title="Keys", timeout=15)

    def action_order(self, key: str) -> None:
        """Propose the command of an order about the chosen row; it runs when the reader confirms it with Enter."""
        line = order_line(key, self._chosen())
        if line is None:
            self.notify(f"choose a {'case' if key == 'acknowledge' else 'cluster'} first", severity="warning")
        else:
            self._ask("Enter runs, Escape cancels", line, self._run_order)

    def _chosen(self) -> Place:
        """Return the place of the chosen row; for the case of a node, its live case."""
        cursor = self.query_one(DataTable).cursor_row
        opens = self.shown[cursor].opens if cursor < len(self.shown) else None
        place = opens or self.place
        if place.node and place.cluster and not place.case:
            live = self.session.directory.node(NodeKey(place.cluster, place.node)).live_case
            return Place(place.cluster, place.node, live.id if live else None)
        return place

    def _ask(self, title: str, text: str, finish: Callable[[str], object]) -> None:
        line = self.query_one(Input)
        line.placeholder, line.border_title, line.value, line.display = title, title, text, True
        self.finish = finish
        line.focus()

    def _end_input(self) -> None:
        self.finish = None
        self.query_one(Input).display = False
        self.query_one(DataTable).focus()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Give the typed line to the action that asked for it."""
        finish = self.finish
        self._end_input()
        if finish is not None:
            finish(event.value)

    def _filter(self, text: str) -> None:
        self.pattern = text
        self.show(self.place, self.table)

    @work(thread=True)
    def _run_order(self, line: str) -> None:
        """Run a command as on the command line, with the options of this session's stack, and show what it printed."""
        printed = io.StringIO()
        try:
            arguments = [*shlex.split(line), *self.session.target.arguments]
        except ValueError as error:
            self.call_from_thread(self.notify, f"{error}: {line}", severity="error")
            return
        with redirect_stdout(printed), redirect_stderr(printed):
            code = run(arguments)
        self.call_from_thread(
            self.notify, printed.getvalue().strip(), title=line, severity="error" if code else "information", timeout=12
        )
        self.call_from_thread(self.read)
