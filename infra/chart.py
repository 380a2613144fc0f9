"""Renders, checks and packages the Helm chart, with the Helm SDK of the release environment (`make chart`).

python -m infra.chart check|write|package FOLDER

`write` renders the chart with example values into `infra/kubernetes/faultbridge.yaml`, for clusters without Helm and
for the tests that read it. `check` fails if that file is not up to date. Only `package` works without the SDK.
"""

from __future__ import annotations

import gzip
import io
import sys
import tarfile
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import yaml

CHART = Path(__file__).parent / "helm" / "faultbridge"
MANIFEST = Path(__file__).parent / "kubernetes" / "faultbridge.yaml"
NAMESPACE = "faultbridge"
HEADING = """\
# Rendered from the chart in infra/helm by `make chart-manifest`; do not edit. Replace CLUSTER, QUEUE_URL, BUCKET and
# IMAGE, then: kubectl create namespace faultbridge; kubectl apply -f. Without a role for the collector, remove its
# Deployment.
"""

EXAMPLE: Mapping[str, Any] = {
    "cluster": "CLUSTER",
    "queueUrl": "https://QUEUE_URL",
    "bucket": "BUCKET",
    "image": {"repository": "IMAGE"},
    "collector": {"enabled": True},
}
CASES: Mapping[str, Mapping[str, Any]] = {
    "with everything": EXAMPLE,
    "only the agent": {**EXAMPLE, "collector": {"enabled": False}},
    "on every node": {**EXAMPLE, "agent": {"everyNode": True, "settings": {"smi_seconds": 300}}},
    "by a label": {**EXAMPLE, "agent": {"instanceTypes": [], "labels": {"example.com/gpu": []}}},
    "only the collector": {**EXAMPLE, "agent": {"enabled": False}, "collector": {"enabled": True, "jobs": False}},
}
REFUSED: Mapping[str, Mapping[str, Any]] = {
    "without a cluster": {**EXAMPLE, "cluster": ""},
    "without an image": {**EXAMPLE, "image": {"repository": ""}},
    "with a misspelled value": {**EXAMPLE, "clutser": "train-a"},
}
KUBERNETES = ("1.31", "1.33", "1.35")
"""Versions whose schemas every rendered object must meet."""


_WARNING = 2


def rendered(values: Mapping[str, Any]) -> str:
    """Return the manifest of the chart with these values; raises ValueError if the chart refuses them."""
    from helm_python import Chart, HelmError

    try:
        with Chart.load(CHART) as chart:
            chart.validate_schema(chart.merge_values(dict(values)))
            files = chart.render(dict(values), name="faultbridge", namespace=NAMESPACE)
    except HelmError as error:
        raise ValueError(str(error)) from error
    return "---\n".join(
        text.strip() + "\n" for name, text in sorted(files.items()) if text.strip() and not name.endswith(".txt")
    )


def problems() -> Iterator[str]:
    """Yield a line for each defect of the chart."""
    from helm_python import lint

    report = lint(CHART, dict(EXAMPLE))
    yield from (f"lint: {one['path']}: {one['error']}" for one in report["messages"] if one["severity"] >= _WARNING)
    for name, values in CASES.items():
        for document in yaml.safe_load_all(rendered(values)):
            yield from (f"{name}: {problem}" for problem in _refusals(document))
    for name, values in REFUSED.items():
        try:
            rendered(values)
        except ValueError:
            continue
        yield f"{name}: the values are accepted"
    if MANIFEST.read_text(encoding="utf-8") != HEADING + rendered(EXAMPLE):
        yield f"{MANIFEST.name} is not what the chart renders; run make chart-manifest"


def _refusals(document: Any) -> Iterator[str]:  # noqa: ANN401 - any YAML
    import kubernetes_validate

    for version in KUBERNETES:
        try:
            kubernetes_validate.validate(document, version, strict=True)
        except kubernetes_validate.ValidationError as error:
            yield f"Kubernetes {version} refuses {document['kind']} {document['metadata']['name']}: {error.message}"


def archive() -> tuple[str, bytes]:
    """Return the name and the bytes of the chart archive: equal files give equal bytes."""
    metadata = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
    written = io.BytesIO()
    with gzip.GzipFile(fileobj=written, mode="wb", mtime=0) as packed, tarfile.open(fileobj=packed, mode="w") as target:
        for path in sorted(CHART.rglob("*")):
            if path.is_file():
                entry = tarfile.TarInfo(f"{CHART.name}/{path.relative_to(CHART).as_posix()}")
                content = path.read_bytes()
                entry.size, entry.mode = len(content), 0o644
                target.addfile(entry, io.BytesIO(content))
    return f"{metadata['name']}-{metadata['version']}.tgz", written.getvalue()


def main(command: str, *arguments: str) -> int:
    """Run one of the commands, and return the exit code."""
    if command == "package":
        name, content = archive()
        Path(arguments[0], name).write_bytes(content)
        return 0
    if command == "write":
        MANIFEST.write_text(HEADING + rendered(EXAMPLE), encoding="utf-8")
        return 0
    if find_spec("helm_python") is None:
        print("skipped: the Helm SDK has no wheel for this computer")
        return 0
    found = list(problems())
    print(
        "\n".join(found) or f"{CHART.name}: {len(CASES)} sets of values are valid on Kubernetes {', '.join(KUBERNETES)}"
    )
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
