"""The build rules: the files of a function and of the layers, and whether they suffice to run."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from faultbridge.local.environment import host_architecture, host_python
from infra.docs.template import template
from tests.architecture.project import FUNCTIONS, PACKAGE, ROOT, lambda_files, not_in_lambda
from tests.packaging.runtime import link_runtime

pytestmark = pytest.mark.slow

# Bit 0: validated by hash instead of time. Bit 1: the hash is compared at import.
UNCHECKED_HASH = 0b01


ELF_NUMBERS = {"x86_64": 0x3E, "arm64": 0xB7}
"""The number of each architecture in the header of a compiled module."""


def make(goal: str, artifacts: Path, architecture: str | None = None) -> Path:
    """Run a build rule as SAM does, for the default architecture or another one."""
    artifacts.mkdir()
    chosen = [] if architecture is None else [f"ARCHITECTURE={architecture}"]
    command = ["make", "--no-print-directory", goal, f"ARTIFACTS_DIR={artifacts}", f"PYTHON_VERSION={host_python()}"]
    done = subprocess.run([*command, *chosen], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return artifacts


@pytest.fixture(scope="module")
def function(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build a function."""
    return make("build-IngestFunction", tmp_path_factory.mktemp("function") / "out")


@pytest.fixture(scope="module")
def layer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the dependency layer for this computer; pip uses its cache or the registries."""
    return make("build-DependenciesLayer", tmp_path_factory.mktemp("layer") / "out", host_architecture())


@pytest.fixture(scope="module")
def kubernetes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the Kubernetes layer, which some functions also use."""
    return make("build-KubernetesLayer", tmp_path_factory.mktemp("kubernetes") / "out", host_architecture())


@pytest.fixture(scope="module")
def console(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the layer of the console."""
    return make("build-ConsoleLayer", tmp_path_factory.mktemp("console") / "out", host_architecture())


@pytest.fixture(scope="module")
def runtime(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Create a folder with only the packages of the Lambda runtime."""
    return link_runtime(tmp_path_factory.mktemp("runtime"))


def uncompiled(artifact: Path) -> list[str]:
    """Return the modules without bytecode that Python loads unchecked."""
    found = []
    for source in artifact.rglob("*.py"):
        compiled = Path(importlib.util.cache_from_source(str(source)))
        if not compiled.exists() or compiled.read_bytes()[4] != UNCHECKED_HASH:
            found.append(source.relative_to(artifact).as_posix())
    return found


def test_a_function_contains_its_handler_and_the_package_without_its_local_parts(function: Path) -> None:
    assert {path.name for path in function.iterdir()} == {
        *(path.name for path in (FUNCTIONS / "ingest").iterdir() if path.name != "__pycache__"),
        "faultbridge",
        "__pycache__",
    }
    assert [name for name in not_in_lambda() if (function / "faultbridge" / name).exists()] == []


def test_every_module_of_a_function_is_compiled(function: Path) -> None:
    assert uncompiled(function) == []


def test_every_module_of_the_layers_is_compiled(layer: Path, kubernetes: Path, console: Path) -> None:
    assert uncompiled(layer) == uncompiled(kubernetes) == uncompiled(console) == []


DEFAULT = template()["Parameters"]["Architecture"]["Default"]


@pytest.mark.parametrize("architecture", [None, *sorted(ELF_NUMBERS.keys() - {DEFAULT})])
def test_the_compiled_modules_of_a_layer_are_those_of_the_architecture(
    tmp_path: Path, kubernetes: Path, architecture: str | None
) -> None:
    is_built = architecture == host_architecture()
    layer = kubernetes if is_built else make("build-KubernetesLayer", tmp_path / "out", architecture)
    found = {int.from_bytes(path.read_bytes()[18:20], "little") for path in layer.rglob("*.so")}
    assert found == {ELF_NUMBERS[architecture or DEFAULT]}


def test_two_builds_are_identical(function: Path, tmp_path: Path) -> None:
    again = make("build-IngestFunction", tmp_path / "again")
    first = {p.relative_to(function): p.read_bytes() for p in function.rglob("*") if p.is_file()}
    assert first == {p.relative_to(again): p.read_bytes() for p in again.rglob("*") if p.is_file()}


def test_the_modules_of_the_handlers_import_with_the_layers_and_the_runtime_only(
    function: Path, layer: Path, kubernetes: Path, console: Path, runtime: Path
) -> None:
    files = [p.relative_to(PACKAGE.parent).with_suffix("") for p in lambda_files() if p.is_relative_to(PACKAGE)]
    names = sorted({".".join(path.parts).removesuffix(".__init__") for path in files})
    layers = [one / "python" for one in (layer, kubernetes, console)]
    places = [str(place) for place in (function, *layers, runtime)]
    program = f"import sys, importlib; sys.path += {places!r}\n"
    program += "\n".join(f"importlib.import_module({name!r})" for name in names)
    # -I -S excludes the packages of this environment and of the user.
    done = subprocess.run([sys.executable, "-I", "-S", "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_syntax_error_fails_the_build(tmp_path: Path) -> None:
    for name in ("Makefile", "infra", "requirements", "pyproject.toml", ".venv"):
        (tmp_path / name).symlink_to(ROOT / name)
    (tmp_path / "src" / "faultbridge").mkdir(parents=True)
    (tmp_path / "functions" / "ingest").mkdir(parents=True)
    (tmp_path / "functions" / "ingest" / "handler.py").write_text("def handler(:\n", encoding="utf-8")
    (tmp_path / "out").mkdir()
    command = ["make", "build-IngestFunction", f"ARTIFACTS_DIR={tmp_path / 'out'}"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "SyntaxError" in done.stdout + done.stderr


def test_a_build_for_aws_with_another_python_than_the_runtime_is_refused() -> None:
    command = ["make", "--no-print-directory", "runtime", "PYTHON_VERSION=3.10"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert f"the functions run on python3.10, .venv is Python {host_python()}" in done.stderr
    assert f"make build PYTHON_VERSION={host_python()}" in done.stderr
