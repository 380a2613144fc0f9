"""`faultbridge sources`: what can be decoded, with an example of each."""

from __future__ import annotations

from faultbridge.cli.output import Columns, JsonFlag, JsonlFlag, form_of, show
from faultbridge.decoders import registry

EPILOG = "Example: faultbridge sources --jsonl"
COLUMNS: Columns = {
    "SOURCE": lambda one: one["source"],
    "FORMAT": lambda one: one["format"],
    "EXAMPLE": lambda one: one["example"],
}


def command(as_json: JsonFlag = False, as_jsonl: JsonlFlag = False) -> None:
    """List the source names that `decode --source` and `send --source` take."""
    decoders = (registry.get(name) for name in registry.names())
    listed = ({"source": one.name, "format": one.summary, "example": one.example} for one in decoders)
    show(listed, COLUMNS, form_of(as_json=as_json, as_jsonl=as_jsonl))
