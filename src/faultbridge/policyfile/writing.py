"""Writing a policy file from the document that the table keeps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml

from faultbridge.policyfile import durations
from faultbridge.policyfile.models import DURATIONS


def write_policy(document: Mapping[str, Any]) -> str:
    """Render a policy as the YAML that reads back as the same document."""
    limits = {
        name: durations.text(value // 1000) if name in DURATIONS else value
        for name, value in document.get("limits", {}).items()
    }
    shown = {"rules": document.get("rules", []), "limits": limits}
    kept = {name: value for name, value in shown.items() if name in document}
    return yaml.safe_dump(kept, sort_keys=False, default_flow_style=False, allow_unicode=True)
