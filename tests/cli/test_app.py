"""The frame: what is loaded, and what each error becomes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from typer.main import get_command

from faultbridge.cli.app import application, run
from faultbridge.cli.commands import COMMANDS
from faultbridge.cli.failures import failure_of
from faultbridge.errors import Conflict, Misconfigured, Rejected, Transient


class EndpointConnectionError(Exception):
    """A stand-in for the exception of that name in botocore."""


def caused(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (Rejected("no_framing", "x"), 65),
        (Transient("throttled"), 75),
        (Conflict("lost a race"), 75),
        (Misconfigured("no such table"), 69),
        (ConnectionRefusedError(111, "Connection refused"), 69),
        (caused(Transient("reading a node"), EndpointConnectionError("http://127.0.0.1:1")), 69),
        (FileNotFoundError(2, "No such file or directory", "x.log"), 2),
        (KeyError("a bug"), 70),
    ],
)
def test_each_kind_of_error_has_its_exit_code(error: Exception, code: int) -> None:
    failure = failure_of(error)
    assert failure.exit_code == code
    assert failure.what
    assert failure.mend


def test_a_failure_is_one_line_whatever_the_error_says() -> None:
    assert failure_of(Transient("one\ntwo\n  three")).what == "one two three"


def test_help_lists_every_command_and_loads_none(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--help"]) == 0
    out = capsys.readouterr().out
    assert all(name in out for name in COMMANDS)


def test_a_command_without_a_verb_is_answered_with_its_help(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, verb in (([], "decode"), (["node"], "import")):
        assert run(arguments) == 2
        told = capsys.readouterr().err
        assert "Commands:" in told
        assert verb in told


def helps(name: str) -> Iterator[list[str]]:
    root: Any = get_command(application([name]))
    verbs = getattr(root.commands[name], "commands", None)
    yield from ([name, verb] for verb in verbs) if verbs else [[name]]


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_shows_an_example_of_itself(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    for path in helps(name):
        run([*path, "--help"])
        told = " ".join(capsys.readouterr().out.split())
        assert f"faultbridge {' '.join(path)}" in told.partition("Example")[2], path


def test_decode_never_waits_for_aws() -> None:
    program = (
        "import sys; from faultbridge.cli.app import run; run(['decode', '--help']);"
        "print([m for m in sys.modules if m.split('.')[0] in {'boto3', 'botocore', 'aws_lambda_powertools', 'moto'}])"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines()[-1] == "[]"


def test_whoever_reads_only_the_first_lines_is_no_error() -> None:
    program = "from faultbridge.cli import main; import sys; sys.argv = ['faultbridge', 'catalog', '--jsonl']; main()"
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout
        assert process.stderr
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait() == 0
