"""Find and replace private names of an emulator, and apply the patches of all modules.

A private name has the form `package.module:attribute`. Further attributes or dictionary keys follow after `|`, for
example `moto.ssm.models:Command|response_object` or `...provisioners:_RESOURCE_HANDLERS|AWS::SQS::Queue|create`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
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


def missing_method(name: str, class_name: str, function: Callable[..., Any], *private_names: str) -> Gap:
    """Return the gap of a call that a class of the emulator lacks; the patch adds `function`."""
    method = function.__name__.lstrip("_")

    def is_open() -> bool:
        return not hasattr(resolve(class_name), method)

    return Gap(name, (class_name, *private_names), is_open, lambda: add_method(class_name, method, function))


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


def wrap(name: str, function: Callable[..., Any]) -> None:
    """Replace the function that a private name refers to; `function` gets it before the arguments of each call."""
    replace(name, lambda original: lambda *arguments, **options: function(original, *arguments, **options))


def source_has(name: str, text: str) -> Callable[[], bool]:
    """Return a check for `Gap.is_open`: whether the source of a private name contains a text."""
    return lambda: text in inspect.getsource(resolve(name))


def source_lacks(name: str, text: str) -> Callable[[], bool]:
    """Return a check for `Gap.is_open`: whether the source of a private name does not contain a text."""
    return lambda: text not in inspect.getsource(resolve(name))


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


# The order matters where two patches replace the same name: the later patch wraps the earlier one.
EVENT_PLANE = ("lambdas", "event_delivery", "dynamodb", "cloudformation")
COMPUTE_PLANE = ("ec2", "auto_scaling", "systems_manager", "eks_endpoints", "hyperpod_clusters")


def gaps_of(modules: tuple[str, ...]) -> Iterator[Gap]:
    """Yield the gaps of the given modules, in the order in which their patches are applied."""
    for module in modules:
        yield from import_module(f"faultbridge.local.gaps.{module}").GAPS


def apply_all(modules: tuple[str, ...]) -> None:
    """Patch the emulator in this process with the patches of the given modules."""
    for gap in gaps_of(modules):
        gap.apply()
