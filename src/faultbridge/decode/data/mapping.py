"""Packaged mappings from other tools' terms to fault codes; a customer's extensions take precedence."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from typing import Any

from faultbridge.decode.data import failure_modes, load_catalog, packaged_json
from faultbridge.decode.data.counters import EFA_RATES, LINK_RATES, THRESHOLDS, check_rates, check_thresholds
from faultbridge.decode.data.patterns import bounded_pattern
from faultbridge.model.errors import Misconfigured
from faultbridge.model.names import did_you_mean

MAX_LENGTH = 256 * 1024
NAMES = ("alerts", "conditions", "gpud", "health", "nvsentinel", "slurm", "training")


def packaged(name: str) -> Mapping[str, Any]:
    """Return a packaged mapping by its name, without a customer's extension."""
    found: dict[str, Any] = packaged_json(f"mappings/{name}.json")
    return found


def mapping(name: str, extensions: Mapping[str, Mapping[str, Any]]) -> Mapping[str, Any]:
    """Return a packaged mapping, merged with the customer's extension of it."""
    base = packaged(name)
    return merged(base, extensions[name]) if name in extensions else base


def merged(base: Mapping[str, Any], extension: Mapping[str, Any]) -> dict[str, Any]:
    """Return a mapping with an extension merged into it."""
    result = dict(base)
    for name, value in extension.items():
        base_value = base.get(name)
        if isinstance(base_value, list) and isinstance(value, list):
            result[name] = [*value, *base_value]
        elif isinstance(base_value, Mapping) and isinstance(value, Mapping):
            result[name] = merged(base_value, value)
        else:
            result[name] = value
    return result


def parse_extensions(text: str) -> dict[str, Mapping[str, Any]]:
    """Parse a customer's extensions, and return them by the name of the mapping that each extends.

    Raises `Misconfigured` if `text` is not JSON, is too long, or contains an invalid extension.
    """
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Misconfigured(f"invalid JSON in the mappings: {error}") from error
    if not isinstance(found, dict):
        raise Misconfigured("wrong mappings; expected a JSON object with a member for each mapping")
    if len(text) > MAX_LENGTH:
        raise Misconfigured(f"{len(text)} characters of mappings; at most {MAX_LENGTH} are stored")
    try:
        _validate(found)
    except RecursionError as error:
        raise Misconfigured("wrong mappings; expected fewer nested values") from error
    return found


def _validate(extensions: Mapping[str, Mapping[str, Any]]) -> None:
    _check_modes(extensions)
    for name, extension in extensions.items():
        if name in _CHECKS:
            _CHECKS[name](extension)
            continue
        if name not in NAMES:
            raise Misconfigured(f"unknown mapping: {name!r}; allowed are {', '.join((*NAMES, *_CHECKS))}")
        _validate_shape(name, packaged(name), extension)
        for pattern in _patterns(extension):
            bounded_pattern(pattern)


def _check_modes(value: object) -> None:
    """Raise `Misconfigured` if a value has the form of a failure mode (`gpu.lost`) and no mode has this name."""
    items = list(value.values()) if isinstance(value, Mapping) else value
    if isinstance(items, list):
        for item in items:
            _check_modes(item)
    elif isinstance(value, str) and _NAME.fullmatch(value) and value not in failure_modes():
        if value.partition(".")[0] not in _mode_groups():
            return
        hint = did_you_mean(value, failure_modes())
        raise Misconfigured(f"unknown failure mode: {value!r}{hint}; `faultbridge catalog mode` lists them")


_NAME = re.compile(r"[a-z]+\.[a-z0-9_]+")


@cache
def _mode_groups() -> frozenset[str]:
    """Return the first parts of the names of failure modes, such as `gpu`, that begin no fault code."""
    codes = {code.partition(".")[0] for code in load_catalog().rows}
    return frozenset(mode.partition(".")[0] for mode in failure_modes()) - codes


def _patterns(value: object) -> Iterator[str]:
    """Yield each text in a customer's extension that decoders use as a regular expression."""
    if isinstance(value, Mapping):
        for name, item in value.items():
            if name in _PATTERNS and isinstance(item, str):
                yield item
            elif name == "labels" and isinstance(item, Mapping):
                yield from (pattern for pattern in item.values() if isinstance(pattern, str))
            else:
                yield from _patterns(item)
    elif isinstance(value, list):
        for item in value:
            yield from _patterns(item)


_CHECKS: Mapping[str, Callable[[object], None]] = {
    THRESHOLDS: check_thresholds,
    **{member: partial(check_rates, member) for member in (EFA_RATES, LINK_RATES)},
}
_PATTERNS = frozenset({"pattern", "alert"})


def _validate_shape(path: str, base: Any, extension: Any) -> None:  # noqa: ANN401 - any JSON
    if isinstance(base, Mapping) and isinstance(extension, Mapping):
        for member in base.keys() & extension.keys():
            _validate_shape(f"{path}.{member}", base[member], extension[member])
    elif base is not None and extension is not None and type(base) is not type(extension):
        raise Misconfigured(f"wrong type of {path}: {type(extension).__name__}; expected {type(base).__name__}")
