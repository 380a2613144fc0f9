"""The `faultbridge` command line; it loads only the module of the called command.

Reading order: `app` lists the commands and runs one. Then `commands` (one module a subject), `stack` (finds the stack
and its services), `render` (tables, JSON, times) and `errors` (exit codes, hints).
"""

from __future__ import annotations


def main() -> None:
    """Run the command line and exit with its exit code."""
    import gc
    import sys

    gc.set_threshold(100_000)  # what is imported stays; collections meanwhile take a tenth of the start
    # botocore prefers the TLS of pyOpenSSL, where it is installed, to that of Python, and loads it for 70 ms.
    sys.modules.setdefault("urllib3.contrib.pyopenssl", None)  # type: ignore[arg-type]  # a module that is not there
    from faultbridge.cli.app import run

    raise SystemExit(run())
