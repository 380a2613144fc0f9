"""Find and replace private names of an emulator.

A private name has the form `package.module:attribute`. Further attributes or dictionary keys follow after `|`, for
example `moto.ssm.models:Command|response_object` or `...provisioners:_RESOURCE_HANDLERS|AWS::SQS::Queue|create`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any


@dataclass(frozen=True, slots=True)
class Gap:
    """A difference between an emulator and AWS, and the patch that removes it.

    `private_names` are those that the patch replaces or calls. `is_open` returns whether the unpatched emulator still
    differs from AWS.
    """

    name: str
    private_names: tuple[str, ...]
    is_open: Callable[[], bool]
    apply: Callable[[], None]


def resolve(name: str) -> Any:  # noqa: ANN401 - any object of the emulator
    """Return the object that a private name refers to now; raises `LookupError` if it does not exist."""
    owner, last = owner_of(name)
    return _member(owner, last, name)


def replace(name: str, make: Callable[[Any], Any]) -> None:
    """Replace the object that a private name refers to with the result of `make(object)`."""
    owner, last = owner_of(name)
    new = make(_member(owner, last, name))
    if isinstance(owner, dict):
        owner[last] = new
    else:
        setattr(owner, last, new)


def add_method(class_name: str, method: str, function: Callable[..., Any]) -> None:
    """Add a missing method to a class of the emulator."""
    setattr(resolve(class_name), method, function)


def owner_of(name: str) -> tuple[Any, str]:
    """Return the owner of a private name's last part, and this part; raises `LookupError` if missing."""
    module, _, path = name.partition(":")
    try:
        owner: Any = import_module(module)
    except ImportError as error:
        raise LookupError(f"the emulator has no {name}: {error}") from error
    *parents, last = path.split("|")
    for parent in parents:
        owner = _member(owner, parent, name)
    return owner, last


def _member(owner: Any, key: str, name: str) -> Any:  # noqa: ANN401 - any object of the emulator
    try:
        return owner[key] if isinstance(owner, dict) else getattr(owner, key)
    except (AttributeError, KeyError):
        raise LookupError(f"the emulator has no {name}") from None
