"""The dataclasses of this package behave as those of the standard library."""

from __future__ import annotations

import ast
import copy
import dataclasses
import pickle
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import FrozenInstanceError, asdict, field, fields, is_dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, get_type_hints

import pytest

from faultbridge.model.dataclass import UNCOMPILED, dataclass
from tests.architecture.project import PACKAGE, lambda_files, relative

Decorator = Callable[..., Any]
KINDS = [{"frozen": frozen, "slots": slots} for frozen in (True, False) for slots in (True, False)]


@dataclass(frozen=True, slots=True)
class Pickled:
    name: str
    sizes: tuple[int, ...] = ()


def shapes(decorator: Decorator, options: dict[str, bool]) -> dict[str, type]:
    """Return classes of every shape that the package uses, made by one of the two decorators."""

    @decorator(**options)
    class Plain:
        shared: ClassVar[int] = 7
        name: str
        size: int = 1
        parts: list[int] = field(default_factory=list)
        hidden: str = field(default="h", repr=False, compare=False)
        unhashed: str = field(default="u", hash=False)
        by_name: int = field(default=5, kw_only=True)

    @decorator(**options)
    class Child(Plain):
        size: int = 2
        more: int = 3

    @decorator(**options)
    class Derived:
        name: str
        length: int = field(init=False)
        fixed: int = field(init=False, default=4)
        made: list[int] = field(init=False, default_factory=list)

        def __post_init__(self) -> None:
            object.__setattr__(self, "length", len(self.name))

    @decorator(**options)
    class Own:  # noqa: PLW1641 - Python removes its hash
        name: str

        def __init__(self, text: str) -> None:
            object.__setattr__(self, "name", text.upper())

        def __repr__(self) -> str:
            return f"<{self.name}>"

        def __eq__(self, other: object) -> bool:
            return isinstance(other, type(self))

    @decorator(**options, kw_only=True)
    class Named:
        name: str = "n"
        size: int

    @decorator(**options)
    class Empty:
        pass

    return {one.__name__: one for one in (Plain, Child, Derived, Own, Named, Empty)}


CALLS: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    ("Plain", ("a",), {}),
    ("Plain", ("a", 2), {"by_name": 6, "parts": [1]}),
    ("Plain", ("a",), {"hidden": "other"}),
    ("Plain", ("a",), {"unhashed": "other"}),
    ("Plain", (), {}),
    ("Plain", ("a", 1, [], "h", "u", 5), {}),
    ("Plain", ("a",), {"unknown": 1}),
    ("Child", ("a",), {"more": 4}),
    ("Derived", ("abc",), {}),
    ("Derived", ("abc", 3), {}),
    ("Own", ("abc",), {}),
    ("Named", (), {"size": 2}),
    ("Named", (2,), {}),
    ("Empty", (), {}),
]


def result(run: Callable[[], Any]) -> Any:
    """Return the result of a call, or the kind and text of its error."""
    try:
        return run()
    except Exception as error:  # noqa: BLE001 - both classes are compared
        return type(error), str(error)


def described(kind: type, values: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """Return everything that a class shows of one value, or the error of its creation."""
    value = result(lambda: kind(*values, **named))
    if not isinstance(value, kind):
        return value
    data: Any = value
    return {
        "repr": repr(value).replace(kind.__qualname__, kind.__name__),
        "dict": asdict(data),
        "names": [(one.name, one.type, one.init, one.kw_only) for one in fields(data)],
        "match": kind.__match_args__,
        "again": (value == kind(*values, **named), value != kind(*values, **named), value == "other"),
        "hash": result(lambda: hash(value) == hash(kind(*values, **named))),
        "state": value == copy.copy(value) == copy.deepcopy(value),
        "replaced": result(lambda: repr(replace(data, name="z")).replace(kind.__qualname__, kind.__name__)),
        "set": fields(data) and result(lambda: setattr(value, "name", "z")),
        # With slots, the standard library raises a TypeError here.
        "set unknown": isinstance(result(lambda: setattr(value, "unknown", "z")), tuple),
        "deleted": fields(data) and result(lambda: delattr(value, "name")),
        "hints": get_type_hints(kind.__init__, localns={"list": list}),
        "slots": getattr(kind, "__slots__", None),
        "doc": kind.__module__,
    }


@pytest.mark.parametrize("options", KINDS, ids=str)
@pytest.mark.parametrize(("name", "values", "named"), CALLS, ids=str)
def test_a_class_behaves_as_that_of_the_standard_library(
    options: dict[str, bool], name: str, values: tuple[Any, ...], named: dict[str, Any]
) -> None:
    ours, theirs = shapes(dataclass, options)[name], shapes(dataclasses.dataclass, options)[name]
    assert is_dataclass(ours)
    for _ in range(UNCOMPILED):  # the first values are created in another way than the next ones
        assert described(ours, values, named) == described(theirs, values, named)


def test_values_compare_and_hash_by_the_fields_that_take_part() -> None:
    plain = shapes(dataclass, {"frozen": True, "slots": True})["Plain"]
    assert plain("a", hidden="x") == plain("a", hidden="y") != plain("b")
    assert plain("a", unhashed="x") != plain("a", unhashed="y")
    child = shapes(dataclass, {"frozen": True, "slots": True})["Child"]
    assert plain("a", 2) != child("a", 2)
    assert len({Pickled("a"), Pickled("a"), Pickled("b")}) == 2


def test_ordered_values_are_sorted_by_their_fields() -> None:
    @dataclass(frozen=True, slots=True, order=True)
    class Ordered:
        first: int
        second: str = ""

    values = [Ordered(2), Ordered(1, "b"), Ordered(1, "a")]
    assert sorted(values) == [Ordered(1, "a"), Ordered(1, "b"), Ordered(2)]
    assert (Ordered(1) <= Ordered(1), Ordered(1) > Ordered(2), Ordered(1) >= Ordered(1)) == (True, False, True)
    with pytest.raises(TypeError):
        assert Ordered(1) < 2  # type: ignore[operator]


def test_values_of_a_class_without_comparison_are_equal_only_to_themselves() -> None:
    @dataclass(frozen=True, slots=True, eq=False)
    class Unequal:
        name: str

    one = Unequal("a")
    assert one == one != Unequal("a")  # noqa: PLR0124 - the comparison under test
    assert len({one, Unequal("a")}) == 2


def test_a_frozen_value_survives_pickling_and_stays_frozen() -> None:
    value = pickle.loads(pickle.dumps(Pickled("a", (1,))))  # noqa: S301 - own data
    assert value == Pickled("a", (1,))
    with pytest.raises(FrozenInstanceError, match="cannot assign to field 'name'"):
        value.name = "b"


def test_classes_of_both_decorators_inherit_from_each_other() -> None:
    @dataclasses.dataclass(frozen=True, slots=True)
    class Theirs(Pickled):
        more: int = 1

    @dataclass(frozen=True, slots=True)
    class Ours(Theirs):
        most: int = 2

    value = Ours("a", most=3)
    assert (value.name, value.more, value.most) == ("a", 1, 3)
    assert value == Ours("a", most=3) != Theirs("a")
    with pytest.raises(FrozenInstanceError):
        value.name = "b"
    with pytest.raises(TypeError, match="cannot inherit non-frozen dataclass from a frozen one"):

        @dataclass(slots=True)
        class Changeable(Pickled):
            pass


def test_a_value_that_contains_itself_is_shown_once() -> None:
    @dataclass(slots=True)
    class Node:
        next: Any = None

    node = Node()
    node.next = node
    assert repr(node).endswith("Node(next=...)")


def test_a_cached_property_of_a_frozen_value_is_stored() -> None:
    @dataclass(frozen=True)
    class Square:
        side: int

        @cached_property
        def area(self) -> int:
            return self.side**2

    square = Square(3)
    assert (square.area, square.area, vars(square)) == (9, 9, {"side": 3, "area": 9})


def test_a_pattern_matches_the_fields_by_position() -> None:
    match Pickled("a", (1,)):
        case Pickled(name, (size,)):
            assert (name, size) == ("a", 1)
        case _:
            pytest.fail("no match")


def test_threads_may_create_the_first_values_at_the_same_time() -> None:
    for _ in range(20):

        @dataclass(frozen=True, slots=True)
        class First:
            number: int

        with ThreadPoolExecutor(8) as pool:
            assert list(pool.map(lambda number, kind=First: kind(number).number, range(32))) == list(range(32))


def test_every_module_that_lambda_loads_uses_these_dataclasses() -> None:
    """The others take half a millisecond each in every cold start."""
    files = [
        path for path in lambda_files() if path.is_relative_to(PACKAGE) and path != PACKAGE / "model" / "dataclass.py"
    ]
    found = {
        relative(path)
        for path in files
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and node.module == "dataclasses"
        if "dataclass" in {name.name for name in node.names}
    }
    assert found == set()
