"""Reads the names of fault codes and the GPU counts of instance types, which the console shows."""

from __future__ import annotations

from faultbridge.data import gpus_by_instance_type, load_catalog


def gpus() -> dict[str, int]:
    """Return the number of GPUs of each instance type."""
    return dict(gpus_by_instance_type())


def meaning(code: str) -> str:
    """Return the name of a fault code in the catalog; "" for an unknown code."""
    row = load_catalog().rows.get(code)
    return row.name if row else ""
