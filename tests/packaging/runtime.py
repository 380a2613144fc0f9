"""The packages of the Lambda runtime that the functions use."""

from __future__ import annotations

import importlib.util
from pathlib import Path

NAMES = ("boto3", "botocore", "s3transfer", "jmespath", "dateutil", "urllib3", "six")


def link_runtime(folder: Path) -> Path:
    """Create a folder with links to the packages of the runtime only."""
    runtime = folder / "runtime"
    runtime.mkdir()
    for name in NAMES:
        spec = importlib.util.find_spec(name)
        assert spec is not None
        assert spec.origin is not None
        origin = Path(spec.origin)
        target = origin.parent if origin.name == "__init__.py" else origin
        (runtime / target.name).symlink_to(target)
    return runtime
