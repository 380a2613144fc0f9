"""Build all files of a release into one folder, the same bytes for the same commit (`make release`).

python -m infra.release FOLDER [--twice]

`--twice` builds again into a second folder and compares. The programs of the release and of the documentation have
virtual environments of their own, which `make release` creates.
"""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from faultbridge import __version__
from faultbridge.install.packaging import LAYERS, PACKAGED
from infra import archives, chart, dist

ROOT = Path(__file__).resolve().parents[1]
VENV = ROOT / ".venv"
SUMS = "SHA256SUMS"
BILLS = ("image", *LAYERS.values())
"""The lock files of which the release contains a bill of materials (SBOM): those of the image and of each layer."""


def build(folder: Path) -> None:
    """Build every file of the release into an empty folder, and their checksums."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    environment = {**os.environ, "SOURCE_DATE_EPOCH": commit_time(), "PYTHONHASHSEED": "0"}
    archives.main(PACKAGED)
    dist.build(folder)
    shutil.copytree(PACKAGED, folder / "template")
    name, content = chart.archive()
    (folder / name).write_bytes(content)
    for lock in BILLS:
        _run(environment, *_bill(lock, folder / f"faultbridge-{__version__}-{lock}.cdx.json"))
    with tempfile.TemporaryDirectory() as scratch:
        site = Path(scratch, "site")
        mkdocs = (str(VENV / "docs/bin/mkdocs"), "build", "--quiet", "--strict", "--site-dir", str(site))
        _run({**environment, "DOCS_VERSION": __version__, "NO_MKDOCS_2_WARNING": "1"}, *mkdocs)
        (folder / f"faultbridge-{__version__}-docs.tar").write_bytes(tar_of(site))
    (folder / SUMS).write_text("".join(f"{digest}  {name}\n" for name, digest in sums(folder).items()))


def commit_time() -> str:
    """Return the time of the commit in seconds, which programs write in place of the time of the build."""
    done = subprocess.run(
        ["git", "log", "-1", "--format=%ct"],  # noqa: S607 - as above
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    return done.stdout.strip() or "1577836800"  # outside of a checkout: 2020, as hatchling uses


def tar_of(folder: Path) -> bytes:
    """Return an archive of a folder, sorted and without times and owners."""
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w") as target:
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                entry, content = tarfile.TarInfo(path.relative_to(folder).as_posix()), path.read_bytes()
                entry.size, entry.mode = len(content), 0o644
                target.addfile(entry, io.BytesIO(content))
    return written.getvalue()


def sums(folder: Path) -> Mapping[str, str]:
    """Return the SHA-256 of each file of a folder but the list of checksums, by name."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != SUMS)
    return {path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def differences(one: Path, other: Path) -> Iterator[str]:
    """Yield the name of each file that only one of two folders has, or that differs."""
    first, second = sums(one), sums(other)
    yield from (name for name in sorted(first.keys() | second.keys()) if first.get(name) != second.get(name))


def _bill(lock: str, target: Path) -> tuple[str, ...]:
    program = str(VENV / "release/bin/cyclonedx-py")
    options = ("--output-reproducible", "--output-format", "JSON", "--output-file", str(target))
    return (program, "requirements", *options, "--pyproject", "pyproject.toml", f"requirements/{lock}.txt")


def _run(environment: Mapping[str, str], *command: str) -> None:
    done = subprocess.run(  # noqa: S603 - programs of the release, with arguments of this file
        command, cwd=ROOT, env=dict(environment), capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{Path(command[0]).name}: {(done.stderr or done.stdout)[-1000:].strip()}")


def main(folder: Path, *options: str) -> int:
    """Build the release, with `--twice` two times; print the files; return 1 if the builds differ."""
    build(folder)
    for name in sums(folder):
        print(f"{(folder / name).stat().st_size:>12,} bytes  {name}")
    if "--twice" not in options:
        return 0
    again = folder.with_name(f"{folder.name}-again")
    build(again)
    found = list(differences(folder, again))
    print("\n".join(f"differs: {name}" for name in found) or "two builds are equal to the byte")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).resolve(), *sys.argv[2:]))
