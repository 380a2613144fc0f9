"""JSON samples of every source whose lines a collector wrapped: read and recognized as if they were bare."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from faultbridge.decode import registry
from faultbridge.decode.frames.documents import documents
from tests.decoders.captures import PLATFORM_SAMPLES, SAMPLES, Capture, expected, held
from tests.decoders.wrapping import WRAPPERS
from tests.loops import for_each

CAPTURES = [
    (folder / one.file, one)
    for folder in (SAMPLES, PLATFORM_SAMPLES)
    for one in expected(folder / "expectations.toml")
    if Path(one.file).suffix == ".json"
]


def cri(text: str) -> bytes:
    return "\n".join(f"2026-02-03T09:00:00.000000000Z stdout F {line}" for line in text.split("\n")).encode()


COLLECTORS: dict[str, Callable[[str], bytes]] = {
    "CRI": cri,
    "Docker": WRAPPERS["docker"],
    "Fluent Bit": WRAPPERS["fluent-bit-log"],
    "awslogs": WRAPPERS["awslogs"],
    "CRI in awslogs": lambda text: WRAPPERS["awslogs"](cri(text).decode()),
    "Docker in awslogs": WRAPPERS["awslogs-json"],
}


@for_each("wrap", COLLECTORS.values(), ids=COLLECTORS)
@for_each(("file", "capture"), CAPTURES, ids=[file.name for file, _ in CAPTURES])
def test_a_spread_document_of_any_source_is_read_like_the_bare_one(
    wrap: Callable[[str], bytes], file: Path, capture: Capture
) -> None:
    body = file.read_bytes()
    start = min(at for at in (body.find(b"{"), body.find(b"[")) if at >= 0)
    text = body[:start].decode() + "\n".join(json.dumps(one, indent=4) for one in documents(body[start:]))
    body = wrap(text)
    assert registry.recognize(body) == registry.recognize(text.encode())
    bare, found = registry.decode(capture.source, text.encode()), registry.decode(capture.source, body)
    assert held(found) == held(bare)
    assert list(map(type, found)) == list(map(type, bare))
