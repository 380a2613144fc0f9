"""Builds the wheel and the sdist, installs the wheel in clean environments, and runs its commands there.

python -m infra.dist FOLDER

The embedded stack, the demo and a deployment to its emulators run there too: from the wheel alone, without a checkout.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from faultbridge.install.packaging import PACKAGED
from infra import archives

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

STACK_COMMANDS: Sequence[tuple[str, str]] = (
    ("up", "Console"),
    ("demo", "New instance"),
    ("deploy --stack second --plan --endpoint-url {endpoint}", "create the stack"),
    ("deploy --stack second --yes --endpoint-url {endpoint} --set TableDeletionProtection=false", "created"),
    ("deploy --stack second --yes --endpoint-url {endpoint}", "up to date"),
    ("destroy --stack second --yes --endpoint-url {endpoint}", "VaultBucket"),
    ("down --yes", "Stopped"),
)
"""Commands that need the embedded stack, in this order, and a text in the output of each."""

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


def install(wheel: Path, folder: Path, *, extra: str | None) -> Path:
    """Install a wheel, with its locked dependencies and an extra unless that is None; return the program folder."""
    _run(["uv", "venv", "--quiet", "--python", sys.executable, str(folder)], ROOT)
    constraints = folder / "constraints.txt"
    lines = (ROOT / "requirements" / "dev.txt").read_text(encoding="utf-8").splitlines()
    constraints.write_text("\n".join(line.rstrip(" \\") for line in lines if "==" in line and line[0].isalnum()))
    options = ["--no-deps", str(wheel)] if extra is None else ["--constraint", str(constraints), f"{wheel}{extra}"]
    _run(["uv", "pip", "install", "--quiet", "--python", str(folder / "bin/python"), *options], ROOT)
    return folder / "bin"


def failures(programs: Path, folder: Path) -> Iterator[str]:
    """Run the commands in a folder, and yield a line for each that fails."""
    (folder / "xid.log").write_text(f"{XID}\n", encoding="utf-8")
    (folder / "policy.yaml").write_text("rules: [{name: catalog, match: {}}]\n", encoding="utf-8")
    (folder / "credentials").write_text(
        "[default]\naws_access_key_id=test\naws_secret_access_key=test\n", encoding="utf-8"
    )
    endpoint = ""
    for command, expected in (*COMMANDS, *STACK_COMMANDS):
        started = time.monotonic()
        ran = _try([str(programs / "faultbridge"), *command.format(endpoint=endpoint).split()], folder)
        if command == "up":
            shown = re.search(r"http://127[^ \n]+", ran.stdout)
            endpoint = shown[0] if shown else ""
        if ran.returncode or expected not in ran.stdout:
            said = (ran.stderr or ran.stdout)[-300:].strip()
            yield f"faultbridge {command}: exit code {ran.returncode}: {said}"
        elif (command, expected) in STACK_COMMANDS:
            print(f"{time.monotonic() - started:6.1f} s  faultbridge {command}")


def main(folder: Path) -> int:
    """Build and check a distribution; print what was built and what fails; return the exit code."""
    folder.mkdir(parents=True, exist_ok=True)
    archives.main(PACKAGED)  # of this tree: the wheel contains them
    wheel, sdist = build(folder.resolve())
    with tempfile.TemporaryDirectory() as scratch:
        work, rebuilt = Path(scratch, "work"), Path(scratch, "sdist")
        work.mkdir()
        rebuilt.mkdir()
        found = list(failures(install(wheel, Path(scratch, "full"), extra="[local]"), work))
        agent = _try([str(install(wheel, Path(scratch, "agent"), extra=None) / "python"), *AGENT], work)
        if agent.returncode:
            found.append(f"the agent needs a dependency: {agent.stderr[-300:].strip()}")
        if names(wheel_of_sdist(sdist, rebuilt)) != names(wheel):
            found.append("the sdist does not build the same wheel")
    sys.stdout.writelines(f"{line}\n" for line in found or (wheel, sdist))
    return 1 if found else 0


def _try(arguments: Sequence[str], folder: Path) -> subprocess.CompletedProcess[str]:
    # Only these variables: the environment of the checkout must not reach the installed package.
    environment = {
        "PATH": "/usr/bin:/bin",
        "HOME": str(folder),
        # For a deployment to the emulators, which accept any credentials.
        "AWS_REGION": "us-east-1",
        "AWS_SHARED_CREDENTIALS_FILE": str(folder / "credentials"),
    }
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
