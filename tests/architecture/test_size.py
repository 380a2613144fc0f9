"""The rooms of the package: few, with few imports between them, and none that import each other."""

from __future__ import annotations

from infra import size


def test_the_package_has_at_most_twelve_rooms_and_each_has_a_budget() -> None:
    assert set(size.rooms()) == set(size.BUDGETS)
    assert len(size.BUDGETS) <= 12


def test_few_rooms_import_each_other_and_none_in_a_circle() -> None:
    assert sum(map(len, size.arrows(size.rooms()).values())) <= size.MAX_IMPORTS
    assert size.main() == 0
