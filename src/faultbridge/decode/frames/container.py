"""Joins the parts of a log line that a container runtime split because it was longer than 16 KiB.

Grammar of a Kubernetes runtime (CRI): `TIME STREAM P TEXT` for each part except the last, then `TIME STREAM F TEXT`.
Grammar of Docker (`json-file`): `{"log":"TEXT","stream":"STREAM",...}`; only the text of the last part ends with a line
end. The parts of two streams can alternate. A joined line has the time of its first part, and takes the position of its
last part. Source: Kubernetes `kuberuntime/logs`, containerd's `max_container_log_line_size`, Docker's `loggerutils`
copier.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from faultbridge.decode.frames.values import lazy_pattern

_HEAD = rb"\d{4}-\d\d-\d\dT[\d:.]{8,18}(?:Z|[+-]\d\d:\d\d) "
_CRI = lazy_pattern(
    rb"(?P<before>" + _HEAD + rb"(?P<stream>std(?:out|err)) )(?P<tag>[FP])(?: (?P<text>[^\n]*)|(?=\n|\Z))"
)
_DOCKER = lazy_pattern(
    rb'(?P<before>\{"log": ?")(?P<text>[^\n]*?)(?P<after>", ?"stream": ?"(?P<stream>std(?:out|err))"[^\n]*)'
)
_DOCKER_START = lazy_pattern(rb'\{"log": ?"')
_LINE = lazy_pattern(rb"[^\n]*\n|[^\n]+")
_DOCKER_ENDS = (b'","stream":"std', b'", "stream": "std')
_LINE_END = b"\\n"
_MAX_HELD = 1024 * 1024


class _Part(NamedTuple):
    """A log line or a part of one; `before` and `after` are what a complete line has around its text."""

    stream: bytes
    text: bytes
    before: bytes
    after: bytes
    is_last: bool


def is_of_container(body: bytes) -> bool:
    """Return whether a body starts with a log line of a Kubernetes container runtime (CRI)."""
    return _CRI.match(body) is not None


def joined_parts(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the pieces of a log, with the parts of each container log line joined, also across pieces."""
    pieces = iter(pieces)
    rest = next(pieces, b"")
    is_cri = is_of_container(rest)
    if not is_cri and _DOCKER_START.match(rest) is None:
        yield rest
        yield from pieces
        return
    lines = _Lines(is_cri=is_cri)
    for piece in pieces:
        rest += piece
        end = rest.rfind(b"\n") + 1
        if end or len(rest) > _MAX_HELD:
            end = end or len(rest)
            yield lines.joined(rest[:end])
            rest = rest[end:]
    yield lines.joined(rest) + lines.left()


class _Lines:
    """Joins the parts of split log lines. Incomplete lines are kept by stream (stdout, stderr)."""

    def __init__(self, *, is_cri: bool) -> None:
        self._is_cri = is_cri
        self._has_line_ends = False
        self._open: dict[bytes, tuple[_Part, bytearray]] = {}

    def joined(self, text: bytes) -> bytes:
        """Add the next text of the log, and return all log lines that are complete now."""
        has_parts = b" P " in text if self._is_cri else self._has_parts_of_docker(text)
        return b"".join(self._ended(_LINE.findall(text))) if has_parts or self._open else text

    def left(self) -> bytes:
        """Return the incomplete lines."""
        return b"".join(first.before + text + first.after for first, text in self._open.values())

    def _has_parts_of_docker(self, text: bytes) -> bool:
        # A part, but the last one, does not end with a line end. If no message so far ended with one, a collector
        # removed all of them, and a part cannot be distinguished from a complete line.
        whole = sum(text.count(_LINE_END + end) for end in _DOCKER_ENDS)
        self._has_line_ends = self._has_line_ends or whole > 0
        return self._has_line_ends and whole < sum(map(text.count, _DOCKER_ENDS))

    def _read(self, line: bytes) -> _Part | None:
        found = (_CRI if self._is_cri else _DOCKER).match(line)
        if found is None:
            return None
        before, stream, text = found["before"], found["stream"], found["text"] or b""
        if self._is_cri:
            return _Part(stream, text, before + b"F ", b"\n", found["tag"] == b"F")
        ended = text.removesuffix(_LINE_END)
        # A backslash before the line end makes it two characters of the text.
        is_last = ended != text and not (len(ended) - len(ended.rstrip(b"\\"))) % 2
        return _Part(stream, ended if is_last else text, before, _LINE_END + found["after"] + b"\n", is_last)

    def _ended(self, lines: Iterable[bytes]) -> Iterator[bytes]:
        for line in lines:
            part = self._read(line)
            if part is None or (part.is_last and part.stream not in self._open):
                yield line
                continue
            first, text = self._open.setdefault(part.stream, (part, bytearray()))
            text += part.text
            if part.is_last or len(text) > _MAX_HELD:
                yield first.before + text + first.after
                del self._open[part.stream]
