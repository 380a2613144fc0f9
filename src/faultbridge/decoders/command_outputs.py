"""Splits a capture of several commands into their outputs, so that each can have its own decoder.

Grammar: an output follows a line with a shell prompt and its command (`$ COMMAND`, `user@host:~$ COMMAND`, `[user@host
~]# COMMAND`, `# COMMAND` of a known tool), or a heading (`=== TITLE ===`). Text before the first such line is an output
without a title.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from faultbridge.dataclass import dataclass
from faultbridge.domain.copies import replace

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


@dataclass(frozen=True, slots=True)
class CommandOutput:
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
        then added as the first line, such as `# mlx5_0/1`.
        """
        device = self._device()
        return (f"# {device}\n{self.text}" if device else self.text).encode("utf-8", "replace")

    @property
    def tool(self) -> str:
        """Return the first word of the command line or heading, without `sudo`."""
        return next(iter(self.title.removeprefix("sudo ").split()), "")

    @property
    def is_section(self) -> bool:
        """Return whether the output follows a heading that names no known command, such as a section of a log."""
        return self.heading.startswith("=") and _TOOL.fullmatch(self.tool) is None

    def followed_by(self, sections: Sequence[CommandOutput]) -> CommandOutput:
        """Return the output of a log with the headings and texts of its `sections` added."""
        if not sections:
            return self
        more = (part for one in sections for part in (f"{one.heading}\n", one.text))
        return replace(self, text="".join((self.text, *more)))

    def _device(self) -> str | None:
        """Return the device in the command line, in the form that decoders accept as a first line, or None.

        Examples are `mlx5_0/1` for a port and `/dev/nvme0` for a disk.
        """
        for tool, option in _DEVICE.items():
            found = option.search(self.title) if tool in self.title else None
            if found is not None:
                port = _PORT.search(self.title)
                return f"{found[1]}/{port[1] if port else 1}"
        disk = _DISK_TOOL.search(self.title)
        return disk[1] if disk else None


def has_headings(text: str) -> bool:
    """Return whether a text contains a line that starts an output: a command line or a heading."""
    return _HEADING.search(text) is not None


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
