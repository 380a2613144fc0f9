"""Finding and replacing a private name of an emulator.

A name is written `package.module:attribute`, with further attributes or keys after `|`:
`moto.ssm.models:Command|response_object`, `...provisioners:_RESOURCE_HANDLERS|AWS::SQS::Queue|create`.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any


def resolve(name: str) -> Any:  # noqa: ANN401 - whatever the emulator has there
    """Tell what the name stands for now; `LookupError` when the emulator has no such name."""
    owner, last = _owner(name)
    return _step(owner, last, name)


def replace(name: str, make: Callable[[Any], Any]) -> None:
    """Put `make(old)` in the place of what the name stands for."""
    owner, last = _owner(name)
    new = make(_step(owner, last, name))
    if isinstance(owner, dict):
        owner[last] = new
    else:
        setattr(owner, last, new)


def add(owner_name: str, method: str, function: Callable[..., Any]) -> None:
    """Give a class of the emulator a method that it lacks."""
    setattr(resolve(owner_name), method, function)


def _owner(name: str) -> tuple[Any, str]:
    module, _, path = name.partition(":")
    owner: Any = import_module(module)
    *parents, last = path.split("|")
    for parent in parents:
        owner = _step(owner, parent, name)
    return owner, last


def _step(owner: Any, key: str, name: str) -> Any:  # noqa: ANN401 - whatever the emulator has there
    try:
        return owner[key] if isinstance(owner, dict) else getattr(owner, key)
    except (AttributeError, KeyError):
        raise LookupError(f"the emulator has no {name}") from None
