"""Host lists: many nodes in few characters, as Slurm writes them (`gpu-[001-004,007],login-1`)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice, product

from faultbridge.errors import Rejected

MAX_HOSTS = 5000
_LONGEST = 16_384
_PART = re.compile(r"[^\[\],]|\[[0-9,-]{1,4096}\]")
_ONE = re.compile(r"(?:[^\[\],]|\[[0-9,-]{1,4096}\])+")
_RANGE = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?")


def expand(text: str) -> tuple[str, ...]:
    """Return the names that a host list stands for, in its order; `bad_host_list` where it is none or too long."""
    if len(text) > _LONGEST:
        raise Rejected("bad_host_list", f"a host list of {len(text)} characters")
    names = tuple(islice(_names(text), MAX_HOSTS + 1))
    if len(names) > MAX_HOSTS:
        raise Rejected("bad_host_list", f"{text[:64]} stands for more than {MAX_HOSTS} names")
    return names


def _names(text: str) -> Iterator[str]:
    place = 0
    while place < len(text):
        found = _ONE.match(text, place)
        if found is None:
            raise Rejected("bad_host_list", f"{text[:64]!r} is no host list")
        parts = [_choices(part) for part in _PART.findall(found[0])]
        yield from map("".join, product(*parts))
        place = found.end()
        if place < len(text) and text[place] != ",":
            raise Rejected("bad_host_list", f"{text[:64]!r} is no host list")
        place += 1


def _choices(part: str) -> list[str]:
    """Return what may stand in one place: a letter, or each number of a bracket, as many digits wide as written."""
    if not part.startswith("["):
        return [part]
    choices: list[str] = []
    for written in part[1:-1].split(","):
        found = _RANGE.fullmatch(written)
        if found is None:
            raise Rejected("bad_host_list", f"{written[:32]!r} is no range of numbers")
        first, last = int(found[1]), int(found[2] or found[1])
        if not 0 <= last - first < MAX_HOSTS:
            raise Rejected("bad_host_list", f"{written[:32]!r} is no range of at most {MAX_HOSTS} numbers")
        choices += [str(number).zfill(len(found[1])) for number in range(first, last + 1)]
        if len(choices) > MAX_HOSTS:
            raise Rejected("bad_host_list", f"{part[:64]} stands for more than {MAX_HOSTS} numbers")
    return choices
