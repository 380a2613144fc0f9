"""Stored: the base of the classes whose values the table stores."""

from __future__ import annotations

from typing import Any

from msgspec import Struct


class Stored(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, kw_only=True):
    """The base of each class whose values the table stores.

    `unknown_attributes` holds attributes that a later release wrote and this one does not know; they are written back.
    A new field of such a class needs a default, because values of earlier releases do not have it.
    """

    unknown_attributes: dict[str, Any] | None = None  # `object` would be a class of its own to the hook of the codec
