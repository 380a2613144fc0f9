"""`faultbridge env`: prints variables that direct other programs to the embedded stack."""

from __future__ import annotations

import shlex

from faultbridge.cli.commands.options import Format, StackName
from faultbridge.cli.declare import command
from faultbridge.cli.render.output import print_line, show_one
from faultbridge.cli.stack.locate import DEFAULT_STACK, require_embedded_stack


@command("env", '$ eval "$(faultbridge env)"', "--json")
def print_environment(stack: StackName = DEFAULT_STACK, *, output: Format) -> None:
    """Print the variables that direct boto3, the AWS CLI or Terraform to the embedded stack."""
    found = require_embedded_stack(stack).environment
    if not output.for_people:
        show_one(found, {}, output)
        return
    for name, value in found.items():
        print_line(f"export {name}={shlex.quote(value)}")
