"""Declare commands: the annotated parameters of a function become the options and arguments of a click command."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, TypeVar, get_args, get_origin

import click
from click import BadParameter
from click.exceptions import Exit

__all__ = ["BadParameter", "Exit"]

EXIT_NOT_WELL = 1
EXIT_USAGE = 2
EXIT_UNDECODABLE = 65
EXIT_UNREACHABLE = 69
EXIT_INTERNAL = 70
EXIT_TRY_AGAIN = 75
EXIT_INTERRUPTED = 130

Text = str | None
Texts = list[str] | None
"""The types of options and arguments that may be missing."""

Function = TypeVar("Function", bound=Callable[..., object])


class Option:
    """An option of a command, as `--help` prints it: its names, its placeholder, and its line.

    Without names, as in `Option("NODE", "Only this node.")`, the name is that of the parameter.
    """

    def __init__(
        self,
        left: str = "",
        help: str = "",  # noqa: A002 - as click names it
        *,
        envvar: str | None = None,
        min: float | None = None,  # noqa: A002 - as click names it
        max: float | None = None,  # noqa: A002 - as click names it
        callback: Callable[[Any], Any] | None = None,
    ) -> None:
        self.names = [word for word in left.split() if word.startswith("-")]
        self.metavar = next((word for word in left.split() if not word.startswith("-")), None)
        self.help, self.envvar, self.min, self.max, self.callback = help, envvar, min, max, callback


class Argument(Option):
    """An argument of a command: its placeholder, and its line in the help."""


@dataclass(frozen=True, slots=True)
class Group:
    """Marks a parameter that `build` makes from options, its own parameters; `then` gets the result.

    A table of annotations by name builds the values of the options that are given.
    """

    build: Callable[..., Any] | Mapping[str, Any]
    then: Callable[[Any], Any] = lambda built: built


class _HelpArgument(click.Argument):
    """An argument with a line in the help, which click does not offer."""

    def __init__(self, *arguments: Any, help: str, **settings: Any) -> None:  # noqa: A002, ANN401 - those of click
        super().__init__(*arguments, **settings)
        self.help = help

    def get_help_record(self, ctx: click.Context) -> tuple[str, str]:  # noqa: ARG002 - as in click
        """Return the name of the argument, and its help with a default."""
        return self.make_metavar(), self.help

    def make_metavar(self) -> str:
        """Return the name of the argument in the usage, such as `[FILE]...`."""
        name = str(self.metavar).removesuffix("...")
        return (name if self.required else f"[{name}]") + ("..." if self.nargs == -1 else "")


class Command(click.Command):
    """A command whose help lists its arguments, and whose examples keep their lines."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the arguments before the options."""
        records = [one.get_help_record(ctx) for one in self.params if isinstance(one, _HelpArgument)]
        if records:
            with formatter.section("Arguments"):
                formatter.write_dl(records)
        super().format_options(ctx, formatter)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - as in click
        """Write the epilog as it is."""
        if self.epilog:
            formatter.write(f"\n{self.epilog}\n")


DECLARED: dict[str, tuple[Callable[..., object], str]] = {}
"""The function and the examples of each command, by its name with the noun, of the modules that are imported."""


def command(name: str, *lines: str) -> Callable[[Function], Function]:
    """Declare the function of a command, such as `case list`, with its examples, by default one without arguments.

    A line has the arguments of the command; `$ ` begins a whole line, and spaces continue the line before.
    """
    whole = (line if line.startswith(" ") else f"faultbridge {name} {line}".rstrip() for line in lines or ("",))
    shown = (line.partition(" $ ")[2] or line for line in whole)

    def add(function: Function) -> Function:
        DECLARED[name] = function, examples(*shown)
        return function

    return add


def build(name: str) -> Command:
    """Return the click command of a declared name."""
    function, epilog = DECLARED[name]
    text = inspect.cleandoc(function.__doc__ or "")
    return Command(
        name.rpartition(" ")[2],
        callback=_callback(function),
        params=list(_parameters(function)),
        help=text,
        short_help=text.split("\n\n")[0].replace("\n", " "),
        epilog=epilog,
        context_settings=HELP_OPTIONS,
    )


HELP_OPTIONS = {"help_option_names": ["-h", "--help"]}


def examples(*lines: str) -> str:
    """Return the `Examples:` section of a help text, one line for each example."""
    return "\n".join(("Examples:", *(f"  {line}" for line in lines)))


def _signature(function: Callable[..., object] | Mapping[str, Any]) -> list[inspect.Parameter]:
    if isinstance(function, Mapping):
        keyword = inspect.Parameter.KEYWORD_ONLY
        return [inspect.Parameter(name, keyword, default=None, annotation=one) for name, one in function.items()]
    return list(inspect.signature(function, eval_str=True).parameters.values())


def _marks(annotation: object) -> tuple[Any, Any]:
    """Return the type of an annotation, and its `Option`, `Argument` or `Group`."""
    if get_origin(annotation) is not Annotated:
        raise TypeError(f"parameter of a command without Option, Argument or Group: {annotation}")
    kind, *marks = get_args(annotation)
    return kind, next(one for one in marks if isinstance(one, Option | Group))


def _callback(function: Callable[..., object] | Mapping[str, Any]) -> Callable[..., object]:
    """Return a function of flat options that builds the groups of `function`, then calls it."""
    if isinstance(function, Mapping):
        return lambda **given: {name: value for name, value in given.items() if value is not None}
    groups = {}
    for one in _signature(function):
        mark = _marks(one.annotation)[1]
        if isinstance(mark, Group):
            groups[one.name] = mark, _callback(mark.build), [str(option.name) for option in _parameters(mark.build)]

    def called(**given: Any) -> object:  # noqa: ANN401 - each option has its own type
        for name, (mark, build, options) in groups.items():
            given[name] = mark.then(build(**{option: given.pop(option) for option in options}))
        return function(**given)

    return called if groups else function


def _parameters(function: Callable[..., object] | Mapping[str, Any]) -> Iterator[click.Parameter]:
    grouped: list[click.Parameter] = []
    for one in _signature(function):
        kind, mark = _marks(one.annotation)
        if isinstance(mark, Group):
            grouped += _parameters(mark.build)
        else:
            yield _parameter(one, kind, mark)
    yield from grouped


def _parameter(one: inspect.Parameter, annotated: Any, mark: Option) -> click.Parameter:  # noqa: ANN401 - a type
    is_required, default = one.default is one.empty, None if one.default is one.empty else one.default
    kinds = [kind for kind in get_args(annotated) if kind is not NoneType] or [annotated]
    kind = kinds[0] if get_origin(annotated) not in {list, tuple} else annotated
    is_list = get_origin(kind) is list
    element = get_args(kind)[0] if is_list else kind
    converter = _converter(element, mark)

    def finish(_context: click.Context, _parameter: click.Parameter, value: Any) -> Any:  # noqa: ANN401 - any option
        if is_list:
            value = list(value) if value else default
        if isinstance(element, type) and issubclass(element, Enum) and value is not None:
            value = [element(each) for each in value] if is_list else element(value)
        return mark.callback(value) if mark.callback else value

    shared: dict[str, Any] = {"type": converter, "required": is_required, "callback": finish, "metavar": mark.metavar}
    shared["default"] = None if is_list else default.value if isinstance(default, Enum) else default
    if isinstance(mark, Argument):
        return _HelpArgument([one.name], help=mark.help, nargs=-1 if is_list else 1, **shared)
    if element is bool:
        shared |= {"is_flag": True, "type": None}
        shared.pop("metavar")
    names = mark.names or (f"--{one.name.replace('_', '-')}",)
    shows = default not in (None, "", False) and not is_list
    return click.Option(
        [one.name, *names],
        help=mark.help,
        envvar=mark.envvar,
        show_envvar=mark.envvar is not None,
        show_default=shows,
        multiple=is_list,
        **shared,
    )


def _converter(element: Any, mark: Option) -> click.ParamType | None:  # noqa: ANN401 - a type
    if isinstance(element, type) and issubclass(element, Enum):
        return click.Choice([str(each.value) for each in element])
    if element is int:
        return click.IntRange(mark.min, mark.max) if (mark.min, mark.max) != (None, None) else click.INT
    if element is float:
        return click.FloatRange(mark.min, mark.max)
    return click.Path(path_type=Path) if element is Path else click.STRING
