"""Runs a test for many values in a loop: thousands of cheap tests cost more in pytest than in what they check."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any

import pytest

Test = Callable[..., None]
FAILURES = (Exception, pytest.fail.Exception)


def for_each(
    names: str | tuple[str, ...], values: Iterable[Any], ids: Callable[[Any], object] | Iterable[object] | None = None
) -> Callable[[Test], Test]:
    """Return a decorator with the arguments of `pytest.mark.parametrize`: one test, which lists every failure.

    All values share the fixtures of the test, so it must not change them.
    """
    wanted = tuple(name.strip() for name in names.split(",")) if isinstance(names, str) else tuple(names)
    given = [(value,) if len(wanted) == 1 else tuple(value) for value in values]
    labels = _labels(given, ids)
    assert given, "no value"

    def decorate(test: Test) -> Test:
        @wraps(test)
        def every(**fixtures: Any) -> None:
            failures = []
            for label, arguments in zip(labels, given, strict=True):
                try:
                    test(**fixtures, **dict(zip(wanted, arguments, strict=True)))
                except FAILURES as failure:
                    failures.append(f"{label}: {type(failure).__name__}: {failure}")
            if failures:
                pytest.fail("\n".join([f"{len(failures)} of {len(given)} values:", *failures]), pytrace=False)

        signature = inspect.signature(test)
        kept = [one for name, one in signature.parameters.items() if name not in wanted]
        every.__signature__ = signature.replace(parameters=kept)  # type: ignore[attr-defined]  # pytest reads it
        return every

    return decorate


def _labels(given: list[tuple[Any, ...]], ids: Callable[[Any], object] | Iterable[object] | None) -> list[str]:
    if ids is None or callable(ids):
        named = ids or repr
        return [", ".join(str(named(value)) for value in arguments)[:200] for arguments in given]
    return [str(one) for one in ids]
