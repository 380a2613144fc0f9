"""`faultbridge context`: lists, chooses and shows the stacks that commands use."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from faultbridge.cli.commands.options import Format
from faultbridge.cli.declare import Argument, BadParameter, Option, command
from faultbridge.cli.render.output import Columns, Document, fields, notice, show, show_one
from faultbridge.cli.stack.command import StackSession
from faultbridge.cli.stack.context import known_context, read_contexts, write_contexts
from faultbridge.cli.stack.locate import DEFAULT_STACK, Target, checked_endpoint

CONTEXTS: Columns = {
    "CURRENT": lambda one: "*" if one["current"] else "",
    **fields("CONTEXT", "STACK"),
    "WHERE": lambda one: "this machine" if one["embedded"] else "AWS",
    **fields("REGION", "PROFILE", "ENDPOINT=endpoint_url"),
}
PLACE: Columns = fields("Context", "Stack", "Account", "Region")
NO_CONTEXT = "-"
"""The name that `context use` takes for no context."""

ContextArgument = Annotated[str, Argument("NAME", "Name of the context; - for none.")]


@command("context list")
def list_contexts(output: Format) -> None:
    """List the contexts of this user, and the embedded stacks that run on this machine."""
    from faultbridge.local import stack_names

    current, contexts = read_contexts()
    embedded = {name: Target(name, embedded=True) for name in stack_names() if name not in contexts}
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
    name: ContextArgument,
    stack: Annotated[str | None, Option("NAME", "Name of the stack. Default: faultbridge.")] = None,
    region: Annotated[str | None, Option("REGION", "AWS region of the stack.")] = None,
    profile: Annotated[str | None, Option("PROFILE", "AWS configuration profile.")] = None,
    endpoint_url: Annotated[str | None, Option("URL", "AWS endpoint URL.")] = None,
) -> None:
    """Use a context in each later command that names no stack; with options, store the context first.

    A name of `context list` needs no options: also that of an embedded stack. `--context NAME`, the variable
    FAULTBRIDGE_CONTEXT and the options of a stack have precedence. `-` ends the use of a context.
    """
    from faultbridge.local import stack_names

    _, contexts = read_contexts()
    given = Target(stack or DEFAULT_STACK, checked_endpoint("--endpoint-url", endpoint_url), region, profile)
    if name == NO_CONTEXT:
        write_contexts(None, contexts)
        notice("no context is used")
        return
    if stack or given.has_options:
        contexts[name] = given
    elif name not in contexts and name in stack_names():
        contexts[name] = Target(name, embedded=True)
    chosen = replace(known_context(name, contexts), context=name)
    if not (chosen.embedded or chosen.has_options):
        raise BadParameter(f"context without a place: {name}; give --region, --profile or --endpoint-url")
    contexts[name] = chosen
    write_contexts(name, contexts)
    show_one(_document(name, chosen, name), {title.title(): cell for title, cell in CONTEXTS.items()}, output)


def _document(name: str, one: Target, current: str | None) -> Document:
    return {
        "context": name,
        "current": name == current,
        "stack": one.stack,
        "embedded": one.embedded,
        "region": one.region,
        "profile": one.profile,
        "endpoint_url": one.endpoint_url,
    }
