"""What an option goes with, declared beside the option: where it would be ignored, it is refused by name.

The rules of an option stand in its `Annotated` type, so that one place says what it means and when it does:

    UpTo = Annotated[str | None, option("--up-to", "E", "The end of the axis."), goes_with("--plot")]

`CheckedCommand` holds every command to them before it runs. An option counts as stated where it stands on the command line,
whatever its value; a test walks all commands and looks for options that nothing reads.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, get_args

from typer.core import TyperCommand

from sordino.core.errors import DeclarationError

if TYPE_CHECKING:
    from typer._click.core import Context, Parameter


@dataclass(frozen=True, slots=True)
class OptionRule:
    """What another option must be for this one to mean anything: stated, one of some values, or left out."""

    other: str
    values: tuple[str, ...] = ()
    absent: bool = False

    def holds(self, value: Any, *, stated: bool) -> bool:
        """Return whether the other option, of this value, lets this one mean something."""
        if self.values:
            # an option that may be repeated counts if one of its values does
            return any(str(one) in self.values for one in (value if isinstance(value, (list, tuple)) else [value]))
        there = stated and value not in (None, False)
        return there is not self.absent

    def describe(self, name: str, command: str = "") -> str:
        """Return the refusal of the option `name` of a command, whose own words an argument is known by."""
        if self.absent:
            return f"{name} would change nothing beside {self.other}: leave out {name} or {self.other}"
        is_argument = not self.other.startswith("--")
        spelled = command if is_argument else self.other
        needed = " or ".join(f"{spelled} {value}" for value in self.values) or self.other
        if is_argument:
            return f"{name} goes with {needed}: leave it out"
        return f"{name} goes with {needed}: leave it out, or state {needed} too"


def goes_with(other: str, *values: str) -> OptionRule:
    """Return the rule that the option is ignored without `other`, or unless that has one of these values.

    >>> goes_with("--plot").describe("--up-to")
    '--up-to goes with --plot: leave it out, or state --plot too'
    """
    return OptionRule(other, values)


def not_with(other: str) -> OptionRule:
    """Return the rule that the option is ignored beside `other`.

    >>> not_with("--alphabet").describe("--labels")
    '--labels would change nothing beside --alphabet: leave out --labels or --alphabet'
    """
    return OptionRule(other, absent=True)


def rules_of(command: Callable[..., Any]) -> dict[str, tuple[OptionRule, ...]]:
    """Return the rules of a command's options, by the name of the argument."""
    signature = inspect.signature(command, eval_str=True)
    rules = {
        name: tuple(extra for extra in get_args(parameter.annotation)[1:] if isinstance(extra, OptionRule))
        for name, parameter in signature.parameters.items()
    }
    return {name: several for name, several in rules.items() if several}


class CheckedCommand(TyperCommand):
    """A command that refuses options which would change nothing, before it reads anything else.

    Every number is read alike: 0.95, 95%, 19/20 and ln3, whether the option takes it as a float or as an exact amount.
    """

    def parse_args(self, ctx: Context, args: list[str]) -> list[str]:
        """Write fractions, percents and logarithms as decimals where an option takes a float."""
        return super().parse_args(ctx, list(_write_decimals(args, self._number_flags())))

    def _number_flags(self) -> frozenset[str]:
        if self.callback is None:
            return frozenset()
        signature = inspect.signature(inspect.unwrap(self.callback), eval_str=True)
        numbers = {
            name
            for name, parameter in signature.parameters.items()
            if (get_args(parameter.annotation) or (None,))[0] in (float, float | None)
        }
        return frozenset(flag for one in self.params if one.name in numbers for flag in one.opts)

    def invoke(self, ctx: Context) -> Any:
        """Run the command; raises DeclarationError for the first option that would be ignored."""
        if self.callback is not None:
            refuse_ignored(ctx, rules_of(inspect.unwrap(self.callback)))
        return super().invoke(ctx)


def _write_decimals(args: Sequence[str], flags: Container[str]) -> Iterator[str]:
    """Yield a command line in which the values of these options are decimals; what is no number stays, to be refused.

    >>> list(_write_decimals(["--confidence", "95%", "--error=1/4", "1/2"], {"--confidence", "--error"}))
    ['--confidence', '0.95', '--error=0.25', '1/2']
    """
    follows = False
    for word in args:
        flag, equals, value = word.partition("=")
        if follows:
            yield _decimal(word)
        elif equals and flag in flags:
            yield f"{flag}={_decimal(value)}"
        else:
            yield word
        follows = not follows and word in flags


def _decimal(word: str) -> str:
    from sordino.core.loss import to_fraction

    try:
        float(word)
    except ValueError:
        with suppress(DeclarationError):
            return repr(float(to_fraction(word, name="a number")))
    return word


def refuse_ignored(ctx: Context, rules: dict[str, tuple[OptionRule, ...]]) -> None:
    """Raise DeclarationError for the first stated option of which a rule does not hold."""
    parameters = {spelling: one for one in ctx.command.params for spelling in (*one.opts, one.name)}
    for name, several in rules.items():
        if not _is_stated(ctx, name):
            continue
        for rule in several:
            other = parameters[rule.other].name
            if not rule.holds(ctx.params.get(other), stated=_is_stated(ctx, other)):
                raise DeclarationError(rule.describe(_flag(parameters[name]), ctx.command_path))


def _is_stated(ctx: Context, name: str | None) -> bool:
    source = None if name is None else ctx.get_parameter_source(name)
    return source is not None and source.name in ("COMMANDLINE", "ENVIRONMENT")


def _flag(parameter: Parameter) -> str:
    """Return how an option is spelled at length, or what stands for an argument in the help."""
    flags = [one for one in parameter.opts if one.startswith("--")]
    return flags[0] if flags else str(getattr(parameter, "metavar", None) or parameter.name)
