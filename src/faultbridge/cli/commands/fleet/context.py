"""`faultbridge context`: lists, chooses and shows the stacks that commands use."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Annotated

from faultbridge import local
from faultbridge.cli.commands.options import Format
from faultbridge.cli.declare import Argument, BadParameter, Option, Text, command
from faultbridge.cli.render.output import Columns, Document, fields, notice, show, show_one
from faultbridge.cli.stack import locate
from faultbridge.cli.stack.session import StackSession

CONTEXTS: Columns = fields("CURRENT, CONTEXT, STACK, WHERE, REGION, PROFILE, ENDPOINT=endpoint_url") | {
    "CURRENT": lambda one: "*" if one["current"] else "",
    "WHERE": lambda one: "this machine" if one["embedded"] else "AWS",
}
PLACE: Columns = fields("Context, Stack, Account, Region")
NO_CONTEXT = "-"
"""The name that `context use` takes for no context."""


@command("context list")
def list_contexts(output: Format) -> None:
    """List the contexts of this user, and the embedded stacks that run on this machine."""
    current, contexts = locate.read_contexts()
    embedded = {name: locate.Target(name, embedded=True) for name in local.stack_names() if name not in contexts}
    rows = [_document(name, one, current) for name, one in {**embedded, **contexts}.items()]
    show(
        rows,
        CONTEXTS,
        output,
        empty="no context is stored and no embedded stack runs; `faultbridge context use` stores one",
    )


@command("context show")
def show_context(session: StackSession) -> None:
    """Show the stack that commands use now: its context, account and Region."""
    session.show_one(session.place_document(), PLACE)


@command("context use", "prod --region us-east-1 --profile ops", "prod", "faultbridge", "-")
def use_context(
    output: Format,
    name: Annotated[str, Argument("NAME", "Name of the context; - for none.")],
    stack: Annotated[Text, Option("NAME", "Name of the stack. Default: faultbridge.")] = None,
    region: Annotated[Text, Option("REGION", "AWS region of the stack.")] = None,
    profile: Annotated[Text, Option("PROFILE", "AWS configuration profile.")] = None,
    endpoint_url: Annotated[Text, Option("URL", "AWS endpoint URL.")] = None,
) -> None:
    """Use a context in each later command that names no stack; with options, store the context first.

    A name of `context list` needs no options: also that of an embedded stack. `--context NAME`, the variable
    FAULTBRIDGE_CONTEXT and the options of a stack have precedence. `-` ends the use of a context.
    """
    _, contexts = locate.read_contexts()
    given = locate.Target(
        stack or locate.DEFAULT_STACK, locate.checked_endpoint("--endpoint-url", endpoint_url), region, profile
    )
    if name == NO_CONTEXT:
        locate.write_contexts(None, contexts)
        notice("no context is used")
        return
    if stack or given.has_options:
        contexts[name] = given
    elif name not in contexts and name in local.stack_names():
        contexts[name] = locate.Target(name, embedded=True)
    chosen = replace(locate.known_context(name, contexts), context=name)
    if not (chosen.embedded or chosen.has_options):
        raise BadParameter(f"context without a place: {name}; give --region, --profile or --endpoint-url")
    contexts[name] = chosen
    locate.write_contexts(name, contexts)
    show_one(_document(name, chosen, name), {title.title(): cell for title, cell in CONTEXTS.items()}, output)


def _document(name: str, one: locate.Target, current: str | None) -> Document:
    return {
        "context": name,
        "current": name == current,
        **{key: value for key, value in asdict(one).items() if key != "context"},
    }
