"""Wording: converts names in recorded data to words for readers, such as repair actions."""

from __future__ import annotations

import re
from collections.abc import Mapping

ACTION_TEXTS: Mapping[str, str] = {
    "verify": "run diagnostics",
    "run_diagnostics": "run diagnostics",
    "reset_gpu": "reset the GPU",
    "reboot_node": "reboot the node",
    "replace_node": "replace the node",
    "contact_support": "contact support, because no automatic repair is known",
}
_FAILURES: Mapping[str, str] = {
    "CAPACITY": "no capacity",
    "THROTTLED": "the provider throttles the calls",
    "PERMISSION_DENIED": "permission denied",
    "NOT_FOUND": "not found",
    "CONFLICT": "conflict with another change",
    "TIMEOUT": "no result in time",
    "AMBIGUOUS": "the result of a call is not known",
    "VERIFY_FAILED": "verification failed",
    "PROVIDER_ERROR": "error of the provider",
}
_NOUNS: Mapping[str, str] = {
    "replace_node": "node replacement",
    "reboot_node": "node reboot",
    "reset_gpu": "GPU reset",
    "run_diagnostics": "diagnostics",
    "contact_support": "contact with support",
    "in_progress": "in progress",
    "not_applicable": "not applicable",
    "dry_run": "dry run",
}
_CODE = re.compile(rf"^({'|'.join(_FAILURES)}): ")
_NAME = re.compile(rf"(?<![\w.`/-])({'|'.join(_NOUNS)})(?![\w`-])")


def words(name: object) -> str:
    """Return a name from a document as words, such as `out of service` for `out_of_service`."""
    return str(name).replace("_", " ")


def action_text(action: object) -> str:
    """Return a repair action or recommended action in words."""
    return ACTION_TEXTS.get(str(action), words(action))


def reason_text(reason: object) -> str:
    """Return a recorded reason with its failure code and the names in it replaced by words."""
    text = _CODE.sub(lambda found: f"{_FAILURES[found[1]]}: ", str(reason or ""))
    return _NAME.sub(lambda found: _NOUNS[found[1]], text)


def without_code(reason: object) -> str:
    """Return a recorded reason in words, with its failure code removed."""
    return reason_text(_CODE.sub("", str(reason or "")))
