"""Finds retired words in identifiers, docstrings, comments, help, messages and pages.

python -m tests.architecture.language [--advice] [--counts] [PATH...]    list the hits of files or folders
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import subprocess
import sys
import tokenize
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import yaml

ROOT = Path(__file__).resolve().parents[2]
DATA = Path(__file__).with_name("retired_words.yaml")
PARTS = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+")
TOKEN = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
TEXT = {".md", ".yaml", ".yml", ".json", ".toml", ".mk", ".sh", ".service", ""}
# Strings of these folders are messages and help; strings of tests are mostly samples of other programs.
MESSAGES = ("src/", "functions/", "infra/", "examples/")
# JSON elsewhere is recorded data.
OWN_JSON = ("src/faultbridge/decode/data/", "schemas/")
MIN_WORDS = 3
"""A string literal with fewer words is a value, not a message."""


class Hit(NamedTuple):
    """One retired word: where it is, its kind of text, the word, and what to write instead."""

    path: str
    line: int
    kind: str
    word: str
    instead: str


@dataclass(frozen=True)
class Retired:
    """One row of the list of retired words."""

    word: str
    instead: str
    kinds: frozenset[str]
    prefix: bool = False


@dataclass(frozen=True)
class Language:
    """The list of retired words, looked up by form, and where they are allowed."""

    forms: dict[str, Retired]
    phrases: dict[re.Pattern[str], Retired]
    allow: tuple[tuple[str, str], ...]
    skip: tuple[str, ...]

    def skips(self, path: str) -> bool:
        """Return whether a file is left out."""
        return any(fnmatchcase(path, pattern) for pattern in self.skip)

    def without_allowed(self, text: str, path: str) -> str:
        """Return the text with allowed phrases blanked out."""
        lower = text.lower()
        for pattern, phrase in self.allow:
            if phrase.lower() in lower and fnmatchcase(path, pattern):
                text = re.sub(re.escape(phrase), lambda found: " " * len(found[0]), text, flags=re.IGNORECASE)
        return text


@cache
def language() -> Language:
    """Read the list."""
    data: dict[str, Any] = yaml.safe_load(DATA.read_text(encoding="utf-8"))
    forms: dict[str, Retired] = {}
    phrases: dict[re.Pattern[str], Retired] = {}
    for row in data["words"]:
        retired = Retired(row["word"], row["instead"], frozenset(row["in"]), row.get("prefix", False))
        for form in (row["word"], *row.get("forms", ())):
            if " " in form:
                spaced = r"\s+".join(map(re.escape, form.split()))
                phrases[re.compile(rf"\b{spaced}\b", re.IGNORECASE)] = retired
            else:
                forms[form.lower()] = retired
    allow = tuple((row["path"], row["phrase"]) for row in data["allow"])
    return Language(forms, phrases, allow, tuple(data["skip"]))


def in_name(name: str, path: str, line: int, *, whole: bool = False) -> Iterator[Hit]:
    """Yield the retired parts of one identifier; `whole` also compares the complete name of a module or class."""
    known = language()
    if not any(part.lower() in known.forms for part in PARTS.findall(name)):
        return
    name = known.without_allowed(name, path)
    parts = [part.lower() for part in PARTS.findall(name)]
    for index, part in enumerate(parts):
        found = known.forms.get(part)
        if found is None:
            continue
        as_name = whole and "name" in found.kinds and parts == [part]
        as_part = "identifier" in found.kinds and (not found.prefix or (index == 0 and name.isupper()))
        if as_name or as_part:
            yield Hit(path, line, "identifier", part, found.instead)


def in_prose(text: str, path: str, line: int, *, advice: bool = False) -> Iterator[Hit]:
    """Yield the retired words of a text of several lines; names within it are split into their parts."""
    known = language()
    kinds = {"prose", "advice"} if advice else {"prose"}
    for number, one in enumerate(known.without_allowed(text, path).splitlines() or [""], line):
        for token in TOKEN.findall(one):
            found = known.forms.get(token.lower())
            if found is not None and found.kinds & kinds:
                yield Hit(path, number, "prose", token.lower(), found.instead)
            elif found is None and ("_" in token or not (token.islower() or token.istitle() or token.isupper())):
                yield from in_name(token, path, number)
    for pattern, retired in known.phrases.items():
        for match in pattern.finditer(text) if retired.kinds & kinds else ():
            yield Hit(path, line + text.count("\n", 0, match.start()), "prose", retired.word, retired.instead)


def in_python(source: str, path: str, *, advice: bool = False) -> Iterator[Hit]:
    """Yield the retired words of a module: its definitions, docstrings, comments and messages."""
    nodes = list(ast.walk(ast.parse(source)))
    docstrings = set()
    for node in nodes:
        yield from _definitions(node, path)
        text = _docstring(node)
        if text is not None:
            docstrings.add(id(text))
            yield from in_prose(str(text.value), path, text.lineno, advice=advice)
    if path.startswith(MESSAGES):
        for text, line in _messages(nodes, docstrings):
            yield from in_prose(text, path, line, advice=advice)
    if _may_comment(source, path, advice=advice):
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            if token.type == tokenize.COMMENT:
                yield from in_prose(token.string, path, token.start[0], advice=advice)


def _may_comment(source: str, path: str, *, advice: bool) -> bool:
    """Return whether a comment may have a retired word: a comment is text behind `#`, but so are parts of literals.

    Only tokens separate both, and they take half of the time of the whole search; nearly no file needs them.
    """
    behind = (line[line.index("#") :] for line in source.splitlines() if "#" in line)
    return any(hit for line in behind for hit in in_prose(line, path, 0, advice=advice))


def _definitions(node: ast.AST, path: str) -> Iterator[Hit]:
    """Yield hits in the names that a node defines; a name's uses are not counted again."""
    if isinstance(node, ast.ClassDef):
        yield from in_name(node.name, path, node.lineno, whole=True)
    elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        yield from in_name(node.name, path, node.lineno)
    elif isinstance(node, ast.arg):
        yield from in_name(node.arg, path, node.lineno)
    elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        yield from in_name(node.id, path, node.lineno)
    elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
        yield from in_name(node.attr, path, node.lineno)
    elif isinstance(node, ast.alias) and node.asname:
        yield from in_name(node.asname, path, node.lineno)


def _docstring(node: ast.AST) -> ast.Constant | None:
    """Return the docstring of a definition, or a string statement that documents a constant."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
        return node.value
    return None


def _messages(nodes: Sequence[ast.AST], docstrings: set[int]) -> Iterator[tuple[str, int]]:
    """Yield string literals of several words; the parts of an f-string count as one text."""
    inner = {id(part) for node in nodes if isinstance(node, ast.JoinedStr) for part in node.values}
    not_messages = docstrings | inner
    for node in nodes:
        if isinstance(node, ast.JoinedStr):
            text = "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in not_messages:
            text = node.value
        else:
            continue
        if len(text.split()) >= MIN_WORDS:
            yield text, node.lineno


def hits(paths: Iterable[str], *, advice: bool = False) -> Iterator[Hit]:
    """Yield the retired words of files, named relative to the repository."""
    for path in paths:
        file = ROOT / path
        if language().skips(path) or not file.is_file():
            continue
        for folder_or_stem in Path(path).with_suffix("").parts:
            yield from in_name(folder_or_stem, path, 0, whole=path.endswith(".py"))
        if file.suffix == ".py":
            yield from in_python(file.read_text(encoding="utf-8"), path, advice=advice)
        elif file.suffix in TEXT and (file.suffix != ".json" or path.startswith(OWN_JSON)):
            yield from in_prose(file.read_text(encoding="utf-8"), path, 1, advice=advice)


def tracked(paths: Iterable[str] = ()) -> list[str]:
    """Return the tracked files below some paths; all of them when none is given."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--", *paths], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return sorted(filter(None, listed.stdout.split("\0")))


def main(arguments: list[str]) -> int:
    """List hits by file with counts; return 1 when there are any."""
    parser = argparse.ArgumentParser(prog="python -m tests.architecture.language", description="list retired words")
    parser.add_argument("--advice", action="store_true", help="also list ordinary words that are often metaphors here")
    parser.add_argument("--counts", action="store_true", help="print only the counts per file and per word")
    parser.add_argument("paths", nargs="*", help="files or folders; the whole repository when none is given")
    options = parser.parse_args(arguments)
    found = list(hits(tracked(options.paths), advice=options.advice))
    files = Counter(hit.path for hit in found)
    for path, count in sorted(files.items(), key=lambda one: (-one[1], one[0])):
        print(f"{path}: {count}")
        for hit in (one for one in found if one.path == path and not options.counts):
            print(f"  {hit.line}: {hit.kind}: {hit.word} -> {hit.instead}")
    if options.counts:
        print("by word:", ", ".join(f"{word} {count}" for word, count in Counter(h.word for h in found).most_common()))
    print(f"{len(found)} hits in {len(files)} files")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
