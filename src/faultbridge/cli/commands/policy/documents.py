"""Read policies for the commands: the packaged policy, stored versions, and validated files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from faultbridge.cli.commands.options import read_text
from faultbridge.cli.declare import Exit
from faultbridge.cli.errors import EXIT_NOT_WELL
from faultbridge.cli.render.output import Columns, OutputFormat, fields, notice, show
from faultbridge.cli.stack.session import Session

if TYPE_CHECKING:
    from faultbridge.record.policies import PolicyStore

PROBLEMS: Columns = fields("RULE", "FIELD", "EXPECTED", "FOUND")


def packaged_document() -> dict[str, Any]:
    """Return the policy that is part of Faultbridge, with its version."""
    from faultbridge.decode.data.policies import default_document

    return dict(default_document())


def policy_store(session: Session) -> PolicyStore:
    """Return the service that stores the policies of the stack."""
    from faultbridge.record.policies import PolicyStore

    return PolicyStore(session.ports.table, session.ports.clock)


def known_policy(session: Session, version: str) -> dict[str, Any]:
    """Return the packaged or stored policy of a version; raises Rejected `unknown_policy`."""
    packaged = packaged_document()
    return packaged if version == packaged["version"] else policy_store(session).document(version)


def read_policy_file(file: str, output: OutputFormat) -> dict[str, Any]:
    """Return the policy in a file, with its version; print the problems of an invalid one and exit."""
    from faultbridge.decide.policyfile.parser import InvalidPolicy, read_policy
    from faultbridge.decode.data.policies import version_of

    try:
        document = read_policy(read_text(file))
    except InvalidPolicy as error:
        found = [
            {"rule": one.rule, "field": one.field, "expected": one.expected, "found": one.found}
            for one in error.problems
        ]
        show(found, PROBLEMS, output)
        notice(f"invalid policy: {error.detail}")
        raise Exit(EXIT_NOT_WELL) from None
    for text in _doubtful_patterns(document):
        notice(text)
    return {**document, "version": version_of(document)}


def _doubtful_patterns(document: Mapping[str, Any]) -> Iterator[str]:
    """Yield a line for each pattern that matches nothing in the catalog, and for each code of a mode with others."""
    from faultbridge.decode.data import load_catalog

    catalog = load_catalog()
    for rule in document.get("rules", []):
        name, match = rule["name"], rule.get("match", {})
        for field, known in (("codes", catalog.rows), ("modes", catalog.modes)):
            for pattern in match.get(field, []):
                if not any(fnmatchcase(one, pattern) for one in known):
                    yield f"rule {name}: no {field[:-1]} of the catalog matches {pattern}; see `faultbridge catalog`"
        for code in (one for one in match.get("codes", []) if one in catalog.rows):
            mode = catalog.row(code).mode
            codes = {row.code for row in catalog.rows.values() if row.mode == mode and ":" not in row.code}
            if codes.isdisjoint({*match["codes"]} - {code}) and len(codes) > 1:
                yield f"rule {name}: {code} is one of {len(codes)} codes of {mode}; `modes: [{mode}]` matches them all"
