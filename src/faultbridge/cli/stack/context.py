"""Contexts: named stacks in a file of the user, of which one is the default of every command."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path

from faultbridge.cli.stack.locate import Target
from faultbridge.model.errors import Misconfigured, Rejected
from faultbridge.model.names import did_you_mean

CONTEXT_VARIABLE = "FAULTBRIDGE_CONTEXT"
"""The environment variable with the default of `--context`."""

FILE_VARIABLE = "FAULTBRIDGE_CONTEXTS"
"""The environment variable with the path of the file of contexts."""


def contexts_file() -> Path:
    """Return the path of the file of contexts, by default in the user's configuration folder."""
    home = os.environ.get("XDG_CONFIG_HOME") or "~/.config"
    return Path(os.environ.get(FILE_VARIABLE) or f"{home}/faultbridge/contexts.json").expanduser()


def read_contexts() -> tuple[str | None, dict[str, Target]]:
    """Return the name of the current context, and all contexts by name; raises `Misconfigured` for a bad file."""
    path = contexts_file()
    try:
        document = json.loads(path.read_bytes())
        return document["current"], {name: Target(**one) for name, one in document["contexts"].items()}
    except FileNotFoundError:
        return None, {}
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise Misconfigured(f"invalid file of contexts: {path}: {error}; correct or delete it") from error


def write_contexts(current: str | None, contexts: dict[str, Target]) -> None:
    """Write the file of contexts atomically, readable by its owner only."""
    path = contexts_file()
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(".new")
    draft.write_text(
        json.dumps({"current": current, "contexts": {name: asdict(one) for name, one in contexts.items()}})
    )
    draft.chmod(0o600)
    draft.replace(path)


def known_context(name: str, contexts: dict[str, Target]) -> Target:
    """Return the context of a name; an unknown one raises `Rejected` with the closest names."""
    if name not in contexts:
        raise Rejected("unknown_context", f"unknown context: {name}{did_you_mean(name, contexts)}")
    return contexts[name]


def context_target(name: str | None) -> Target | None:
    """Return the stack of a context, by default of the current one; None without a current context."""
    current, contexts = read_contexts()
    chosen = name or current
    return known_context(chosen, contexts) if chosen else None
