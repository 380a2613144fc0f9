"""Decodes a capture of several commands: each output is read by the decoder that recognizes it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from faultbridge.dataclass import dataclass
from faultbridge.decoders import registry
from faultbridge.decoders.command_outputs import CommandOutput, has_headings, outputs_of
from faultbridge.decoders.common.decoder import LINE_SOURCES, NO_HINTS, Decoded, Hints
from faultbridge.decoders.common.documents import text_of
from faultbridge.domain.copies import replace
from faultbridge.domain.faults import Component, CounterSample, Observation
from faultbridge.errors import Rejected

# Sources whose decoder can read several outputs in one text. Some of these decoders combine the outputs.
_READ_TOGETHER = LINE_SOURCES | {"slurm-node", "disk-health", "rdma-counters"}
_MAX_OUTPUTS = 256
_MAX_TITLE = 80


@dataclass(frozen=True, slots=True)
class Part:
    """The output of one command in a capture, with the name of its source format.

    If the format is not recognized, `source` is None and `reason` states why.
    """

    output: CommandOutput
    source: str | None
    reason: str = ""


def may_be_capture(head: bytes) -> bool:
    """Return whether the start of a body has a command line or heading, as a capture of commands has."""
    return has_headings(text_of(head))


def parts_of(body: bytes) -> tuple[Part, ...]:
    """Return the command outputs in a capture, each with its source.

    The result is empty if the caller must decode the body as a whole. That is so in each of these cases:

    - The capture has more than 256 outputs.
    - No source recognizes any output.
    - A source recognizes exactly one output, and every other output has no title (no command and no heading).
    - The same source recognizes all outputs that have a title, and its decoder can read several outputs in one text
      (`_READ_TOGETHER`).
    """
    outputs = list(islice(outputs_of(text_of(body)), _MAX_OUTPUTS + 1))
    if len(outputs) > _MAX_OUTPUTS:
        return ()
    found = _with_sections([_part(output) for output in outputs])
    sources = [part.source for part in found if part.source is not None]
    if len(set(sources)) > 1 or (len(sources) > 1 and sources[0] not in _READ_TOGETHER):
        return tuple(found)
    # A command whose output no source recognizes must not get lost in the output of another one.
    has_unknown = any(part.source is None and part.output.title for part in found)
    return tuple(found) if sources and has_unknown else ()


def read_parts(parts: tuple[Part, ...], hints: Hints = NO_HINTS) -> Decoded:
    """Decode each output of a capture, and return the observations and notes of all outputs.

    An output counts as not understood if no source recognizes it or its decoder rejects it. A counter sample is left
    out if another tool in the capture has already given one of the same source and device.
    """
    observations, unparsed, notes = list[Observation](), 0, list[str]()
    tools: dict[tuple[str, Component], str] = {}
    for part in parts:
        title = part.output.title[:_MAX_TITLE] or "the first lines"
        decoded, reason = _read(part, hints)
        if decoded is None:
            unparsed += 1
            notes.append(f"`{title}` was not read: {reason}")
            continue
        notes += decoded.notes
        unparsed += decoded.unparsed
        observations += [one for one in decoded.observations if _is_first_tool(one, part.output.tool, tools)]
    return Decoded(tuple(observations), unparsed, tuple(notes))


def _read(part: Part, hints: Hints) -> tuple[Decoded | None, str]:
    if part.source is None:
        return None, part.reason
    try:
        return registry.read(part.source, part.output.body, hints), ""
    except Rejected as error:
        return None, error.detail or error.reason


def _is_first_tool(one: Observation, tool: str, tools: dict[tuple[str, Component], str]) -> bool:
    """Return False for a counter sample if another tool has given one of the same source and device.

    The counters of different tools cannot be compared. `tools` maps each source and device to its first tool, and is
    updated.
    """
    return not isinstance(one, CounterSample) or tools.setdefault((one.source, one.component), tool) == tool


def _with_sections(parts: Sequence[Part]) -> list[Part]:
    """Return the parts of a capture, with the sections of a log joined to that log.

    A section is a part of unknown source, after a heading that names no known command. The section
    belongs to the nearest part before it that is no section, if that part is of a log source.
    """
    found = list[tuple[Part, list[CommandOutput]]]()
    for part in parts:
        if found and part.source is None and part.output.is_section and found[-1][0].source in LINE_SOURCES:
            found[-1][1].append(part.output)
        else:
            found.append((part, []))
    return [replace(part, output=part.output.followed_by(sections)) for part, sections in found]


def _part(output: CommandOutput) -> Part:
    return Part(output, *_source_of(output.body))


def _source_of(body: bytes) -> tuple[str | None, str]:
    try:
        return registry.recognize(body), ""
    except Rejected as error:
        return None, error.detail or error.reason
