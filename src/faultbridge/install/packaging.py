"""Package the template and what it deploys: one archive for all functions, one for each layer, the state machines.

The wheel contains the result as files (`make archives`), so `faultbridge deploy` needs no checkout. The embedded stack
packages the running code itself, with the layers from the packages that are installed beside it: it runs on any Python.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Mapping
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import yaml

from faultbridge.model.errors import Misconfigured

Template = dict[str, Any]

PACKAGE = Path(__file__).resolve().parents[1]
PACKAGED = PACKAGE / "install" / "packaged"
"""The folder of the packaged template and its archives; `make archives` writes it, and the wheel contains it."""

TEMPLATE_NAME, INDEX_NAME = "template.json", "index.json"
FOLDER_IN_BUCKET = "faultbridge"
BUCKET_PARAMETER = "ArtifactBucket"

NOT_IN_LAMBDA = ("cli", "decide/policyfile", "install", "local", "node")
"""Parts of the package that never run in Lambda; `infra/build.mk` leaves out the same."""

LAYERS: Mapping[str, str] = {"DependenciesLayer": "lambda", "KubernetesLayer": "kubernetes", "ConsoleLayer": "console"}
"""The lock file (`requirements/<name>.txt`) of each layer."""

_CODE, _LAYER = "/var/task", "/opt"  # where Lambda unpacks functions and layers
_FIRST_DATE = (1980, 1, 1, 0, 0, 0)  # the earliest time that an archive can contain
_FILE_MODE = 0o100644 << 16
_DIGEST_DIGITS = 16


class Artifact(msgspec.Struct, frozen=True):
    """A file that a template deploys, and its name in the bucket, which contains a hash of the content."""

    name: str
    content: bytes

    @property
    def key(self) -> str:
        """Return the S3 key of the file."""
        return f"{FOLDER_IN_BUCKET}/{self.name}"

    @classmethod
    def of(cls, stem: str, suffix: str, content: bytes) -> Artifact:
        """Return an artifact whose name is the stem, a hash of the content and the suffix."""
        return cls(f"{stem}-{hashlib.sha256(content).hexdigest()[:_DIGEST_DIGITS]}{suffix}", content)


class Packaged(msgspec.Struct, frozen=True):
    """A template that refers to its artifacts in the bucket of the parameter `ArtifactBucket`, and these artifacts.

    `python` is the minor version for which the archives contain bytecode and compiled modules.
    """

    template: Template
    artifacts: tuple[Artifact, ...]
    python: str

    @property
    def body(self) -> bytes:
        """Return the template as JSON, the same bytes for the same template."""
        return json.dumps(self.template, sort_keys=True, separators=(",", ":")).encode()

    def write(self, folder: Path) -> None:
        """Write template, artifacts and index into an empty folder."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / TEMPLATE_NAME).write_bytes(self.body)
        for artifact in self.artifacts:
            (folder / artifact.name).write_bytes(artifact.content)
        index = {"python": self.python, "artifacts": [one.name for one in self.artifacts]}
        (folder / INDEX_NAME).write_text(json.dumps(index, indent=1) + "\n", encoding="utf-8")


def read_packaged(folder: Path = PACKAGED) -> Packaged:
    """Return what `write` wrote, by default that of the wheel; raises `Misconfigured` if there is nothing."""
    try:
        index = json.loads((folder / INDEX_NAME).read_bytes())
        template = json.loads((folder / TEMPLATE_NAME).read_bytes())
        artifacts = tuple(Artifact(name, (folder / name).read_bytes()) for name in index["artifacts"])
    except FileNotFoundError:
        raise Misconfigured("this installation contains no archives; in a checkout, run `make archives`") from None
    return Packaged(template, artifacts, index["python"])


def require_running_code(packaged: Packaged) -> None:
    """Raise `Misconfigured` unless the archive of the functions contains exactly the running package.

    In a checkout, the archives may be those of another commit.
    """
    (functions,) = (one for one in packaged.artifacts if one.name.startswith("functions-"))
    with zipfile.ZipFile(io.BytesIO(functions.content)) as inside:
        names = [name for name in inside.namelist() if name.startswith("faultbridge/") and not name.endswith(".pyc")]
        same = {name: inside.read(name) for name in names} == _package(PACKAGE)
    if not same:
        raise Misconfigured("the archives are not those of the running code; run `make archives` again")


# ---------------------------------------------------------------- packaging


def package(project: Path, template: Path, layers: Mapping[str, bytes]) -> Packaged:
    """Package the template of a project; `layers` has the archive of each layer by its logical id."""
    functions = Artifact.of("functions", ".zip", function_archive(project))
    artifacts = {functions.name: functions}
    document = read_template(template)
    default = document.get("Globals", {}).get("Function", {})
    default.pop("CodeUri", None)
    if document.get("Transform"):
        document.setdefault("Parameters", {})[BUCKET_PARAMETER] = {
            "Type": "String",
            "Description": "The bucket of the archives; `faultbridge deploy` creates it and sets this parameter.",
        }

    def placed(artifact: Artifact) -> dict[str, Any]:
        artifacts[artifact.name] = artifact
        return {"Bucket": {"Ref": BUCKET_PARAMETER}, "Key": artifact.key}

    for logical_id, properties in resources(document, "AWS::Serverless::Function"):
        handler = properties.get("Handler") or default.get("Handler", "")
        properties["Handler"] = f"{function_module(logical_id, properties)}.{handler.rpartition('.')[2]}"
        properties["CodeUri"] = placed(functions)
    for logical_id, properties in resources(document, "AWS::Serverless::LayerVersion"):
        properties["ContentUri"] = placed(Artifact.of(LAYERS[logical_id], ".zip", layers[logical_id]))
    for _, properties in resources(document, "AWS::Serverless::StateMachine"):
        file = template.parent / properties["DefinitionUri"]
        properties["DefinitionUri"] = placed(Artifact.of(file.name.partition(".")[0], ".asl.json", file.read_bytes()))
    for resource in document.get("Resources", {}).values():
        if resource.get("Metadata") == {"BuildMethod": "makefile"}:
            del resource["Metadata"]
    return Packaged(document, tuple(sorted(artifacts.values(), key=lambda one: one.name)), _running_python())


def function_module(logical_id: str, properties: Mapping[str, Any]) -> str:
    """Return the module with the handler of a function: the name of its folder in `functions`."""
    folder = properties.get("CodeUri")
    return PurePosixPath(folder).name if isinstance(folder, str) else logical_id.removesuffix("Function").lower()


def function_archive(project: Path) -> bytes:
    """Return the archive of all functions: the package, and each `functions/<name>/handler.py` as `<name>.py`."""
    files = {f"{one.parent.name}.py": one.read_bytes() for one in (project / "functions").glob("*/handler.py")}
    return compiled_archive({**files, **_package(project / "src" / "faultbridge")}, place=_CODE)


def _package(folder: Path) -> dict[str, bytes]:
    left_out = tuple(folder / name for name in NOT_IN_LAMBDA)
    return {
        f"faultbridge/{file.relative_to(folder).as_posix()}": file.read_bytes()
        for file in folder.rglob("*")
        if file.is_file() and file.suffix != ".pyc" and not any(file.is_relative_to(one) for one in left_out)
    }


def installed_layer(names: Mapping[str, bool]) -> bytes:
    """Return the archive of a layer from packages that are installed beside this one; for this Python and computer.

    The value of a name is whether it may be missing.
    """
    files: dict[str, bytes] = {}
    for name, optional in names.items():
        try:
            found = distribution(name)
        except PackageNotFoundError:
            if optional:
                continue
            raise Misconfigured(
                f"the embedded stack needs {name}; run `make setup`, or install faultbridge[local]"
            ) from None
        for file in found.files or ():
            path, source = PurePosixPath(file), Path(str(file.locate()))
            if ".." not in path.parts and path.suffix != ".pyc" and source.is_file():
                files[f"python/{path}"] = source.read_bytes()
    return compiled_archive(files, place=_LAYER)


def with_installed_layers(packaged: Packaged) -> Packaged:
    """Return a packaged template whose layers contain the packages that are installed beside this one.

    Those of the wheel are for the runtime's Python and for Linux, and the embedded stack uses the Python that runs it.
    """
    artifacts = {one.key: one for one in packaged.artifacts}
    for _, properties in resources(packaged.template, "AWS::Serverless::LayerVersion"):
        theirs = artifacts.pop(properties["ContentUri"]["Key"])
        with zipfile.ZipFile(io.BytesIO(theirs.content)) as inside:
            found = (
                re.fullmatch(r"python/([A-Za-z0-9_.]+)-[^/-]+\.dist-info/METADATA", one) for one in inside.namelist()
            )
        ours = Artifact.of(
            theirs.name.rpartition("-")[0], ".zip", installed_layer({one[1]: False for one in found if one})
        )
        artifacts[ours.key] = ours
        properties["ContentUri"]["Key"] = ours.key
    return Packaged(packaged.template, tuple(artifacts.values()), _running_python())


def locked_names(lock: str) -> dict[str, bool]:
    """Return the packages in the text of a lock file, and whether only some computers or Pythons need them."""
    return {name: bool(marker) for name, marker in re.findall(r"^([A-Za-z0-9._-]+)==[^ ]+( ;)?", lock, re.MULTILINE)}


def compiled_archive(files: Mapping[str, bytes], *, place: str) -> bytes:
    """Return an archive of the files with their bytecode, as Lambda loads it from `place`; equal files, equal bytes.

    Lambda's code folder is read-only: what is not compiled here is compiled again at every cold start. The hash of a
    source is not checked at import, because files in an archive have no useful times.
    """
    with TemporaryDirectory(prefix="faultbridge-") as scratch:
        folder = Path(scratch)
        for name, content in files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        # A process of its own: bytecode depends on what the compiling process has loaded before.
        command = [sys.executable, "-I", "-m", "compileall", "-q", "--invalidation-mode", "unchecked-hash"]
        done = subprocess.run(  # noqa: S603 - this Python, with arguments of this file
            [*command, "-s", scratch, "-p", place, scratch], capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            reason = (done.stdout.strip() or done.stderr.strip() or "no error output").splitlines()[-1]
            raise Misconfigured(f"a file to deploy cannot be compiled: {reason}")
        everything = (path for path in folder.rglob("*") if path.is_file())
        return archive({path.relative_to(folder).as_posix(): path.read_bytes() for path in everything})


def archive(files: Mapping[str, bytes]) -> bytes:
    """Return a zip archive of the files, sorted and without times: equal files give equal bytes."""
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w") as target:
        for name in sorted(files):
            entry = zipfile.ZipInfo(name, _FIRST_DATE)
            entry.create_system, entry.external_attr, entry.compress_type = 3, _FILE_MODE, zipfile.ZIP_DEFLATED
            target.writestr(entry, files[name], compresslevel=9)
    return written.getvalue()


def _running_python() -> str:
    return f"{sys.version_info.major}.{sys.version_info.minor}"


# ---------------------------------------------------------------- templates


class _Loader(yaml.SafeLoader):
    """A YAML loader that accepts short CloudFormation intrinsic functions such as `!Ref`."""


def _intrinsic(loader: _Loader, suffix: str, node: yaml.Node) -> dict[str, Any]:
    name = suffix if suffix in {"Ref", "Condition"} else f"Fn::{suffix}"
    if isinstance(node, yaml.ScalarNode):
        value: Any = loader.construct_scalar(node)
        return {name: value.split(".", 1) if suffix == "GetAtt" else value}
    if isinstance(node, yaml.SequenceNode):
        return {name: loader.construct_sequence(node, deep=True)}
    if isinstance(node, yaml.MappingNode):
        return {name: loader.construct_mapping(node, deep=True)}
    raise yaml.constructor.ConstructorError(None, None, f"unknown kind of value after !{suffix}", node.start_mark)


_Loader.add_multi_constructor("!", _intrinsic)


def read_template(path: Path) -> Template:
    """Return a CloudFormation template as plain data, with `!Ref` and similar in their long form."""
    document = yaml.load(path.read_text(), Loader=_Loader)  # noqa: S506 - a SafeLoader with intrinsics
    return document if isinstance(document, dict) else {}


def resources(template: Template, *types: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the logical id and the properties of each resource of the given types in a template."""
    for logical_id, resource in template.get("Resources", {}).items():
        if resource.get("Type") in types:
            yield logical_id, resource.get("Properties", {})
