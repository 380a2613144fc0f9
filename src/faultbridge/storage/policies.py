"""The rows of the list of policy versions: one for each version that was ever put."""

from __future__ import annotations

from faultbridge.storage.keys import CURRENT_POLICY
from faultbridge.storage.writes import Key

LISTED_POLICY = "VERSION#"


def listed_policy(version: str) -> Key:
    """Return the key of a policy version in the list of all versions."""
    return Key(CURRENT_POLICY.pk, f"{LISTED_POLICY}{version}")
