"""The `faultbridge` command line. It loads only the module of the command that is called.

Reading order: `command_table` lists the commands, `app` runs one command, `plain_parameters` reads its options. Then
the folders: `commands` (one module for each subject), `stack` (finds the stack and its services), `render` (tables,
JSON, times), `errors` (exit codes, hints) and `rules` (EventBridge rule files).
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
