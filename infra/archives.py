"""Write the packaged template and its archives into the package, from which `faultbridge deploy` reads them.

python -m infra.archives [FOLDER]

A layer contains the compiled modules of both architectures side by side: their file names differ, and Python loads
those of its own. So one archive serves `arm64` and `x86_64`. The bytecode is for the Python that runs this program.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from faultbridge.install.packaging import LAYERS, PACKAGED, compiled_archive, package
from faultbridge.local.environment import host_python
from faultbridge.local.stack.deployment import write_state_machines

ROOT = Path(__file__).resolve().parents[1]
PLATFORMS = ("manylinux2014_aarch64", "manylinux2014_x86_64")
_LEFT_OUT = "RECORD"
"""The list of installed files has the hash of scripts, which contain the path of this Python; nothing reads it."""


def layer(lock: Path) -> bytes:
    """Return the archive of a layer with the locked wheels of every platform."""
    files: dict[str, bytes] = {}
    for platform in PLATFORMS:
        for name, content in _wheels(lock, platform):
            if files.setdefault(name, content) != content and not name.endswith("/WHEEL"):
                raise SystemExit(f"{lock.name}: {name} differs between the platforms; such a package needs two layers")
    return compiled_archive(files, place="/opt")


def _wheels(lock: Path, platform: str) -> Iterator[tuple[str, bytes]]:
    with TemporaryDirectory() as scratch:
        command = [
            *(sys.executable, "-m", "pip", "install", "-qq", "--disable-pip-version-check", "--no-compile"),
            *("--require-hashes", "--only-binary", ":all:", "--implementation", "cp"),
            *("--python-version", host_python(), "--platform", platform),
            *("--target", scratch, "-r", str(lock)),
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - pip of this Python
        if done.returncode:
            raise SystemExit(f"{lock.name}: {done.stderr.strip()[-500:]}")
        for path in sorted(Path(scratch).rglob("*")):
            inside = path.relative_to(scratch)
            if path.is_file() and inside.parts[0] != "bin" and path.name != _LEFT_OUT:
                yield f"python/{inside.as_posix()}", path.read_bytes()


def main(folder: Path) -> None:
    """Package this checkout into a folder, which replaces what was there."""
    write_state_machines(ROOT)
    layers = {name: layer(ROOT / "requirements" / f"{lock}.txt") for name, lock in LAYERS.items()}
    packaged = package(ROOT, ROOT / "infra" / "template.yaml", layers)
    shutil.rmtree(folder, ignore_errors=True)
    packaged.write(folder)
    for artifact in packaged.artifacts:
        print(f"{len(artifact.content):>10,} bytes  {artifact.name}")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else PACKAGED)
