"""`faultbridge decode` decodes raw text to faults and clears; `faultbridge sources` lists the formats."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

from faultbridge.cli.commands import options
from faultbridge.cli.declare import Argument, BadParameter, Group, Option, Text, Texts, command
from faultbridge.cli.errors import failure_of
from faultbridge.cli.render.output import Columns, Document, fields, notice, show
from faultbridge.cli.render.times import PAST_HELP, json_time, parse_received_at, short_time
from faultbridge.decide.normalize.compare import differences
from faultbridge.decide.normalize.timestamp import assign_times
from faultbridge.decode import registry
from faultbridge.decode.captures import Part, may_be_capture, parts_of, read_parts
from faultbridge.decode.data import load_catalog, sources_with
from faultbridge.decode.data.counters import thresholds_with
from faultbridge.decode.frames.body import unpacked_pieces
from faultbridge.decode.frames.decoder import Decoded, Hints
from faultbridge.model.errors import Rejected
from faultbridge.model.faults import Clear, Component, CounterSample, Fault, Observation, Snapshot
from faultbridge.model.names import cluster_name, node_name

# A decoder returns these as attributes. The document has them as fields of their own.
_INCARNATION = ("record_id", "instance_id", "boot_id")


def documents(observations: Iterable[Observation], hints: Hints, *, everything: bool) -> Iterator[Document]:
    """Yield a document for each fault and clear; `everything` adds health snapshots and counter samples.

    The hints have the cluster, and the node of observations without one.
    """
    for one in observations:
        if isinstance(one, Fault | Clear):
            yield _fault_document(one, hints)
        elif isinstance(one, Snapshot):
            yield from (_fault_document(fault, hints) for fault in one.present)
            if everything:
                yield _common("snapshot", one, hints) | {
                    "covers": {code: [each.document() for each in listed] for code, listed in one.covers.items()},
                    "present": [fault.code for fault in one.present],
                    "devices": [device.document() for device in one.devices],
                }
        elif everything:
            own = {"component": one.component.document(), "values": dict(one.values)}
            yield _common("counter_sample", one, hints) | own


def _fault_document(found: Fault | Clear, hints: Hints) -> dict[str, Any]:
    catalog = load_catalog()
    fault = catalog.classify(found) if isinstance(found, Fault) else None
    row = catalog.row_of(found) if isinstance(found, Fault) else catalog.row(found.code)
    return {
        "kind": "fault" if fault else "clear",
        "source": found.source,
        "code": found.code,
        "failure_mode": row.mode,
        "severity": fault.severity if fault else None,
        "action": fault.action if fault else None,
        "component": found.component.document(),
        "observed_at": json_time(found.observed_at),
        "node": found.node or hints.node,
        "cluster": hints.cluster,
        "message": found.message,
        "evidence": found.evidence,
        "attributes": {name: value for name, value in found.attributes.items() if name not in _INCARNATION},
        "catalog": catalog.version,
        "known": catalog.knows(row.code),
        "count": fault.count if fault else 1,
    } | {name: found.attributes.get(name) for name in _INCARNATION}


def _common(kind: str, one: Snapshot | CounterSample, hints: Hints) -> dict[str, Any]:
    at, node = json_time(one.observed_at), one.node or hints.node
    return {"kind": kind, "source": one.source, "observed_at": at, "node": node, "cluster": hints.cluster}


def summary_document(source: str, decoded: Decoded) -> Document:
    """Return the number of observations (`parsed`) and of parts not understood (`unparsed`)."""
    counts = {"parsed": len(decoded.observations), "unparsed": decoded.unparsed}
    return {"kind": "summary", "source": source, "observed_at": None, "node": None, **counts, "notes": decoded.notes}


def what_text(document: Document) -> str:
    """Return the code or kind, the component, as in `gpu 0000:c1:00`, and `cleared` for a clear."""
    component = document.get("component", {})
    names = [component[name] for name in ("pci", "name", "index", "uuid", "link") if component.get(name) is not None]
    ended = ["cleared"] if document["kind"] == "clear" else []
    kind = [component["type"]] if component else []
    return " ".join(map(str, [document.get("code") or document["kind"], *kind, *names[:1], *ended]))


AUTO = "auto"
CHUNK_BYTES = 64 * 1024
"""Bytes of each read. `--source auto` first tries to recognize the format from the first chunk."""


@dataclass(slots=True)
class Inputs:
    """Decodes several input files; a file that is rejected or cannot be read does not stop the others.

    Each fault and clear becomes one output document, with `everything` each snapshot and counter sample too.
    """

    source: str
    hints: Hints
    everything: bool
    count: int = 0
    unparsed: int = 0
    lines: int = 0
    unparsed_lines: int = 0
    faults: int = 0
    unknown_codes: dict[str, None] = field(default_factory=dict)
    samples: dict[tuple[str, Component, str | None], CounterSample] = field(default_factory=dict)
    sample_counts: Counter[tuple[str, Component, str | None]] = field(default_factory=Counter)
    failure: Rejected | OSError | None = None

    @property
    def read_once(self) -> int:
        """Return the number of devices whose counters were read only once, so that no increase is known."""
        return len({(component, node) for (_, component, node), count in self.sample_counts.items() if count == 1})

    def decode(self, files: list[str]) -> Iterator[Document]:
        """Yield the decoded documents of the files; the error of a file is stored in `failure`."""
        for file in files:
            try:
                for document in self._decode_file(file):
                    self.count += 1
                    is_of_log = document["source"] in sources_with("lines")
                    self.faults += document["kind"] in {"fault", "clear"} and is_of_log
                    if not document.get("known", True):
                        self.unknown_codes[document["code"]] = None
                    yield document
            except Rejected as error:
                self._fail(Rejected(error.reason, f"{options.input_title(file)}: {error.detail or error.reason}"))
            except OSError as error:
                if error.filename is None:  # not about a file, but for example about a closed pipe
                    raise
                self._fail(error)

    def _fail(self, failure: Rejected | OSError) -> None:
        if self.failure is not None:
            notice(failure_of(self.failure).message)
        self.failure = failure

    def _decode_file(self, file: str) -> Iterator[Document]:
        with nullcontext(options.standard_input()) if file == options.STDIN else Path(file).open("rb") as stream:
            chunks = unpacked_pieces(iter(lambda: stream.read(CHUNK_BYTES), b""))
            first = next(chunks, b"")
            source = self.source
            is_capture = source == AUTO and may_be_capture(first)
            is_envelope = source == AUTO and registry.needs_whole(first)
            if is_capture or is_envelope:
                first += _up_to(registry.MAX_BYTES, chunks)
            parts = parts_of(first) if is_capture and len(first) <= registry.MAX_BYTES else ()
            if parts:
                source = ", ".join(dict.fromkeys(part.source for part in parts if part.source))
                notice(f"recognized {options.input_title(file)} as the outputs of several commands: {source}")
                found = self._read_parts(parts)
            else:
                if source == AUTO:
                    first, source = _recognized(first, chunks, is_whole=is_envelope)
                    notice(f"recognized {options.input_title(file)} as {source}")
                size = max(len(first), 1) if is_envelope else CHUNK_BYTES
                begin = (first[at : at + size] for at in range(0, len(first), size))
                found = registry.read_pieces(source, self._counted(source, chain(begin, chunks)), self.hints)
                self.unparsed_lines += found.unparsed if source in sources_with("lines") else 0
        self.unparsed += found.unparsed
        check = f"{found.unparsed} lines or documents were not understood; check them, they can hold faults"
        for note in (*found.notes, *([check] if found.unparsed else ())):
            notice(f"{options.input_title(file)}: {note}")
        observations = assign_times(found.observations, received_at=self.hints.received_at or datetime.now(UTC))
        decoded = documents(self._compared(observations), self.hints, everything=self.everything)
        is_partial = self.everything and (found.unparsed > 0 or found.notes != ())
        return chain(decoded, [summary_document(source, found)]) if is_partial else decoded

    def _read_parts(self, parts: tuple[Part, ...]) -> Decoded:
        logs = tuple(part for part in parts if part.source in sources_with("lines"))
        for part in logs:
            for _ in self._counted(part.source or "", [part.output.body]):
                pass
        # The decoded capture does not state in which outputs the lines are that were not understood.
        self.unparsed_lines += read_parts(logs, self.hints).unparsed
        return read_parts(parts, self.hints)

    def _counted(self, source: str, chunks: Iterable[bytes]) -> Iterator[bytes]:
        last = b""
        for chunk in chunks:
            if source in sources_with("lines"):
                self.lines += chunk.count(b"\n")
            last = chunk or last
            yield chunk
        if source in sources_with("lines") and last and not last.endswith(b"\n"):
            self.lines += 1

    def _compared(self, observations: Sequence[Observation]) -> tuple[Observation, ...]:
        """Add the faults that a comparison of counter samples, also of earlier files, shows."""
        nodes = {one.node for one in observations}
        earlier = [one for one in self.samples.values() if one.node in nodes]
        compared = differences([*earlier, *observations], thresholds_with(self.hints.mappings))[len(earlier) :]
        for one in observations:
            if isinstance(one, CounterSample):
                key = one.source, one.component, one.node
                self.samples[key] = one
                self.sample_counts[key] += 1
        return compared


def _up_to(size: int, chunks: Iterator[bytes]) -> bytes:
    """Return at least `size` bytes of the next chunks, or all of them."""
    parts, length = [], 0
    while length < size and (chunk := next(chunks, None)) is not None:
        parts.append(chunk)
        length += len(chunk)
    return b"".join(parts)


def _recognized(first: bytes, chunks: Iterator[bytes], *, is_whole: bool) -> tuple[bytes, str]:
    """Return the bytes read so far, and the source that recognizes them; reads more if it must."""
    try:
        return first, registry.recognize(first if is_whole else first[:CHUNK_BYTES])
    except Rejected as error:
        if error.reason != "unknown_format" or is_whole:
            raise
    first += _up_to(registry.MAX_BYTES - len(first), chunks)
    return first, registry.recognize(first[: registry.MAX_BYTES])


DECODED: Columns = fields("TIME (UTC), WHAT, SEVERITY, ACTION, MESSAGE, NODE, FAILURE MODE") | {
    "TIME (UTC)": lambda one: short_time(one["observed_at"])[5:],
    "WHAT": what_text,
    "SEVERITY": lambda one: one.get("severity"),
    "ACTION": lambda one: one.get("action"),
    "MESSAGE": lambda one: one.get("message") or _summary(one),
    "FAILURE MODE": lambda one: one.get("failure_mode"),  # last, so that a narrow terminal hides it first
}
SOURCES: Columns = fields("SOURCE, FORMAT, EXAMPLE")


@command("sources", "", "--jsonl")
def list_sources(*, output: options.Format) -> None:
    """List the source names for `decode --source` and `send --source`, with an example of each format."""
    decoders = (registry.get(name) for name in registry.names())
    listed = ({"source": one.name, "format": one.summary, "example": one.example} for one in decoders)
    show(listed, SOURCES, output)


def _hints(
    cluster: Annotated[Text, Option("CLUSTER", "Cluster of the input.", envvar=options.CLUSTER_VARIABLE)] = None,
    node: Annotated[Text, Option("NODE", "Node, where the input names none.")] = None,
    received_at: Annotated[Text, Option("TIME", f"Time for input without times; default: now. {PAST_HELP}")] = None,
    mappings: Annotated[
        Path | None, Option("FILE", "Your own fault mappings and thresholds (JSON), used before the packaged ones.")
    ] = None,
    instance_type: Annotated[
        Text, Option("TYPE", "EC2 instance type of the node, to check its GPUs and EFA rates (p5.48xlarge).")
    ] = None,
) -> Hints:
    return Hints(
        parse_received_at(received_at, datetime.now(UTC)),
        _checked_name(node_name, node, "--node"),
        _checked_name(cluster_name, cluster, "--cluster"),
        instance_type=instance_type,
        mappings=options.read_mappings(mappings),
    )


@command(
    "decode",
    "/var/log/kern.log",
    "$ nvidia-smi -q -x | faultbridge decode --jsonl",
    "--source kernel-log --node n-7 dmesg.txt",
)
def decode(
    files: Annotated[Texts, Argument("FILE", "Files to decode. Default: standard input.")] = None,
    source: Annotated[str, Option("NAME", "Source name from `faultbridge sources`; auto recognizes it.")] = AUTO,
    everything: Annotated[
        bool, Option("--all", "Also print health snapshots, counter samples, and a summary of what was not understood.")
    ] = False,
    *,
    hints: Annotated[Hints, Group(_hints)],
    output: options.Format,
) -> None:
    """Decode raw text to faults and clears. A clear reports the end of a fault.

    With --source auto, input with the outputs of several commands is split at the prompts or headings, and the format
    of each output is recognized separately. Exit code 65: the input is not in the format of the source.
    """
    if source != AUTO:
        options.known_source(source)
    inputs = Inputs(source, hints, everything=everything)
    show(inputs.decode(files or [options.STDIN]), DECODED, output, empty="")
    if inputs.failure is not None:
        raise inputs.failure
    if not output.for_people:
        return
    for code in inputs.unknown_codes:
        notice(f"code not in the catalog: {code}; a fault of it gets the default severity and action")
    if inputs.count == 0 and inputs.unparsed == 0:
        notice("no faults found")
    if inputs.read_once and not everything:
        devices = "1 device" if inputs.read_once == 1 else f"{inputs.read_once} devices"
        notice(f"counters of {devices} were read once: only a later sample beside it shows a rise; --all prints them")
    if inputs.lines > inputs.faults + inputs.unparsed_lines:
        wrong = f", {inputs.unparsed_lines} lines not understood" if inputs.unparsed_lines else ""
        notice(f"lines read: {inputs.lines}; faults and clears: {inputs.faults}{wrong}; other lines are ignored")


def _checked_name(check: Callable[[str], str], text: str | None, option: str) -> str | None:
    try:
        return check(text) if text is not None else None
    except Rejected as error:
        raise BadParameter(f"invalid {option}: {error.detail}") from error


def _summary(one: Document) -> str:
    if one["kind"] == "summary":
        return f"{one['parsed']} observations, {one['unparsed']} lines or documents not understood"
    if one["kind"] == "snapshot":
        return f"covers {len(one['covers'])} codes, {len(one['present'])} present"
    return ", ".join(f"{name}={value}" for name, value in one.get("values", {}).items())
