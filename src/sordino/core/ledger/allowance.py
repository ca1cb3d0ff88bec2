"""Allowances: what a budget may spend in each month, quarter or year, or in any year's length of months, beside its cap.

An allowance is on record before the period that it holds for begins, and the ledger refuses what would pass it, in the
transaction of the charge. Months are those of UTC.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, Literal, get_args

from sordino.core.errors import BudgetExhausted, DeclarationError, nearest
from sordino.core.loss import Loss, Number, format_number, loss_from, read_loss, shorten_up

Every = Literal["month", "quarter", "year"]

_MONTHS = {"month": 1, "quarter": 3, "year": 12}
# for so many years somebody may stay in a table
_YEARS = 10
# Months of which the spending is kept: no window is longer.
_KEPT = 12

Amounts = Mapping[str, Fraction]


@dataclass(frozen=True, slots=True)
class Allowance:
    """What a budget may spend in each calendar month, quarter or year (UTC); its cap holds for all of them together.

    `rolling` says that it holds for every run of as many months: a year for the twelve months that end with any. State epsilon,
    epsilon and delta, or rho, as the cap does. Raises DeclarationError for another period, or a loss that is none.

    >>> Allowance("year", rho="0.5").describe()
    'rho 0.5 a year'
    """

    every: Every
    epsilon: Number | None = field(default=None, compare=False)
    delta: Number | None = field(default=None, compare=False)
    rho: Number | None = field(default=None, compare=False)
    rolling: bool = False
    # what is stated above, exactly: 1 and "1" are the same
    amounts: Amounts = field(init=False, repr=False, hash=False)

    def __post_init__(self) -> None:
        if self.every not in _MONTHS:
            raise DeclarationError(
                f"an allowance is stated for each month, quarter or year; {nearest(str(self.every), get_args(Every))}",
                key="every",
            )
        if not isinstance(self.rolling, bool):
            raise DeclarationError("is true or false: whether the allowance holds for any run of months", key="rolling")
        loss = read_loss(epsilon=self.epsilon, delta=self.delta, rho=self.rho)
        object.__setattr__(self, "amounts", dict(loss.amounts()))

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Allowance:
        """Return the allowance that `to_dict` wrote."""
        return cls(**plain)

    def to_dict(self) -> dict[str, Any]:
        """Return the allowance as plain, canonical data; amounts are exact."""
        return {"every": self.every, "rolling": self.rolling, **{k: str(v) for k, v in self.amounts.items()}}

    def describe(self) -> str:
        """Return the allowance in words."""
        words = ", ".join(f"{name} {format_number(amount)}" for name, amount in self.amounts.items())
        return f"{words} in any {_run(self.every)}" if self.rolling else f"{words} a {self.every}"

    def check(self, cap: Loss) -> None:
        """Raise DeclarationError unless the allowance is of the cap's kind, at most the cap, and more than nothing."""
        most = cap.amounts()
        if set(self.amounts) != set(most):
            raise DeclarationError(f"an allowance is of its cap's kind: state {' and '.join(most)}", key="allowance")
        larger = next((name for name, amount in self.amounts.items() if amount > most[name]), None)
        if larger is not None:
            raise DeclarationError(
                f"an allowance of {larger} {format_number(self.amounts[larger])} is above the cap of "
                f"{format_number(most[larger])}, which holds for all periods together",
                key="allowance",
            )
        if any(not amount for name, amount in self.amounts.items() if name != "delta"):
            raise DeclarationError("must be above 0: an allowance of nothing answers nothing", key="allowance")

    def window(self, month: str) -> list[str]:
        """Return the months that count together with a month: those of its period, or those of the run that ends with it."""
        size = _MONTHS[self.every]
        if self.rolling:
            return [shift_month(month, -i) for i in range(size)]
        first = shift_month(month, -((int(month[5:]) - 1) % size))
        return [shift_month(first, i) for i in range(size)]

    def name_period(self, month: str) -> str:
        """Return the name of the period that a month lies in."""
        if self.rolling:
            return f"the {_run(self.every)} to {month}" if self.every != "month" else month
        year, number = int(month[:4]), int(month[5:])
        return {"month": month, "quarter": f"{year}-Q{(number + 2) // 3}", "year": f"{year}"}[self.every]

    def is_begin(self, month: str) -> bool:
        """Return whether a period begins with a month; of a rolling allowance each month begins one."""
        return self.rolling or (int(month[5:]) - 1) % _MONTHS[self.every] == 0


@dataclass(frozen=True, slots=True)
class AllowanceSums:
    """An allowance with what was spent of it, by month; `upcoming` is the one that holds from a later month on."""

    allowance: Allowance
    months: Mapping[str, Amounts]
    upcoming: tuple[str, Allowance] | None = None

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> AllowanceSums:
        """Return the sums that `to_dict` wrote."""
        months = {month: {n: Fraction(a) for n, a in spent.items()} for month, spent in plain["months"].items()}
        later = plain.get("upcoming")
        upcoming = None if later is None else (str(later["from"]), Allowance.from_dict(later["allowance"]))
        return cls(Allowance.from_dict(plain["allowance"]), months, upcoming)

    def to_dict(self) -> dict[str, Any]:
        """Return the sums as plain, canonical data."""
        later = self.upcoming
        return {
            "allowance": self.allowance.to_dict(),
            "months": {m: {n: str(a) for n, a in spent.items()} for m, spent in sorted(self.months.items())},
            **({} if later is None else {"upcoming": {"from": later[0], "allowance": later[1].to_dict()}}),
        }

    def at(self, month: str) -> Allowance:
        """Return the allowance that holds in a month."""
        return self.allowance if self.upcoming is None or month < self.upcoming[0] else self.upcoming[1]

    def current(self, time: str) -> str:
        """Return the month of a moment; never one before the last with a charge, so that no clock set back refills anything."""
        return max(time[:7], *self.months) if self.months else time[:7]

    def spent(self, time: str) -> dict[str, Fraction]:
        """Return what was spent in the period of a moment."""
        month = self.current(time)
        allowance = self.at(month)
        window = allowance.window(month)
        zero = dict.fromkeys(allowance.amounts, Fraction(0))
        return {n: sum((self.months[m].get(n, zero[n]) for m in window if m in self.months), zero[n]) for n in zero}

    def left(self, time: str) -> dict[str, Fraction]:
        """Return what the period of a moment leaves."""
        spent = self.spent(time)
        return {n: max(most - spent[n], Fraction(0)) for n, most in self.at(self.current(time)).amounts.items()}

    def charge(self, amounts: Amounts, time: str) -> AllowanceSums:
        """Return the sums after a charge; raises BudgetExhausted if it would pass what its period may spend."""
        month = self.current(time)
        allowance = self.at(month)
        spent = self.spent(time)
        if any(spent[name] + amounts[name] > most for name, most in allowance.amounts.items()):
            left = self.left(time)
            words = ", ".join(f"{name} {format_number(amount)}" for name, amount in left.items())
            asks = ", ".join(f"{name} {format_number(amounts[name])}" for name in left)
            raise BudgetExhausted(
                f"the allowance does not cover this: it asks for {asks}, and {words} of {allowance.describe()} is left in "
                f"{allowance.name_period(month)}; nothing was charged; more may be spent from {self.next_begin(time)} on",
                asked=loss_from(dict(amounts)),
                left=loss_from(left),
            )
        return self.add(amounts, time)

    def add(self, amounts: Amounts, time: str) -> AllowanceSums:
        """Return the sums after a charge that nothing refuses: what was lost, or carried over."""
        month = self.current(time)
        return replace(self, months=add_month(self.months, month, amounts))

    def next_begin(self, time: str) -> str:
        """Return the first month in which more may be spent than now: the next period, or when spending leaves the run."""
        month = self.current(time)
        allowance = self.at(month)
        if not allowance.rolling:
            return shift_month(allowance.window(month)[-1], 1)
        oldest = min((m for m in allowance.window(month) if m in self.months), default=month)
        return shift_month(oldest, _MONTHS[allowance.every])

    def amend(self, allowance: Allowance, time: str) -> AllowanceSums:
        """Return the sums with another allowance from the next period on: one that runs keeps the one it began with."""
        month = self.current(time)
        current = self.at(month)
        begin = shift_month(month, 1)
        while not (current.is_begin(begin) and allowance.is_begin(begin)):
            begin = shift_month(begin, 1)
        return AllowanceSums(current, self.months, (begin, allowance))

    def to_status(self, time: str) -> dict[str, Any]:
        """Return how the allowance stands at a moment, as JSON data with exact amounts."""
        month = self.current(time)
        allowance = self.at(month)
        later = None if self.upcoming is None or month >= self.upcoming[0] else self.upcoming
        return {
            **allowance.to_dict(),
            "period": allowance.name_period(month),
            "spent": {n: format_number(a) for n, a in self.spent(time).items()},
            "left": {n: format_number(a) for n, a in self.left(time).items()},
            "next": self.next_begin(time),
            "upcoming": None if later is None else {"from": later[0], **later[1].to_dict()},
        }


def add_month(months: Mapping[str, Amounts], month: str, amounts: Amounts) -> dict[str, Amounts]:
    """Return spending by month with more in one; months of which no window is left are dropped."""
    first = shift_month(month, 1 - _KEPT)
    before = months.get(month, {})
    # rounded up beyond sixty decimals, as the sums under the cap are
    total = {n: shorten_up(before.get(n, Fraction(0)) + amount) for n, amount in amounts.items()}
    return {**{m: spent for m, spent in months.items() if m >= first}, month: total}


def months_of(entries: Iterable[tuple[str, str, Mapping[str, Any]]]) -> dict[str, Amounts]:
    """Return spending by month from entries (kind, time, payload): charges, what was carried over, and what was lost.

    What was carried over counts in the month of the first entry, and what was lost in that of its restoration, since when it
    was spent is not known.
    """
    months: dict[str, Amounts] = {}
    for kind, time, payload in entries:
        name = {"open": "carried", "reserve": "amounts", "restore": "lost"}.get(kind)
        if name is not None and name in payload:
            amounts = {n: Fraction(a) for n, a in payload[name].items()}
            months = add_month(months, max(time[:7], *months) if months else time[:7], amounts)
    return months


def shift_month(month: str, count: int) -> str:
    """Return the month so many after another.

    >>> shift_month("2026-11", 2), shift_month("2026-01", -12)
    ('2027-01', '2025-01')
    """
    number = int(month[:4]) * 12 + int(month[5:7]) - 1 + count
    return f"{number // 12:04d}-{number % 12 + 1:02d}"


def describe_years(allowance: Allowance, cap: Loss) -> str:
    """Return what somebody loses at most whose rows stay for ten years, in a sentence that is true of the allowance and the cap.

    A span of years that begins within a period touches one period more, and so many runs cover its months.
    """
    periods = _YEARS * 12 // _MONTHS[allowance.every] + 1
    most = {n: min(periods * amount, cap.amounts()[n]) for n, amount in allowance.amounts.items()}
    words = ", ".join(f"{n} {format_number(a)}" for n, a in most.items())
    by_cap = any(periods * amount > cap.amounts()[n] for n, amount in allowance.amounts.items())
    reason = (
        "all that the cap allows"
        if by_cap
        else f"{periods:,} times the allowance, as {_YEARS} years touch that many periods"
    )
    return (
        f"Somebody whose rows stay for {_YEARS} years loses at most {words} in that time: {reason}. What was spent does not "
        "return: each period adds to what the periods before it revealed, about those who have left too while their rows are kept"
    )


def _run(every: Every) -> str:
    months = _MONTHS[every]
    return "month" if months == 1 else f"{months} months"
