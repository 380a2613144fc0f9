"""The archives have the same bytes for the same files, and the packaged template refers to them."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import pytest

from faultbridge.cli.commands.install import deploy
from faultbridge.install import packaging
from faultbridge.install.cloudformation import KEEP_DATA
from faultbridge.install.packaging import Artifact, Packaged
from faultbridge.model.errors import Misconfigured
from tests.architecture.project import FUNCTIONS, ROOT, not_in_lambda

TEMPLATE = ROOT / "infra" / "template.yaml"
TINY = ROOT / "tests" / "local" / "tiny"


def names_in(content: bytes) -> list[str]:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return archive.namelist()


def a_package(**functions: bytes) -> Packaged:
    """Return a package whose archive of functions has these files of the package."""
    content = packaging.archive({f"faultbridge/{name}.py": text for name, text in functions.items()})
    return Packaged({"Resources": {}}, (Artifact.of("functions", ".zip", content),), "3.11")


def test_equal_files_give_equal_archives_in_any_order() -> None:
    one = packaging.archive({"b": b"2", "a": b"1"})
    assert one == packaging.archive({"a": b"1", "b": b"2"})
    assert names_in(one) == ["a", "b"]
    with zipfile.ZipFile(io.BytesIO(one)) as archive:
        assert {entry.date_time for entry in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}


def test_bytecode_has_the_paths_of_lambda_and_is_not_compared_with_its_source() -> None:
    content = packaging.compiled_archive({"a/b.py": b"x = 1\n"}, place="/var/task")
    (compiled,) = (name for name in names_in(content) if name.endswith(".pyc"))
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        bytecode = archive.read(compiled)
    assert bytecode[4] == 0b01
    assert b"/var/task/a/b.py" in bytecode
    assert packaging.compiled_archive({"a/b.py": b"x = 1\n"}, place="/var/task") == content


def test_a_file_that_cannot_be_compiled_is_named() -> None:
    with pytest.raises(Misconfigured, match="cannot be compiled"):
        packaging.compiled_archive({"a.py": b"def f(:\n"}, place="/var/task")


@pytest.mark.slow
def test_one_archive_has_the_package_and_the_handler_of_every_function() -> None:
    names = names_in(packaging.function_archive(ROOT))
    assert {f"{folder.parent.name}.py" for folder in FUNCTIONS.glob("*/handler.py")} <= set(names)
    assert "faultbridge/serve/entrypoints/ingest.py" in names
    left_out = tuple(f"faultbridge/{name}" for name in not_in_lambda())
    assert [name for name in names if name.startswith(left_out)] == []


def test_the_archives_and_sam_leave_out_the_same_parts_of_the_package() -> None:
    assert sorted(packaging.NOT_IN_LAMBDA) == sorted(not_in_lambda())


@pytest.mark.slow
def test_every_function_of_the_packaged_template_names_its_handler_and_the_same_archive() -> None:
    layers = dict.fromkeys(packaging.LAYERS, b"")
    packaged = packaging.package(ROOT, TEMPLATE, layers)
    functions = dict(packaging.resources(packaged.template, "AWS::Serverless::Function"))
    handlers = {properties["Handler"] for properties in functions.values()}
    assert handlers == {f"{one.parent.name}.handler" for one in FUNCTIONS.glob("*/handler.py")}
    assert len({properties["CodeUri"]["Key"] for properties in functions.values()}) == 1
    keys = {one.key for one in packaged.artifacts}
    assert {properties["CodeUri"]["Key"] for properties in functions.values()} <= keys
    for _, properties in packaging.resources(packaged.template, "AWS::Serverless::LayerVersion"):
        assert properties["ContentUri"]["Key"] in keys
    assert "BuildMethod" not in packaged.body.decode()
    assert packaging.package(ROOT, TEMPLATE, layers).body == packaged.body


def test_a_package_that_was_written_is_read_back(tmp_path: Path) -> None:
    packaged = packaging.package(TINY, TINY / "infra" / "template.yaml", {})
    packaged.write(tmp_path / "out")
    again = packaging.read_packaged(tmp_path / "out")
    assert (again.body, again.artifacts, again.python) == (packaged.body, packaged.artifacts, packaged.python)


def test_without_archives_the_command_that_makes_them_is_named(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match="make archives"):
        packaging.read_packaged(tmp_path)


def test_archives_of_another_commit_are_refused() -> None:
    with pytest.raises(Misconfigured, match="not those of the running code"):
        packaging.require_running_code(a_package(__init__=b"another commit"))


def test_the_layers_of_the_wheel_are_replaced_by_what_is_installed_here() -> None:
    wheel = Artifact.of("lambda", ".zip", packaging.archive({"python/cronsim-0.1.dist-info/METADATA": b""}))
    uri = {"Bucket": {"Ref": "ArtifactBucket"}, "Key": wheel.key}
    layer = {"Type": "AWS::Serverless::LayerVersion", "Properties": {"ContentUri": uri}}
    packaged = packaging.with_installed_layers(Packaged({"Resources": {"DependenciesLayer": layer}}, (wheel,), "3.9"))
    (ours,) = packaged.artifacts
    assert layer["Properties"]["ContentUri"]["Key"] == ours.key != wheel.key
    assert "python/cronsim/__init__.py" in names_in(ours.content)


def test_a_layer_without_one_of_its_packages_is_refused_unless_only_others_need_it() -> None:
    lock = "cronsim==2.8 \\\n    --hash=x\nno-such-package==1.0 ; sys_platform == 'emscripten' \\\n"
    assert packaging.locked_names(lock) == {"cronsim": False, "no-such-package": True}
    packaging.installed_layer(packaging.locked_names(lock))
    with pytest.raises(Misconfigured, match="no-such-package"):
        packaging.installed_layer({"no-such-package": False})


def test_short_intrinsic_functions_are_expanded(tmp_path: Path) -> None:
    file = tmp_path / "template.yaml"
    file.write_text("a: !Ref B\nb: !GetAtt C.Arn\nc: !If [D, !Sub '${E}', {f: !Condition G}]\n")
    assert packaging.read_template(file) == {
        "a": {"Ref": "B"},
        "b": {"Fn::GetAtt": ["C", "Arn"]},
        "c": {"Fn::If": ["D", {"Fn::Sub": "${E}"}, {"f": {"Condition": "G"}}]},
    }


def test_resources_are_found_by_type() -> None:
    document = {"Resources": {"A": {"Type": "T", "Properties": {"x": 1}}, "B": {"Type": "U"}, "C": {"Type": "T"}}}
    assert list(packaging.resources(document, "T")) == [("A", {"x": 1}), ("C", {})]


def test_every_resource_that_stays_is_explained_and_protected_from_replacement() -> None:
    template = packaging.read_template(TEMPLATE)["Resources"]
    stays = {name for name, one in template.items() if "Retain" in one.get("DeletionPolicy", "")}
    assert stays == set(deploy.RETAINED)
    assert {template[name]["Type"] for name in stays} == KEEP_DATA
