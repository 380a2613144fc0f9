"""Decodes a capture of several commands: each output is read by the decoder that recognizes it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import islice

from msgspec import Struct

from faultbridge.decode import registry
from faultbridge.decode.data import sources_with
from faultbridge.decode.frames.decoder import NO_HINTS, Decoded, Hints
from faultbridge.decode.frames.documents import text_of
from faultbridge.model.errors import Rejected
from faultbridge.model.faults import Component, CounterSample, Observation
from faultbridge.model.values import replace

# Splits a capture of several commands into their outputs, so that each can have its own decoder.
#
# Grammar: an output follows a line with a shell prompt and its command (`$ COMMAND`, `user@host:~$ COMMAND`,
# `[user@host ~]# COMMAND`, `# COMMAND` of a known tool), or a heading (`=== TITLE ===`). Text before the first such
# line is an output without a title.

_TOOLS = (
    "nvidia-smi|dcgmi|dmesg|journalctl|ibstat|ibstatus|ibv_devinfo|rdma|perfquery|mlxlink|ip|ethtool|lspci|ipmitool|ipmi-sel|nvme"
    "|smartctl|sinfo|scontrol|kubectl|neuron-[a-z]{1,16}|ras-mc-ctl|edac-util|mcelog|systemctl|cat|tail|head|grep|curl|aws"
)
_TOOL = re.compile(_TOOLS)
_HEADING = re.compile(
    r"^(?:(?:\(\w{1,32}\) )?\[?[\w.-]{1,64}@[\w.-]{1,128}[: ][^\n$#]{0,128}[$#] {1,4}(?P<prompt>[^\s#][^\n]{0,400})"
    r"|\$ {1,4}(?P<shell>[a-z/][^\n]{0,400})"
    rf"|# {{1,4}}(?P<root>(?:sudo )?(?:{_TOOLS})(?: [^\n]{{0,400}})?)"
    r"|={2,8} (?!START OF|END OF)(?P<title>[^=\n]{1,100}?) ={2,8})[ \t\r]{0,8}$",
    re.MULTILINE,
)
_DEVICE = {
    "perfquery": re.compile(r" (?:-C|--Ca) ?(\S{1,64})"),
    "mlxlink": re.compile(r" (?:-d|--device) ?(?:/dev/mst/)?(\S{1,64})"),
}
_PORT = re.compile(r" (?:-P|-p|--Port|--port) ?(\d{1,3})\b")
_DISK_TOOL = re.compile(r"\b(?:smartctl|nvme)\b[^\n]{0,200}?(/dev/\w{1,32})")


class CommandOutput(Struct, frozen=True):
    """The output of one command in a capture, and the command line or heading before it.

    `title` is the command or the text of the heading, and `heading` is the whole line. Both are empty for the text
    before the first command line or heading.
    """

    title: str
    text: str
    heading: str = ""

    @property
    def body(self) -> bytes:
        """Return the output as bytes for a decoder.

        The output of some commands, such as `perfquery`, does not name its device. The device in the command line is
        then added as the first line, such as `# mlx5_0/1`. The command itself is added if it names the columns.
        """
        device = self._device()
        first = f"# {device}\n" if device else f"{self.title}\n" if "noheader" in self.title else ""
        return (first + self.text).encode("utf-8", "replace")

    @property
    def tool(self) -> str:
        """Return the first word of the command line or heading, without `sudo`."""
        return next(iter(self.title.removeprefix("sudo ").split()), "")

    def followed_by(self, sections: Sequence[CommandOutput]) -> CommandOutput:
        """Return the output of a log with the headings and texts of its `sections` added."""
        if not sections:
            return self
        more = (part for one in sections for part in (f"{one.heading}\n", one.text))
        return replace(self, text="".join((self.text, *more)))

    def _device(self) -> str | None:
        """Return the device in the command line, in the form that decoders accept as a first line, or None."""
        for tool, option in _DEVICE.items():
            found = option.search(self.title) if tool in self.title else None
            if found is not None:
                port = _PORT.search(self.title)
                return f"{found[1]}/{port[1] if port else 1}"
        disk = _DISK_TOOL.search(self.title)
        return disk[1] if disk else None


def outputs_of(text: str) -> Iterator[CommandOutput]:
    """Yield the outputs of a capture in order, without outputs that have only blank lines."""
    title, line, start = "", "", 0
    for heading in _HEADING.finditer(text):
        yield from _output(title, line, text[start : heading.start()])
        title, line, start = next(filter(None, heading.groups())).strip(), heading[0], heading.end() + 1
    yield from _output(title, line, text[start:])


def _output(title: str, heading: str, text: str) -> Iterator[CommandOutput]:
    if text.strip():
        yield CommandOutput(title, text, heading)


_MAX_OUTPUTS = 256
_MAX_TITLE = 80


class Part(Struct, frozen=True):
    """The output of one command in a capture, with the name of its source format."""

    output: CommandOutput
    source: str | None
    reason: str = ""


def may_be_capture(head: bytes) -> bool:
    """Return whether the start of a body has a command line or heading, as a capture of commands has."""
    return _HEADING.search(text_of(head)) is not None


def parts_of(body: bytes) -> tuple[Part, ...]:
    """Return the command outputs in a capture, each with its source.

    The result is empty if the caller must decode the body as a whole. That is so in each of these cases:

    - The capture has more than 256 outputs.
    - No source recognizes any output.
    - A source recognizes exactly one output, and every other output has no title (no command and no heading).
    - The same source recognizes all outputs that have a title, and its decoder can read several outputs in one text.
    """
    outputs = list(islice(outputs_of(text_of(body)), _MAX_OUTPUTS + 1))
    if len(outputs) > _MAX_OUTPUTS:
        return ()
    found = _with_sections(list(map(_part, outputs)))
    sources = [part.source for part in found if part.source is not None]
    if len(set(sources)) > 1 or (len(sources) > 1 and sources[0] not in sources_with("together")):
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
        tool, decoded, reason = part.output.tool, None, part.reason
        if part.source is not None:
            try:
                decoded = registry.read(part.source, part.output.body, hints)
            except Rejected as error:
                reason = error.detail or error.reason
        if decoded is None:
            unparsed += 1
            notes.append(f"`{part.output.title[:_MAX_TITLE] or 'the first lines'}` was not read: {reason}")
            continue
        notes += decoded.notes
        unparsed += decoded.unparsed
        for one in decoded.observations:
            if not isinstance(one, CounterSample) or tools.setdefault((one.source, one.component), tool) == tool:
                observations.append(one)
    return Decoded(tuple(observations), unparsed, tuple(notes))


def _with_sections(parts: Sequence[Part]) -> list[Part]:
    """Return the parts of a capture, with the sections of a log joined to that log.

    A section is a part of unknown source, after a heading that names no known command. The section
    belongs to the nearest part before it that is no section, if that part is of a log source.
    """
    found = list[tuple[Part, list[CommandOutput]]]()
    for part in parts:
        is_section = part.output.heading.startswith("=") and _TOOL.fullmatch(part.output.tool) is None
        if found and part.source is None and is_section and found[-1][0].source in sources_with("lines"):
            found[-1][1].append(part.output)
        else:
            found.append((part, []))
    return [replace(part, output=part.output.followed_by(sections)) for part, sections in found]


def _part(output: CommandOutput) -> Part:
    try:
        return Part(output, registry.recognize(output.body))
    except Rejected as error:
        return Part(output, None, error.detail or error.reason)
