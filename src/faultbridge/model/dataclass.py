"""A faster `dataclass` decorator, which compiles methods when a process uses them, not at import.

For each frozen class with slots, the decorator of the standard library compiles six methods in about half a
millisecond. Many of these classes are never used in a process. Without this module, compiling was the largest part of a
cold start. Here, the standard library only collects the fields, so `fields`, `replace`, `asdict` and `match` work as
usual. The parameters have their usual names, defaults and meanings. `InitVar` is not supported. The decorator does not
reject a frozen class with a base class that is not frozen; the type checker does.
"""

from __future__ import annotations

import dataclasses
import operator
import sys
from collections.abc import Callable, Iterable
from dataclasses import MISSING, FrozenInstanceError, fields
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any

UNCOMPILED = 2
"""The number of instances of a class that are created before its `__init__` is compiled."""

_Key = Callable[[Any], tuple[Any, ...]]
_ORDERS = {"__lt__": operator.lt, "__le__": operator.le, "__gt__": operator.gt, "__ge__": operator.ge}

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass  # noqa: PLC0414 - type checkers treat the classes as usual
else:

    def dataclass(
        cls: type | None = None,
        /,
        *,
        frozen: bool = False,
        slots: bool = False,
        eq: bool = True,
        order: bool = False,
        kw_only: bool = False,
    ) -> Any:  # noqa: ANN401 - the class, or the decorator for it
        """Make a class a dataclass, like `dataclasses.dataclass`, but compile methods only when they are used."""

        def complete(given: type) -> type:
            # The standard library compares with the classes below, and compiles methods for a frozen class.
            below = frozen and any(_is_frozen(base) for base in given.__mro__[1:])
            kind = dataclasses.dataclass(init=False, repr=False, eq=False, frozen=below, slots=slots, kw_only=kw_only)(
                given
            )
            kind.__dataclass_params__.frozen = frozen
            methods = {"__init__": _first_init(kind, frozen=frozen), "__repr__": _repr}
            if eq:
                methods |= _comparisons(kind, hashed=frozen, ordered=order)
            if frozen:
                methods |= _protection(kind, with_state=slots)
            own = vars(given)
            for name, method in methods.items():
                # Python sets the hash of a class with its own `__eq__` to None.
                if name not in own or (name == "__hash__" and own[name] is None):
                    setattr(kind, name, method)
            return kind

        return complete if cls is None else complete(cls)


def _is_frozen(kind: Any) -> bool:  # noqa: ANN401 - any class
    parameters = getattr(kind, "__dataclass_params__", None)
    return parameters is not None and bool(parameters.frozen)


def _comparisons(kind: Any, *, hashed: bool, ordered: bool) -> dict[str, Any]:  # noqa: ANN401 - any class
    key = _key(part.name for part in fields(kind) if part.compare)

    def compared_by(compare: Callable[[Any, Any], bool]) -> Callable[[object, object], bool]:
        def method(self: object, other: object) -> bool:
            return compare(key(self), key(other)) if other.__class__ is self.__class__ else NotImplemented

        return method

    methods: dict[str, Any] = {"__eq__": _first_eq(kind), "__hash__": _first_hash(kind) if hashed else None}
    return methods | {name: compared_by(compare) for name, compare in _ORDERS.items() if ordered}


def _first_eq(kind: Any) -> Callable[[object, object], bool]:  # noqa: ANN401 - any class
    """Return an `__eq__` that, on its first call, compiles a faster `__eq__` and replaces itself by it."""

    def __eq__(self: object, other: object) -> bool:  # noqa: N807 - the name in tracebacks
        names = [part.name for part in fields(kind) if part.compare]
        mine, theirs = _tuple_of("self", names), _tuple_of("other", names)
        text = f"return {mine} == {theirs} if other.__class__ is self.__class__ else NotImplemented"
        kind.__eq__ = method = _compiled(kind, "__eq__", "self, other", text, {})
        equal: bool = method(self, other)
        return equal

    return __eq__


def _first_hash(kind: Any) -> Callable[[object], int]:  # noqa: ANN401 - any class
    """Return a `__hash__` that, on its first call, compiles a faster `__hash__` and replaces itself by it."""

    def __hash__(self: object) -> int:  # noqa: N807 - the name in tracebacks
        names = [part.name for part in fields(kind) if (part.compare if part.hash is None else part.hash)]
        kind.__hash__ = method = _compiled(kind, "__hash__", "self", f"return hash({_tuple_of('self', names)})", {})
        number: int = method(self)
        return number

    return __hash__


def _tuple_of(value: str, names: Iterable[str]) -> str:
    """Return Python code for a tuple of attributes of the variable `value`, such as `(self.a, self.b, )`."""
    return "(" + "".join(f"{value}.{name}, " for name in names) + ")"


def _key(names: Iterable[str]) -> _Key:
    read = tuple(names)
    if len(read) > 1:
        return operator.attrgetter(*read)
    return lambda value: tuple(getattr(value, name) for name in read)


def _protection(kind: Any, *, with_state: bool) -> dict[str, Any]:  # noqa: ANN401 - any class
    """Return the `__setattr__` and `__delattr__` of a frozen class, which raise `FrozenInstanceError`.

    With `with_state`, also return the `__getstate__` and `__setstate__` that `pickle` and `copy` use.
    """
    names = frozenset(part.name for part in fields(kind))

    def set_attribute(self: object, name: str, value: object) -> None:
        if type(self) is kind or name in names:
            raise FrozenInstanceError(f"cannot assign to field {name!r}")
        super(kind, self).__setattr__(name, value)

    def delete_attribute(self: object, name: str) -> None:
        if type(self) is kind or name in names:
            raise FrozenInstanceError(f"cannot delete field {name!r}")
        super(kind, self).__delattr__(name)

    methods: dict[str, Any] = {"__setattr__": set_attribute, "__delattr__": delete_attribute}
    return methods | {"__getstate__": _state, "__setstate__": _set_state} if with_state else methods


def _state(self: Any) -> list[Any]:  # noqa: ANN401 - a value of any dataclass
    return [getattr(self, part.name) for part in fields(self)]


def _set_state(self: Any, state: list[Any]) -> None:  # noqa: ANN401 - as above
    for part, value in zip(fields(self), state, strict=True):
        object.__setattr__(self, part.name, value)


@recursive_repr()
def _repr(self: Any) -> str:  # noqa: ANN401 - as above
    shown = ", ".join(f"{part.name}={getattr(self, part.name)!r}" for part in fields(self) if part.repr)
    return f"{self.__class__.__qualname__}({shown})"


def _first_init(kind: Any, *, frozen: bool) -> Callable[..., None]:  # noqa: ANN401 - any class
    """Return an `__init__` that a class uses until a faster `__init__` is compiled.

    The first `UNCOMPILED` calls set the fields one by one, which is faster than compiling. The next call, or a call
    with wrong arguments, compiles the faster `__init__` and replaces this one. Concurrent calls are safe.
    """
    left = [None] * UNCOMPILED

    def __init__(self: object, /, *values: object, **named: object) -> None:  # noqa: N807 - the name in tracebacks
        if left and (given := _values(kind, values, named)) is not None:
            del left[-1:]
            for name, value in given:
                object.__setattr__(self, name, value)
            if hasattr(self, "__post_init__"):
                self.__post_init__()
            return
        kind.__init__ = init = _compiled_init(kind, frozen=frozen)
        init(self, *values, **named)

    return __init__


def _values(kind: Any, values: tuple[object, ...], named: dict[str, object]) -> list[tuple[str, object]] | None:  # noqa: ANN401 - any class
    """Return the name and value of each field that one call of `__init__` sets.

    `values` are the positional arguments of the call, and `named` its keyword arguments. Returns None if the arguments
    are wrong. The caller then calls the compiled `__init__`, which raises the error.
    """
    parts = fields(kind)
    names = [part.name for part in parts if part.init and not part.kw_only]
    given = dict(zip(names, values, strict=False)) | named
    if len(given) < len(values) + len(named):
        return None
    found: list[tuple[str, object]] = []
    for part in parts:
        if part.init and part.name in given:
            found.append((part.name, given.pop(part.name)))
        elif part.default_factory is not MISSING:
            found.append((part.name, part.default_factory()))
        elif part.default is not MISSING:
            found.append((part.name, part.default))
        elif part.init:
            return None
    return None if given else found


def _compiled_init(kind: Any, *, frozen: bool) -> Callable[..., None]:  # noqa: ANN401 - any class
    scope: dict[str, Any] = {"_set": object.__setattr__, "_MISSING": MISSING}
    positional, named, lines = ["_self"], ["*"], []
    for part in fields(kind):
        name, value = part.name, part.name
        parameter = name
        if part.default_factory is not MISSING:
            scope[f"_default_{name}"] = part.default_factory
            create = f"_default_{name}()"
            parameter, value = f"{name}=_MISSING", f"{create} if {name} is _MISSING else {name}"
            if not part.init:
                value = create
        elif part.default is not MISSING:
            scope[f"_default_{name}"] = part.default
            parameter = f"{name}=_default_{name}"
            if not part.init:
                value = f"_default_{name}"
        elif not part.init:
            continue  # `__post_init__` sets it
        if part.init:
            (named if part.kw_only else positional).append(parameter)
        lines.append(f"_set(_self, {name!r}, {value})" if frozen else f"_self.{name} = {value}")
    if hasattr(kind, "__post_init__"):
        lines.append("_self.__post_init__()")
    parameters = ", ".join([*positional, *(named if len(named) > 1 else ())])
    body = "\n  ".join(lines or ["pass"])
    init = _compiled(kind, "__init__", parameters, body, scope)
    init.__annotations__ = {part.name: part.type for part in fields(kind) if part.init} | {"return": None}
    return init


def _compiled(kind: Any, name: str, parameters: str, body: str, scope: dict[str, Any]) -> Callable[..., Any]:  # noqa: ANN401 - any class
    """Compile and return the method `name` of a class from the Python code of its parameters and its body.

    `scope` maps names that this code uses, such as those of default values, to their values.
    """
    text = f"def _make({', '.join(scope)}):\n def {name}({parameters}):\n  {body}\n return {name}"
    made: dict[str, Any] = {}
    exec(text, vars(sys.modules[kind.__module__]), made)  # noqa: S102 - as `dataclasses` does, from names of fields only
    method: Callable[..., Any] = made["_make"](**scope)
    method.__qualname__ = f"{kind.__qualname__}.{name}"
    return method
