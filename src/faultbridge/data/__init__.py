"""Packaged data: the catalogue of fault codes, the GPUs of instance types, the default policy."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from faultbridge.domain.catalogue import Catalogue, Kind, Recommendation, Row, Scope
from faultbridge.domain.faults import Action, Severity

FOLDER = Path(__file__).parent
_ENDS_ON = ("reboot", "replace", "verified")


@cache
def catalogue() -> Catalogue:
    """Return the packaged catalogue; its rows are read from JSON once and built when they are first asked for."""
    index = _read("index.json")
    written = (row for name in index["files"] for row in _read(name))
    return Catalogue(index["version"], _Rows({row["code"]: row for row in written}))


@cache
def gpus_by_instance_type() -> Mapping[str, int]:
    """Return how many GPUs each EC2 instance type has (HyperPod's names are these with `ml.` before them)."""
    counts: dict[str, int] = _read_beside("instance_types.json")["gpus"]
    return counts


@cache
def nvlink5_units() -> Mapping[str, Mapping[str, Mapping[str, Any]]]:
    """Return the units that NVLink5 errors name, by Xid: their numbers before driver R575 and since."""
    units: dict[str, dict[str, dict[str, Any]]] = _read_beside("nvlink5_units.json")["units"]
    return units


class _Rows(Mapping[str, Row]):
    """The rows by code, built on first use: a batch of faults asks for a handful of several hundred."""

    def __init__(self, written: Mapping[str, Mapping[str, Any]]) -> None:
        self._written = written
        self._built: dict[str, Row] = {}

    def __getitem__(self, code: str) -> Row:
        row = self._built.get(code)
        if row is None:
            row = self._built[code] = _row(self._written[code])
        return row

    def __contains__(self, code: object) -> bool:
        return code in self._written

    def __iter__(self) -> Iterator[str]:
        return iter(self._written)

    def __len__(self) -> int:
        return len(self._written)


def _row(written: Mapping[str, Any]) -> Row:
    given = {name: written[name] for name in ("same_as", "conflict", "reason") if name in written}
    return Row(
        code=written["code"],
        name=written["name"],
        severity=Severity(written["severity"]),
        action=Action(written["action"]),
        kind=Kind(written.get("kind", Kind.EDGE)),
        scope=Scope(written.get("scope", Scope.BOOT)),
        ends_on=tuple(written.get("ends_on", _ENDS_ON)),
        stands_for=tuple(written.get("stands_for", ())),
        recommendations=tuple(Recommendation(who, says) for who, says in written.get("says", {}).items()),
        **given,
    )


def _read(name: str) -> Any:  # noqa: ANN401 - whatever the file holds, known to its reader
    return _read_beside(f"catalogue/{name}")


def _read_beside(name: str) -> Any:  # noqa: ANN401 - whatever the file holds, known to its reader
    return json.loads((FOLDER / name).read_bytes())
