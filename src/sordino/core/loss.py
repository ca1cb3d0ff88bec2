"""Privacy losses: PureDP, ApproxDP and ZCDP as values in exact arithmetic, and the Event protocol that they bound.

This module knows neither data nor noise. A float stands for its shortest decimal, so `0.1` is exactly one tenth and ten
questions at 0.1 use up a budget of 1.
"""

from __future__ import annotations

import functools
import inspect
import math
import numbers
import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Protocol, TypedDict, TypeVar, cast, runtime_checkable

from sordino.core.errors import DeclarationError, arg

if TYPE_CHECKING:
    import numpy as np

Number = int | float | str | Decimal | Fraction

_LOGARITHM = re.compile(r"(?:ln|log)\s*(?:\(([^()]+)\)|([^()\s]+))", re.IGNORECASE)
# characters of a number as text: keeps a declared number from being a denial of service
_LARGEST_TEXT = 200


@runtime_checkable
class Event(Protocol):
    """What was run, as frozen data; each method gives a bound that holds for it, or None where none is known."""

    def pure(self) -> Fraction | None:
        """Return the least known epsilon of pure differential privacy."""

    def approx(self) -> tuple[Fraction, Fraction] | None:
        """Return an (epsilon, delta) pair that holds, the one to charge under a cap on sums."""

    def rho(self) -> Fraction | None:
        """Return the least known rho of zero-concentrated differential privacy."""

    def renyi(self, order: float) -> float | None:
        """Return a bound on the Renyi divergence of the given order > 1."""

    def profile(self, grid: Grid) -> PrivacyLoss | None:
        """Return a privacy loss distribution on `grid` that dominates it; None where only the other bounds are known."""


@dataclass(frozen=True, slots=True)
class Grid:
    """The grid of a privacy loss distribution: whole multiples of `step`; mass of at most `tail` may be made infinite."""

    step: float
    tail: float


@dataclass(frozen=True, slots=True, eq=False)
class Losses:
    """A privacy loss in one direction: `mass[i]` is the probability of a loss of `at[i]` steps, `infinite` of an infinite one.

    `at` holds distinct whole numbers and `mass` probabilities rounded up, so their sum may exceed 1 by roundings.
    """

    at: np.ndarray[Any, np.dtype[np.int64]]
    mass: np.ndarray[Any, np.dtype[np.float64]]
    infinite: float


@dataclass(frozen=True, slots=True, eq=False)
class PrivacyLoss:
    """The losses ln(P/Q) under P of a dominating pair: P with the unit, Q without (`removed`), and P, Q exchanged (`added`).

    Theorem (Zhu, Dong, Wang 2022, Theorem 10): the mechanism's outputs on any two neighbors are no easier to distinguish than
    the pair, so sums of independent losses bound the composition. `added is removed` where both directions are alike.
    """

    removed: Losses
    added: Losses


# fractions with larger denominators are rounded, since their text would be long
_FINEST = 10**60


def shorten_up(value: Fraction) -> Fraction:
    """Return a fraction, rounded up to sixty decimals if its denominator is above 10^60, so that its text stays short.

    >>> shorten_up(Fraction(1, 3)), shorten_up(Fraction(1, 3**200)) >= Fraction(1, 3**200)
    (Fraction(1, 3), True)
    """
    return value if value.denominator <= _FINEST else Fraction(math.ceil(value * _FINEST), _FINEST)


def to_fraction(value: Number, *, name: str) -> Fraction:
    """Return the fraction that a person means by `value`: a float is its shortest decimal, "1/3" one third.

    "33%" is 33/100, and "ln3" or "ln(3)" the natural logarithm rounded down at its twentieth decimal. Raises DeclarationError
    for nan, infinities, booleans and text that is no number.

    >>> to_fraction(0.1, name="epsilon"), to_fraction("1/3", name="epsilon"), to_fraction("33%", name="risk")
    (Fraction(1, 10), Fraction(1, 3), Fraction(33, 100))
    >>> float(to_fraction("ln3", name="epsilon"))
    1.0986122886681098
    """
    if isinstance(value, bool) or value is None:
        raise DeclarationError(f"must be a number, not {value!r}", key=name)
    if isinstance(value, Fraction):
        return value
    if isinstance(value, Decimal):
        if not value.is_finite():
            raise DeclarationError(f"must be finite, not {value}", key=name)
        # its digits would fill the memory
        if abs(value.adjusted()) > _LARGEST_TEXT:
            raise DeclarationError(f'must be a number such as 0.5 or "1/3", not {str(value)[:40]!r}', key=name)
        return Fraction(value)
    if isinstance(value, numbers.Integral):
        return Fraction(int(value))
    if isinstance(value, float):
        if not math.isfinite(value):
            raise DeclarationError(f"must be finite, not {float(value)!r}", key=name)
        if getattr(value, "not_private", False):
            raise DeclarationError("must be declared, not what a bare mechanism made of a value: NOT PRIVATE", key=name)
        # by Decimal this takes a third of the time that Fraction needs for text
        return Fraction(Decimal(float.__repr__(value)))
    if isinstance(value, str):
        text = value.strip()
        try:
            if text.endswith("%"):
                return _plain_fraction(text[:-1].rstrip()) / 100
            logarithm = _LOGARITHM.fullmatch(text)
            return _plain_fraction(text) if logarithm is None else _ln(_plain_fraction(logarithm[1] or logarithm[2]))
        except (ValueError, ZeroDivisionError):
            raise DeclarationError(f'must be a number such as 0.5 or "1/3", not {text[:40]!r}', key=name) from None
    # NumPy's narrower floats have a shortest decimal of their own
    if isinstance(value, numbers.Real):
        return to_fraction(str(value), name=name)
    raise DeclarationError(f"must be a number, not a {type(value).__name__}", key=name)


def _plain_fraction(text: str) -> Fraction:
    if len(text) > _LARGEST_TEXT or abs(int(text.lower().partition("e")[2] or 0)) > _LARGEST_TEXT:
        raise ValueError("too long")
    return Fraction(text)


def _ln(value: Fraction) -> Fraction:
    """Return the natural logarithm of a number above 0, rounded down: a loss that is asked for is never more than was said."""
    if value <= 0:
        raise ValueError("no logarithm")
    context = Context(prec=60)
    quotient = context.divide(Decimal(value.numerator), Decimal(value.denominator))
    return Fraction(context.ln(quotient).quantize(Decimal("1e-20"), rounding=ROUND_FLOOR, context=context))


def format_number(value: Fraction) -> str:
    """Return a fraction for reading: a decimal if it has at most 24 places, else "p/q".

    >>> [format_number(Fraction(text)) for text in ("0.1", "2", "1/3", "0.000000001")]
    ['0.1', '2', '1/3', '1e-9']
    """
    if value.denominator == 1:
        return str(value.numerator)
    # a decimal terminates if the denominator has no prime factors but 2 and 5
    rest = value.denominator
    twos = fives = 0
    while rest % 2 == 0:
        rest //= 2
        twos += 1
    while rest % 5 == 0:
        rest //= 5
        fives += 1
    places = max(twos, fives)
    if rest != 1 or places > 24:
        return f"{value.numerator}/{value.denominator}"
    scaled = abs(value.numerator) * 10**places // value.denominator
    sign = "-" if value < 0 else ""
    digits = str(scaled)
    if len(digits) + 3 < places:
        mantissa = digits[0] + ("." + digits[1:] if len(digits) > 1 else "")
        return f"{sign}{mantissa}e-{places - len(digits) + 1}"
    padded = digits.rjust(places + 1, "0")
    return f"{sign}{padded[:-places]}.{padded[-places:]}"


def to_json_number(amount: Fraction) -> float | str:
    """Return an amount as a JSON number, or as text such as "1/3" where no float has it as its shortest decimal."""
    near = amount.numerator / amount.denominator
    short = Decimal(repr(near)).as_integer_ratio() == amount.as_integer_ratio()
    return near if short else format_number(amount)


def parse_fraction(text: str) -> Fraction:
    """Return a fraction that `format_number` wrote, however long."""
    return Fraction(text) if len(text) > 100 else to_fraction(text, name="a stored number")


def round_up(value: float | Fraction, *, digits: int) -> str:
    """Format a number above 0 with this many digits, rounded up.

    >>> round_up(13.591409, digits=4), round_up(1e-6, digits=2)
    ('13.6', '1e-6')
    """
    return _round(value, Context(prec=digits, rounding=ROUND_CEILING))


def round_down(value: float | Fraction, *, digits: int) -> str:
    """Format a number above 0 with this many digits, rounded down."""
    return _round(value, Context(prec=digits, rounding=ROUND_FLOOR))


def _amount(value: Number, *, name: str, below: int | None = None) -> Fraction:
    amount = to_fraction(value, name=name)
    if amount < 0:
        raise DeclarationError(f"must not be negative, not {format_number(amount)}", key=name)
    if below is not None and amount >= below:
        raise DeclarationError(f"must be below {below}, not {format_number(amount)}", key=name)
    return amount


@dataclass(frozen=True, slots=True, init=False)
class PureDP:
    """A loss of pure epsilon-differential privacy (Dwork, McSherry, Nissim, Smith 2006).

    >>> PureDP(0.1).epsilon * 10 == 1
    True
    >>> PureDP("1/3")
    PureDP(epsilon='1/3')
    """

    epsilon: Fraction

    def __init__(self, epsilon: Number) -> None:
        object.__setattr__(self, "epsilon", _amount(epsilon, name="epsilon"))

    def __repr__(self) -> str:
        return f"PureDP(epsilon={_literal(self.epsilon)})"

    def describe(self) -> str:
        """Return the loss in words."""
        return f"epsilon {format_number(self.epsilon)}"

    def amounts(self) -> dict[str, Fraction]:
        """Return what is summed under a cap of this kind."""
        return {"epsilon": self.epsilon}


@dataclass(frozen=True, slots=True, init=False)
class ApproxDP:
    """A loss of (epsilon, delta)-differential privacy (Dwork, Kenthapadi, McSherry, Mironov, Naor 2006)."""

    epsilon: Fraction
    delta: Fraction

    def __init__(self, epsilon: Number, delta: Number) -> None:
        object.__setattr__(self, "epsilon", _amount(epsilon, name="epsilon"))
        object.__setattr__(self, "delta", _amount(delta, name="delta", below=1))

    def __repr__(self) -> str:
        return f"ApproxDP(epsilon={_literal(self.epsilon)}, delta={_literal(self.delta)})"

    def describe(self) -> str:
        """Return the loss in words."""
        return f"epsilon {format_number(self.epsilon)}" + (f", delta {format_number(self.delta)}" if self.delta else "")

    def amounts(self) -> dict[str, Fraction]:
        """Return what is summed under a cap of this kind."""
        return {"epsilon": self.epsilon, "delta": self.delta}


@dataclass(frozen=True, slots=True, init=False)
class ZCDP:
    """A loss of rho-zero-concentrated differential privacy, except for an event of probability `slack`.

    Theorem (Bun & Steinke 2016, Definition 8.1 and Lemma 8.2): slack-approximate rho-zCDP composes by sums of rho and of
    slack, and is (epsilon, delta + slack)-private for each pair (epsilon, delta) that rho-zCDP has. A slack, where given,
    is what private keys may spend. `delta`, where given, is the target for conversion to (epsilon, delta); it spends nothing.

    >>> ZCDP("0.5", delta="1e-6", slack="1e-7").amounts()
    {'rho': Fraction(1, 2), 'delta': Fraction(1, 10000000)}
    """

    rho: Fraction
    delta: Fraction | None
    slack: Fraction | None

    def __init__(self, rho: Number, delta: Number | None = None, slack: Number | None = None) -> None:
        object.__setattr__(self, "rho", _amount(rho, name="rho"))
        object.__setattr__(self, "delta", None if delta is None else _amount(delta, name="delta", below=1))
        object.__setattr__(self, "slack", None if slack is None else _amount(slack, name="slack", below=1))

    def __repr__(self) -> str:
        tail = "" if self.delta is None else f", delta={_literal(self.delta)}"
        return f"ZCDP(rho={_literal(self.rho)}{tail}{'' if self.slack is None else f', slack={_literal(self.slack)}'})"

    def describe(self) -> str:
        """Return the loss in words."""
        spent = f"rho {format_number(self.rho)}" + (f", delta {format_number(self.slack)}" if self.slack else "")
        return spent + ("" if self.delta is None else f" (converted at delta {format_number(self.delta)})")

    def amounts(self) -> dict[str, Fraction]:
        """Return what is summed under a cap of this kind: rho, and the delta of a slack."""
        return {"rho": self.rho} if self.slack is None else {"rho": self.rho, "delta": self.slack}


Loss = PureDP | ApproxDP | ZCDP


def loss_from(amounts: dict[str, Fraction], *, delta: Fraction | None = None) -> Loss:
    """Return the loss whose `amounts()` are given; `delta` is the conversion target of a rho.

    >>> loss_from({"epsilon": Fraction(1, 2)})
    PureDP(epsilon=0.5)
    """
    if "rho" in amounts:
        return ZCDP(amounts["rho"], delta, amounts.get("delta"))
    if "delta" in amounts:
        return ApproxDP(amounts["epsilon"], amounts["delta"])
    return PureDP(amounts["epsilon"])


def scale_loss(loss: Loss, factor: Fraction) -> Loss:
    """Return a loss with its epsilon or its rho times a factor; a delta and a slack stay.

    >>> scale_loss(ApproxDP(1, "1e-6"), Fraction(1, 2))
    ApproxDP(epsilon=0.5, delta=1e-6)
    """
    if factor == 1:
        return loss
    if isinstance(loss, ZCDP):
        return ZCDP(loss.rho * factor, loss.delta, loss.slack)
    return ApproxDP(loss.epsilon * factor, loss.delta) if isinstance(loss, ApproxDP) else PureDP(loss.epsilon * factor)


def share_loss(loss: Loss, share: Fraction) -> Loss:
    """Return a share of each amount of a loss, a delta and a slack too: shares that sum to 1 compose to the loss.

    >>> share_loss(ApproxDP(1, "1e-6"), Fraction(1, 2))
    ApproxDP(epsilon=0.5, delta=5e-7)
    """
    return loss_from({name: amount * share for name, amount in loss.amounts().items()})


def loss_to_numbers(loss: Loss) -> dict[str, float | str]:
    """Return a loss as JSON numbers, such as {"epsilon": 0.5}; see `to_json_number`."""
    numbers = {n: to_json_number(a) for n, a in loss.amounts().items()}
    if isinstance(loss, ZCDP) and loss.delta is not None:
        numbers["at_delta"] = to_json_number(loss.delta)
    return numbers


def loss_from_numbers(data: dict[str, float | str]) -> Loss:
    """Return the loss that `loss_to_numbers` wrote."""
    amounts = {n: to_fraction(t, name=n) for n, t in data.items() if n != "at_delta"}
    return loss_from(amounts, delta=to_fraction(data["at_delta"], name="delta") if "at_delta" in data else None)


def _round(value: float | Fraction, context: Context) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    whole = Fraction(value)
    decimal = context.divide(Decimal(whole.numerator), Decimal(whole.denominator))
    return format_number(Fraction(decimal)) if -24 < decimal.adjusted() < 16 else f"{decimal:g}"


def _literal(value: Fraction) -> str:
    text = format_number(value)
    return repr(text) if "/" in text or to_fraction(float(value), name="value") != value else text


F = TypeVar("F", bound=Callable[..., Any])


class LossArguments(TypedDict, total=False):
    """The loss of a call: `epsilon`, `epsilon` and `delta`, or `rho`; none has a default."""

    epsilon: Number | None
    delta: Number | None
    rho: Number | None


def show_arguments(stated: type, **defaults: object) -> Callable[[F], F]:
    """Show the keywords of a TypedDict in the signature of a function that takes them as `**loss: Unpack[...]`.

    So `help()` and editors show each, and a call with any other raises TypeError. A keyword's default is None unless
    `defaults` says otherwise.
    """

    def show(function: F) -> F:
        signature = inspect.signature(function)
        plain = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
        hints = stated.__annotations__
        annotations = {name: getattr(hint, "__forward_arg__", hint) for name, hint in hints.items()}
        keywords = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=defaults.get(name), annotation=annotation)
            for name, annotation in annotations.items()
        ]
        allowed = frozenset(annotations) | {p.name for p in plain if p.kind is not p.POSITIONAL_ONLY}

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            if not kwargs.keys() <= allowed:
                name = next(n for n in kwargs if n not in allowed)
                raise TypeError(f"{function.__qualname__}() got an unexpected keyword argument {name!r}")
            return function(*args, **kwargs)

        call.__signature__ = signature.replace(parameters=[*plain, *keywords])  # type: ignore[attr-defined]
        return cast(F, call)

    return show


def read_loss(*, epsilon: Number | None = None, delta: Number | None = None, rho: Number | None = None) -> Loss:
    """Return the loss that `epsilon=`, `delta=` and `rho=` state; raises DeclarationError unless it is positive.

    A delta beside rho is a slack: what private keys may spend.

    >>> read_loss(epsilon="0.5", delta=None, rho=None)
    PureDP(epsilon=0.5)
    """
    if epsilon is not None and rho is not None:
        raise DeclarationError(
            f"state a privacy loss once: {arg('epsilon=')} and {arg('rho=')} are two ways to say it, so leave one of them out"
        )
    if epsilon is None and rho is None:
        raise DeclarationError(
            f"state a privacy loss: {arg('epsilon=')}..., or {arg('epsilon=')}... and {arg('delta=')}..., or {arg('rho=')}..."
        )
    if rho is not None:
        return ZCDP(_positive(rho, "rho"), slack=None if delta is None else _chance(delta))
    most = _positive(epsilon if epsilon is not None else 0, "epsilon")
    if delta is None:
        return PureDP(most)
    return ApproxDP(most, _chance(delta))


def _chance(delta: Number) -> Fraction:
    chance = to_fraction(delta, name="delta")
    if not 0 < chance < 1:
        raise DeclarationError(f"delta must lie between 0 and 1, such as 1e-9, not {format_number(chance)}")
    return chance


def _positive(value: Number, name: str) -> Fraction:
    amount = to_fraction(value, name=name)
    if amount <= 0:
        raise DeclarationError(f"must be above 0, not {format_number(amount)}; 0.1 to 1 is common", key=name)
    if amount < Fraction(1, 10**12):
        raise DeclarationError(
            f"of {float(amount):.3g} would say nothing: the least is 1e-12; 0.1 to 1 is common", key=name
        )
    if amount > 10**6:
        raise DeclarationError(f"of {format_number(amount)} would protect no one; 0.1 to 1 is common", key=name)
    return amount


def currencies_to_dict(event: Event) -> dict[str, Any]:
    """Return what an event costs in each currency, as JSON numbers: epsilon, (epsilon, delta), rho; None where unknown."""
    epsilon = event.pure()
    pair = event.approx()
    rho = event.rho()
    return {
        "epsilon": None if epsilon is None else to_json_number(epsilon),
        "approx": None if pair is None else [to_json_number(pair[0]), to_json_number(pair[1])],
        "rho": None if rho is None else to_json_number(rho),
    }
