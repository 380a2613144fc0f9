"""`faultbridge console`: shows the read-only web console of a stack in a browser."""

from __future__ import annotations

import webbrowser
from typing import Annotated

import typer

from faultbridge.cli.render.output import Columns, examples, notice
from faultbridge.cli.stack.command import stack_command
from faultbridge.cli.stack.locate import chosen_embedded_stack
from faultbridge.cli.stack.session import Session

app = typer.Typer(rich_markup_mode=None)

SERVED: Columns = {"Console": lambda one: one["console"]}


@app.command("console", epilog=examples("faultbridge console", "faultbridge console --open --region us-east-1"))
@stack_command
def serve_console(
    session: Session,
    port: Annotated[int, typer.Option(min=0, max=65535, metavar="PORT", help="Port; 0 chooses a free one.")] = 0,
    opens: Annotated[bool, typer.Option("--open", help="Open the console in the browser.")] = False,
) -> None:
    """Print the address of the web console; for a stack on AWS, serve the console until Ctrl-C.

    The console of a stack on AWS is served on 127.0.0.1 with your credentials. The console of the embedded stack runs
    until `faultbridge down`.
    """
    embedded = chosen_embedded_stack(session.target)
    if embedded is not None:
        _show(session, embedded.console, opens=opens)
        return
    from faultbridge.cli.stack.loopback_server import LoopbackServer

    installation = session.application
    try:
        server = LoopbackServer(port, installation)
    except OSError as error:
        raise typer.BadParameter(
            f"cannot listen on port {port}: {error.strerror}; choose another --port, or 0 for a free one"
        ) from error
    _show(session, server.address, opens=opens)
    notice("serving until Ctrl-C; only programs on this machine can connect")
    server.serve_forever()


def _show(session: Session, address: str, *, opens: bool) -> None:
    session.show_one({"console": address}, SERVED)
    if opens:
        webbrowser.open(address)
