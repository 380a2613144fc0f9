"""Builds the wheel and the sdist, installs the wheel in clean environments, and runs the offline commands there.

python -m infra.dist FOLDER
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
XID = "NVRM: Xid (PCI:0000:c1:00): 79, pid=1, name=python, GPU has fallen off the bus."
COMMANDS: Sequence[tuple[str, str]] = (
    ("--version", ""),
    ("--help", "decode"),
    ("decode --source kernel-log --node n-1 xid.log", "xid.79"),
    ("sources", "kernel-log"),
    ("catalog xid 79", "replace_node"),
    ("explain --json xid.log", "verdict"),
    ("mechanism list", ""),
    ("schema list", "Node Fault Detected"),
    ("policy check policy.yaml", ""),
    ("agent --help", "--once"),
)
"""Offline commands, and a text in the output of each. They run in a folder with `xid.log` and `policy.yaml`."""

AGENT = ("-m", "faultbridge.node.agent", "--help")
"""Arguments of Python that start the agent, which must not need any dependency."""


def build(folder: Path) -> tuple[Path, Path]:
    """Build into a folder, and return the paths of the wheel and the sdist."""
    _run([sys.executable, "-m", "hatchling", "build", "--directory", str(folder)], ROOT)
    (wheel,), (sdist,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    return wheel, sdist


def wheel_of_sdist(sdist: Path, folder: Path) -> Path:
    """Unpack an sdist, build a wheel from it alone, and return the path of the wheel."""
    _run(["tar", "-xf", str(sdist), "-C", str(folder), "--strip-components", "1"], folder)
    _run([sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", "built"], folder)
    (wheel,) = (folder / "built").glob("*.whl")
    return wheel


def names(wheel: Path) -> list[str]:
    """Return the names of the files in a wheel."""
    with zipfile.ZipFile(wheel) as archive:
        return sorted(archive.namelist())


def install(wheel: Path, folder: Path, *, dependencies: bool) -> Path:
    """Install a wheel, with its locked dependencies if `dependencies` is True; return the program folder."""
    _run(["uv", "venv", "--quiet", "--python", sys.executable, str(folder)], ROOT)
    constraints = folder / "constraints.txt"
    lines = (ROOT / "requirements" / "dev.txt").read_text(encoding="utf-8").splitlines()
    constraints.write_text("\n".join(line.rstrip(" \\") for line in lines if "==" in line and line[0].isalnum()))
    options = ["--constraint", str(constraints)] if dependencies else ["--no-deps"]
    _run(["uv", "pip", "install", "--quiet", "--python", str(folder / "bin/python"), *options, str(wheel)], ROOT)
    return folder / "bin"


def failures(programs: Path, folder: Path) -> list[str]:
    """Run the offline commands in a folder, and return a line for each that fails."""
    (folder / "xid.log").write_text(f"{XID}\n", encoding="utf-8")
    (folder / "policy.yaml").write_text("rules: [{name: catalog, match: {}}]\n", encoding="utf-8")
    found = []
    for command, expected in COMMANDS:
        ran = _try([str(programs / "faultbridge"), *command.split()], folder)
        if ran.returncode or expected not in ran.stdout:
            found.append(
                f"faultbridge {command}: exit code {ran.returncode}: {(ran.stderr or ran.stdout)[-300:].strip()}"
            )
    return found


def main(folder: Path) -> int:
    """Build and check a distribution; print what was built and what fails; return the exit code."""
    folder.mkdir(parents=True, exist_ok=True)
    wheel, sdist = build(folder.resolve())
    with tempfile.TemporaryDirectory() as scratch:
        work, rebuilt = Path(scratch, "work"), Path(scratch, "sdist")
        work.mkdir()
        rebuilt.mkdir()
        found = failures(install(wheel, Path(scratch, "full"), dependencies=True), work)
        agent = _try([str(install(wheel, Path(scratch, "agent"), dependencies=False) / "python"), *AGENT], work)
        if agent.returncode:
            found.append(f"the agent needs a dependency: {agent.stderr[-300:].strip()}")
        if names(wheel_of_sdist(sdist, rebuilt)) != names(wheel):
            found.append("the sdist does not build the same wheel")
    sys.stdout.writelines(f"{line}\n" for line in found or (wheel, sdist))
    return 1 if found else 0


def _try(arguments: Sequence[str], folder: Path) -> subprocess.CompletedProcess[str]:
    # Only these variables: the environment of the checkout must not reach the installed package.
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(folder)}
    return subprocess.run(  # noqa: S603 - the installed program, with arguments of this file
        arguments, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


def _run(arguments: Sequence[str], folder: Path) -> None:
    program = Path(sys.executable).parent / arguments[0]
    full = [str(program) if program.exists() else arguments[0], *arguments[1:]]
    ran = subprocess.run(  # noqa: S603 - as above
        full, cwd=folder, capture_output=True, text=True, check=False
    )
    if ran.returncode:
        raise SystemExit(f"{' '.join(arguments[:4])}: {ran.stderr[-1000:]}")


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
