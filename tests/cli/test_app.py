"""Running a command: the modules it loads, its help, and the exit code of each error."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import click
import pytest

from faultbridge.cli.app import COMMANDS, application, run
from faultbridge.cli.errors import failure_of
from faultbridge.model.errors import Conflict, Misconfigured, Rejected, Transient
from tests.loops import for_each


class EndpointConnectionError(Exception):
    """Represents the botocore exception of the same name."""


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
    assert failure.message
    assert failure.hint


def test_an_error_of_the_operating_system_names_a_path_only_if_it_has_one() -> None:
    failure = failure_of(OSError(28, "No space left on device"))
    assert (failure.exit_code, failure.message) == (2, "No space left on device")
    assert "path" not in failure.hint
    failure = failure_of(FileNotFoundError(2, "No such file or directory", "x.log"))
    assert (failure.message, failure.hint) == ("No such file or directory: x.log", "check the path")


@pytest.mark.parametrize("reason", ["in_progress", "job_ended", "foreign_part", "bad_host_list", "bad_ranks"])
def test_an_order_that_cannot_be_carried_out_is_wrong_usage_with_the_next_command(reason: str) -> None:
    failure = failure_of(Rejected(reason, "x"))
    assert failure.exit_code == 2
    assert "fix the input" not in failure.hint


def test_a_failure_message_is_one_line_for_any_error_text() -> None:
    assert failure_of(Transient("one\ntwo\n  three")).message == "one two three"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["pause", "train-a"], "unexpected argument: train-a (name the cluster with --cluster; see"),
        (["breaker", "--cluster", "train-a", "close"], "unexpected argument: close (see `faultbridge breaker --help`)"),
        (["redrive", "a", "b"], "unexpected argument: a b (see `faultbridge redrive --help`)"),
        (["decode", "--source", "kernel"], "unknown source: 'kernel'; did you mean kernel-log?; `faultbridge sources`"),
        (["cluster", "set", "a", "--domain", "rack=gpu-1"], "give KIND/NAME=NODES, as in rack/r-7=gpu-[01-08]"),
        (["cluster", "set", "a", "--expected", "x"], "'--expected': 'x' is not a valid integer range (see"),
        (["cluster", "list", "--endpoint-url", "localhost:4566"], "give a URL with http:// or https://"),
        (["decode", "--received-at", "999999d"], "age too long: '999999d'; allowed: such as 90s"),
        (["collect", "kubernetes", "--config", "no.toml"], "cannot be read: no.toml: No such file or directory (see"),
    ],
)
def test_a_wrong_argument_is_answered_with_what_is_allowed(
    arguments: list[str], expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments) == 2
    assert expected in capsys.readouterr().err


def test_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--help"]) == 0
    out = capsys.readouterr().out
    assert all(name in out for name in COMMANDS)


def test_help_gives_examples_and_the_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    run(["--help"])
    out = capsys.readouterr().out
    assert "\n  faultbridge decode /var/log/kern.log\n" in out
    assert "130 interrupted by Ctrl-C" in " ".join(out.split())
    run(["node", "--help"])
    assert "Run `faultbridge node VERB --help` for options and examples." in capsys.readouterr().out


@for_each("name", sorted(COMMANDS))
def test_every_example_has_the_required_options_and_quotes_its_host_lists(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for path in command_paths(name):
        command = command_of(name)
        command = command.commands[path[1]] if path[1:] else command
        required = [one.opts[0] for one in command.params if one.param_type_name == "option" and one.required]
        run([*path, "--help"])
        text = capsys.readouterr().out.partition("Examples:\n")[2].replace("\\\n", "")
        for example in (line for line in text.splitlines() if f"faultbridge {' '.join(path)} " in f"{line} "):
            assert [option for option in required if option not in example] == [], example
            assert not re.search(r"[^'\]]\b\S+-\[\d[^']*$", example), example


def test_a_noun_without_a_verb_prints_its_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["node"]) == 2
    err = capsys.readouterr().err
    assert "Commands:" in err
    assert "import" in err


def test_an_unknown_command_or_verb_is_answered_with_the_closest_one(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments, expected in ((["nodes"], "did you mean node"), (["node", "lists"], "did you mean list")):
        assert run(arguments) == 2
        assert expected in capsys.readouterr().err


def command_of(name: str) -> Any:
    root = application()
    return root.get_command(click.Context(root), name)


def command_paths(name: str) -> Iterator[list[str]]:
    """The words of each command under a name: `[name]`, or `[name, verb]` for a noun."""
    verbs = getattr(command_of(name), "commands", None)
    yield from ([name, verb] for verb in verbs) if verbs else iter([[name]])


@for_each("name", sorted(COMMANDS))
def test_the_help_of_every_command_has_examples(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    for path in command_paths(name):
        run([*path, "--help"])
        lines = capsys.readouterr().out.splitlines()
        examples = [line.strip() for line in lines[lines.index("Examples:") :]]
        assert any(f"faultbridge {' '.join(path)}" in line for line in examples), path
        assert [line for line in lines if len(line) > 80] == []


def test_decode_does_not_load_the_aws_libraries() -> None:
    program = (
        "import sys; from faultbridge.cli.app import run; run(['decode', '--help']);"
        "print([m for m in sys.modules if m.split('.')[0] in {'boto3', 'botocore', 'aws_lambda_powertools', 'moto'}])"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines()[-1] == "[]"


def test_a_reader_that_closes_the_pipe_early_is_no_error() -> None:
    program = "from faultbridge.cli import main; import sys; sys.argv = ['faultbridge', 'catalog', '--jsonl']; main()"
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout
        assert process.stderr
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait() == 0
