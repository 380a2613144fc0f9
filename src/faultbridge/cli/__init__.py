"""The command line: one module a noun, each loaded only when its command is called."""

from __future__ import annotations


def main() -> None:
    """Run the command line and leave with its exit code."""
    from faultbridge.cli.app import run

    raise SystemExit(run())
