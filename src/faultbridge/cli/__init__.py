"""The `faultbridge` command line; it loads only the module of the called command.

Reading order: `app` lists the commands and runs one. Then `commands` (one module a subject), `stack` (finds the stack
and its services), `render` (tables, JSON, times) and `errors` (exit codes, hints).
"""

from __future__ import annotations


def main() -> None:
    """Run the command line and exit with its exit code."""
    import gc

    gc.disable()  # what is imported stays; collections meanwhile take a tenth of the start
    from faultbridge.cli.app import run

    gc.freeze()
    gc.enable()
    raise SystemExit(run())
