"""The draw of mutants depends on its seed only, and takes those of changed files first."""

from __future__ import annotations

from infra.mutants import draw

MUTANTS = {file: [f"{file}_{number}" for number in range(100)] for file in ("a", "b", "c")}


def test_a_seed_draws_the_same_mutants_and_another_seed_others() -> None:
    assert draw(MUTANTS, (), 1, 50) == draw(dict(reversed(MUTANTS.items())), (), 1, 50)
    assert draw(MUTANTS, (), 1, 50) != draw(MUTANTS, (), 2, 50)
    assert {name[0] for name in draw(MUTANTS, (), 1, 50)} == set(MUTANTS)


def test_mutants_of_changed_files_come_first() -> None:
    drawn = draw(MUTANTS, {"b"}, 1, 150)
    assert {name[0] for name in drawn[:100]} == {"b"}
    assert {name[0] for name in drawn[100:]} == {"a", "c"}
    assert len(set(drawn)) == 150
