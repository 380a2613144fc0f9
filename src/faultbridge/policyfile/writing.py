"""Writing a policy file from the document that the table keeps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml

from faultbridge.policyfile import durations
from faultbridge.policyfile.models import DURATIONS


def write_policy(document: Mapping[str, Any]) -> str:
    """Render a policy as the YAML that reads back as the same document."""
    written = durations.converted(dict(document), DURATIONS, lambda value: durations.text(value // 1000))
    kept = {name: written[name] for name in ("rules", "limits", "breakers") if name in written}
    return yaml.safe_dump(kept, sort_keys=False, default_flow_style=False, allow_unicode=True)
