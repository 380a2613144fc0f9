"""The commands of the README, the tutorial and the how-to guides work on the embedded stack, with the output shown."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.commands import blocks, environment_of, fits, run
from tests.local.stack import PrivateStack, private_stack

ROOT = Path(__file__).resolve().parents[2]
TUTORIAL = ROOT / "docs" / "tutorial.md"
PAGES = [ROOT / "README.md", TUTORIAL, ROOT / "docs" / "deploy.md", *sorted((ROOT / "docs" / "how-to").glob("*.md"))]
SAMPLE = """
```bash
echo one  two
```

```text
one two
```

<!-- not run: it needs an account -->
```bash
false
```
"""


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrivateStack]:
    """A stack of these pages alone: they put policies, which apply to all clusters."""
    with private_stack(tmp_path_factory.mktemp("docs")) as private:
        yield private


@pytest.mark.embedded
@pytest.mark.nightly
@pytest.mark.timeout(900)
@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.stem)
def test_the_commands_of_a_page_work(page: Path, stack: PrivateStack, tmp_path: Path) -> None:
    # Each page starts with the packaged policy, as for its reader; the page before may have put another.
    subprocess.run(["faultbridge", "policy", "reset", "--yes"], env=environment_of(stack.home), check=True)
    assert list(run(page.read_text(encoding="utf-8"), tmp_path, environment_of(stack.home))) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.stem)
def test_a_page_has_commands_and_says_why_one_is_not_run(page: Path) -> None:
    found = blocks(page.read_text(encoding="utf-8"))
    assert found
    assert all(block.not_run is None or len(block.not_run.split()) > 2 for block in found)
    assert any(block.expected for block in found)


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.stem)
def test_a_page_waits_with_an_option_and_not_with_a_loop(page: Path) -> None:
    commands = "\n".join(block.commands for block in blocks(page.read_text(encoding="utf-8")))
    assert re.findall(r"^ *(?:until|while) .*", commands, re.MULTILINE) == []


def test_a_block_is_run_with_its_expected_output_unless_it_says_why_not() -> None:
    shown, left_out = blocks(SAMPLE)
    assert (shown.line, shown.commands, shown.expected, shown.not_run) == (3, "echo one  two\n", ("one two",), None)
    assert left_out.not_run == "it needs an account"


def test_a_failed_command_and_a_missing_line_are_named(tmp_path: Path) -> None:
    page = "```bash\necho a\n```\n\n```text\nb\n```\n\n```bash\nfalse\n```\n"
    missing, failed = run(page, tmp_path, environment_of())
    assert "no output line fits 'b'" in missing
    assert "exit code 1" in failed


def test_a_shell_that_ends_early_is_named(tmp_path: Path) -> None:
    assert ["the shell ended early" in one for one in run("```bash\nexit 3\n```\n", tmp_path, environment_of())] == [
        True
    ]


@pytest.mark.parametrize(
    ("fragment", "output", "fitting"),
    [
        ("n-1 ... done", "x\nn-1   queued  done\n", True),
        ("n-1 done", "n-1\ndone", False),
        ("a.b", "axb", False),
        ("a b", "a      b", True),
    ],
)
def test_an_output_line_is_compared_by_its_fragments(fragment: str, output: str, fitting: bool) -> None:
    assert fits(fragment, output) is fitting
