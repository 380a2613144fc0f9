"""Joins the parts of a log line that a container runtime split because it was longer than 16 KiB.

Grammar of a Kubernetes runtime (CRI): `TIME STREAM P TEXT` for each part except the last, then `TIME STREAM F TEXT`.
Grammar of Docker (`json-file`): `{"log":"TEXT","stream":"STREAM",...}`; only the text of the last part ends with a line
end. The parts of two streams can alternate. A joined line has the time of its first part, and takes the position of its
last part. Source: Kubernetes `kuberuntime/logs`, containerd's `max_container_log_line_size`, Docker's `loggerutils`
copier.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from faultbridge.decode.frames.decoder import lazy_pattern

_HEAD = rb"\d{4}-\d\d-\d\dT[\d:.]{8,18}(?:Z|[+-]\d\d:\d\d) "
_CRI = lazy_pattern(rb"(" + _HEAD + rb"(std(?:out|err)) )([FP])(?: ([^\n]*)|(?=\n|\Z))")
_DOCKER = lazy_pattern(rb'(\{"log": ?")([^\n]*?)(", ?"stream": ?"(std(?:out|err))"[^\n]*)')
_DOCKER_START = lazy_pattern(rb'\{"log": ?"')
_CRI_PART = b" P "
_LINE = lazy_pattern(rb"[^\n]*\n|[^\n]+")
_DOCKER_ENDS = (b'","stream":"std', b'", "stream": "std')
_LINE_END = b"\\n"
_MAX_HELD = 1024 * 1024


def is_of_container(body: bytes) -> bool:
    """Return whether a body starts with a log line of a Kubernetes container runtime (CRI)."""
    return _CRI.match(body) is not None


def joined_parts(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the pieces of a log, with the parts of each container log line joined, also across pieces.

    A log whose first line has another format is yielded unchanged.
    """
    pieces = iter(pieces)
    rest = next(pieces, b"")
    form = _Cri() if is_of_container(rest) else _Docker() if _DOCKER_START.match(rest) else None
    if form is None:
        yield rest
        yield from pieces
        return
    lines = _Lines(form)
    for piece in pieces:
        rest += piece
        end = rest.rfind(b"\n") + 1
        if end or len(rest) > _MAX_HELD:
            end = end or len(rest)
            yield lines.joined(rest[:end])
            rest = rest[end:]
    yield lines.joined(rest) + lines.left()


@dataclass(frozen=True, slots=True)
class _Part:
    """A log line or a part of a line.

    `before` and `after` are what a complete line has before and after `text`. `is_last` is True for the last part of a
    line, or for a complete line.
    """

    stream: bytes
    text: bytes
    before: bytes
    after: bytes
    is_last: bool


class _Cri:
    def has_parts(self, text: bytes) -> bool:
        return _CRI_PART in text

    def read(self, line: bytes) -> _Part | None:
        found = _CRI.match(line)
        return found and _Part(found[2], found[4] or b"", found[1] + b"F ", b"\n", found[3] == b"F")


class _Docker:
    def __init__(self) -> None:
        self._has_line_ends = False

    def has_parts(self, text: bytes) -> bool:
        """Return whether a text may contain a part of a split line, other than the last part.

        Such a part does not end with a line end. If no message of the log so far ended with a line end, a collector
        removed all line ends. A part then cannot be distinguished from a complete line, and the result is False.
        """
        whole = sum(text.count(_LINE_END + end) for end in _DOCKER_ENDS)
        self._has_line_ends = self._has_line_ends or whole > 0
        return self._has_line_ends and whole < sum(map(text.count, _DOCKER_ENDS))

    def read(self, line: bytes) -> _Part | None:
        found = _DOCKER.match(line)
        if found is None:
            return None
        text = found[2].removesuffix(_LINE_END)
        # A backslash before the line end makes it two characters of the text.
        is_last = text != found[2] and not (len(text) - len(text.rstrip(b"\\"))) % 2
        return _Part(found[4], text if is_last else found[2], found[1], _LINE_END + found[3] + b"\n", is_last)


@dataclass(slots=True)
class _Lines:
    """Joins the parts of split log lines. Incomplete lines are kept by stream (stdout, stderr)."""

    form: _Cri | _Docker
    _open: dict[bytes, tuple[_Part, bytearray]] = field(default_factory=dict)

    def joined(self, text: bytes) -> bytes:
        """Add the next text of the log, and return all log lines that are complete now.

        A line whose last part is missing is kept for the next call, up to 1 MiB.
        """
        has_parts = self.form.has_parts(text)
        return b"".join(self._ended(_LINE.findall(text))) if has_parts or self._open else text

    def _ended(self, lines: Iterable[bytes]) -> Iterator[bytes]:
        for line in lines:
            part = self.form.read(line)
            if part is None or (part.is_last and part.stream not in self._open):
                yield line
                continue
            first, text = self._open.setdefault(part.stream, (part, bytearray()))
            text += part.text
            if part.is_last or len(text) > _MAX_HELD:
                yield first.before + text + first.after
                del self._open[part.stream]

    def left(self) -> bytes:
        return b"".join(first.before + text + first.after for first, text in self._open.values())
