"""Retired words appear in no name, docstring, comment, message or page."""

from __future__ import annotations

import pytest

from tests.architecture.docstrings import docstrings
from tests.architecture.language import Hit, hits, in_name, in_prose, in_python, language, tracked


def words(found: object) -> list[str]:
    """Return the words of hits, in order."""
    assert not isinstance(found, Hit)
    return [hit.word for hit in found]  # type: ignore[attr-defined]


@pytest.mark.slow
def test_no_file_uses_a_retired_word() -> None:
    found = list(hits(tracked()))
    shown = [f"{hit.path}:{hit.line}: {hit.word} -> {hit.instead}" for hit in found[:50]]
    assert not found, "\n".join([f"{len(found)} hits; python -m tests.architecture.language lists them", *shown])


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("seat_of", ["seat"]),
        ("SeatKey", ["seat"]),
        ("_SEATS", ["seats"]),
        ("HTTPSeat", ["seat"]),
        ("seating2", ["seating"]),
        ("unseated", []),
        ("preseat", []),
        ("MOST_PAGE", ["most"]),
        ("_MOST", ["most"]),
        ("most_recent", []),
        ("AT_MOST", []),
        ("state_machine", []),
        ("StateMachineArn", []),
        ("machine_of", ["machine"]),
        ("node", []),
    ],
)
def test_an_identifier_is_split_into_its_parts(name: str, expected: list[str]) -> None:
    assert words(in_name(name, "src/x.py", 1)) == expected


def test_some_words_are_refused_only_as_the_whole_name_of_a_module_or_class() -> None:
    assert words(in_name("Roll", "src/x.py", 1, whole=True)) == ["roll"]
    assert words(in_name("Roll", "src/x.py", 1)) == []
    assert words(in_name("RollCall", "src/x.py", 1, whole=True)) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A seat is empty.", ["seat"]),
        ("The seat's name.", ["seat"]),
        ("The state machine runs.", []),
        ("This machine is new.", ["machine"]),
        ("It goes  on.", ["go on"]),
        ("`seat_name` is optional.", ["seat"]),
        ("A storytelling page about reseating.", []),
        ("Normalised and `cancelled`.", ["normalised"]),
    ],
)
def test_a_text_is_searched_by_whole_words(text: str, expected: list[str]) -> None:
    assert sorted(words(in_prose(text, "docs/x.md", 1))) == expected


def test_ordinary_english_is_only_advised_against() -> None:
    assert words(in_prose("Look at it.", "docs/x.md", 1)) == []
    assert words(in_prose("Look at it.", "docs/x.md", 1, advice=True)) == ["look"]


def test_definitions_docstrings_comments_and_messages_of_python_are_searched() -> None:
    source = '''"""A seat."""
# nobody
def tell(witness, x):  # fine
    """Return it."""
    rung = f"no {x} for somebody here"
    witness.other = "tell"  # a value, not a message
    return rung
'''
    found = list(in_python(source, "src/x.py"))
    assert sorted((hit.line, hit.word) for hit in found) == [
        (1, "seat"), (2, "nobody"), (3, "tell"), (3, "witness"), (5, "rung"), (5, "somebody"),
    ]  # fmt: skip
    assert "somebody" not in words(in_python(source, "tests/x.py"))


def test_every_allowed_phrase_holds_a_retired_word_and_says_why() -> None:
    import yaml

    from tests.architecture.language import DATA

    for row in yaml.safe_load(DATA.read_text(encoding="utf-8"))["allow"]:
        assert row["why"]
        found = [part for part in language().forms if part in row["phrase"].lower()]
        assert found, row


@pytest.mark.slow
def test_the_sample_of_docstrings_covers_modules_classes_and_functions() -> None:
    found = list(docstrings())
    assert found[0].title == "(module)"
    assert any("." in one.name for one in found)
    assert any(one.title.endswith("-> None") for one in found)
    assert len(found) > 120
