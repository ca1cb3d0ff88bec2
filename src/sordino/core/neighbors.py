"""Neighboring tables, the privacy unit, and the sensitivity of answers to them. Nothing here has a default."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, Literal

from sordino.core.errors import DeclarationError, QuestionRefused, explain_relations
from sordino.core.loss import format_number

Relation = Literal["add_remove", "replace"]


@dataclass(frozen=True, slots=True)
class ContributionBounds:
    """Bounds on one unit's contributions: its rows, its groups, its rows in one group; None for no bound.

    Groups are the keys, or combinations of keys, of a question's GROUP BY, declared or private.
    """

    max_rows: int | None = None
    max_groups: int | None = None
    max_rows_per_group: int | None = None

    def __post_init__(self) -> None:
        for name, bound in self.items():
            if bound is not None and (isinstance(bound, bool) or not isinstance(bound, int) or not 1 <= bound <= _MOST):
                raise DeclarationError(f"must be from 1 to 10^9: {_MEANING[name]}", key=name)

    def items(self) -> tuple[tuple[str, int | None], ...]:
        """Return each bound by name."""
        return (
            ("max_rows", self.max_rows),
            ("max_groups", self.max_groups),
            ("max_rows_per_group", self.max_rows_per_group),
        )

    def to_dict(self) -> dict[str, int]:
        """Return the bounds that are given, by name."""
        return {name: bound for name, bound in self.items() if bound is not None}

    def describe(self) -> str:
        """Return the bounds in words: at most 3 groups and 1 row a group of one unit."""
        words = {"max_rows": "row(s)", "max_groups": "group(s)", "max_rows_per_group": "row(s) a group"}
        return "at most " + " and ".join(f"{bound:,} {words[name]}" for name, bound in self.to_dict().items())


_MOST = 10**9
_MEANING = {
    "max_rows": "the most rows of one unit that count",
    "max_groups": "the most groups that one unit counts in",
    "max_rows_per_group": "the most rows of one unit that count in one group",
}


@dataclass(frozen=True, slots=True)
class PrivacyUnit:
    """The privacy unit: all rows that share one value of `column`, of which a bounded number is used.

    State `max_rows`, or `max_groups` with `max_rows_per_group`; the product of these two then bounds the rows. Which of a
    unit's rows are used depends on that unit's rows alone; rows without a unit are dropped.

    Without a column, `PrivacyUnit(None, max_rows=3)` promises that no unit has more than 3 rows. Nothing can enforce it.
    `of` names the people that the unit stands for, where the column's name does not: tables with the same name are about the
    same people.

    >>> PrivacyUnit("member_id", max_rows=5, of="person").people
    'person'
    """

    column: str | None
    max_rows: int | None = None
    max_groups: int | None = None
    max_rows_per_group: int | None = None
    of: str | None = None

    @property
    def people(self) -> str:
        """The people that the unit stands for: `of`, or the column's name."""
        return self.of or self.column or "unit"

    def __post_init__(self) -> None:
        if self.of is not None and (not isinstance(self.of, str) or not self.of):
            raise DeclarationError('must be a name, such as of = "person"', key="of")
        if self.column is not None and (not isinstance(self.column, str) or not self.column):
            raise DeclarationError("the privacy unit's column must be the name of a column")
        bounds = ContributionBounds(self.max_rows, self.max_groups, self.max_rows_per_group)
        if self.column is None and list(bounds.to_dict()) != ["max_rows"]:
            raise DeclarationError(
                "a privacy unit without a column is a promise about rows alone: state max_rows, and only that",
                key="max_rows",
            )
        if self.max_rows is None and (self.max_groups is None or self.max_rows_per_group is None):
            raise DeclarationError(
                "is missing; state the most rows of one unit that count, or both max_groups and max_rows_per_group",
                key="max_rows",
            )

    @property
    def total_rows(self) -> int:
        """The most rows of one unit that count in one question."""
        product = (self.max_groups or _MOST) * (self.max_rows_per_group or _MOST)
        return product if self.max_rows is None else min(self.max_rows, product)


@dataclass(frozen=True, slots=True)
class Neighbors:
    """The neighbor relation of two tables, in privacy units; `unit` is None for a row, else a PrivacyUnit.

    add_remove: one table has all rows of one more unit. replace: the rows of one unit are exchanged for those of another.
    `contributions` is the most rows that one unit may have after the caps and after joins with public tables, `groups` the most
    groups of one question that it may count in, `rows_per_group` the most of its rows in one of them.

    >>> Neighbors("add_remove", PrivacyUnit("user_id", max_rows=5)).contributions
    5
    """

    relation: Relation
    unit: PrivacyUnit | None
    # the joined rows that one row may become: a fact of a question, not of a declaration
    copies: int = 1
    # whether rows beyond the cap are left out: not where each row is made of all rows of a unit
    capped: bool = True
    # the bounds that a question enforces on its rows: see `enforce`
    bounds: ContributionBounds | None = None
    contributions: int = field(init=False, repr=False, compare=False)
    groups: int = field(init=False, repr=False, compare=False)
    rows_per_group: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.relation not in ("add_remove", "replace"):
            raise DeclarationError(explain_relations(self.relation), key="neighbors")
        bounds = self.bounds or ContributionBounds()
        rows = bounds.max_rows
        if rows is None:
            rows = self.copies * (1 if self.unit is None else self.unit.total_rows)
        each = bounds.max_rows_per_group
        object.__setattr__(self, "contributions", rows)
        object.__setattr__(self, "groups", rows if bounds.max_groups is None else min(bounds.max_groups, rows))
        object.__setattr__(self, "rows_per_group", rows if each is None else min(each, rows))

    @property
    def id_column(self) -> str | None:
        """The column that names a row's unit; None where a row is the unit, and where rows per unit are promised."""
        return None if self.unit is None else self.unit.column

    @property
    def people(self) -> str | None:
        """The people that the rows are about, None where each row is a unit of its own."""
        return None if self.unit is None else self.unit.people

    def enforce(self, requested: ContributionBounds | None, *, by_group: bool) -> Neighbors:
        """Return the relation of a question's rows once its bounds are enforced: the unit's, and tighter `requested` ones.

        The unit's bounds on rows grow with the joined rows that one row may become; requested ones count joined rows. Raises
        QuestionRefused where a requested bound is looser than the unit's, or has nothing to act on.
        """
        if requested is not None:
            self._check(requested, by_group=by_group)
        if self.unit is None or self.unit.column is None or not self.capped:
            return self
        unit = self.unit
        tighter = requested or ContributionBounds()
        rows = _least(self.copies * unit.total_rows, tighter.max_rows)
        assert rows is not None
        if not by_group:
            return replace(self, bounds=ContributionBounds(min(rows, _MOST)))
        per_group = None if unit.max_rows_per_group is None else self.copies * unit.max_rows_per_group
        groups = _least(unit.max_groups, tighter.max_groups)
        each = _least(per_group, tighter.max_rows_per_group)
        if groups is not None and each is not None:
            rows = min(rows, groups * each)
        rows = min(rows, _MOST)
        # a bound that the one on rows implies needs no enforcing
        groups = None if groups is None or groups >= rows else groups
        each = None if each is None or each >= rows else each
        return replace(self, bounds=ContributionBounds(rows, groups, each))

    def _check(self, requested: ContributionBounds, *, by_group: bool) -> None:
        if self.id_column is None:
            raise QuestionRefused(
                "bound_contributions needs a column that names each row's unit: declare PrivacyUnit(column, max_rows=...)"
            )
        if not self.capped:
            raise QuestionRefused(
                f"each {self.people} is one row here, made of all of its rows: there is nothing to bound"
            )
        for name, bound in requested.to_dict().items():
            if name != "max_rows" and not by_group:
                raise QuestionRefused(
                    f"{name} bounds the groups of a GROUP BY, and this question has none: use max_rows"
                )
            declared = getattr(self.unit, name)
            most = declared if declared is None or name == "max_groups" else declared * self.copies
            if most is not None and bound > most:
                raise QuestionRefused(
                    f"{name} = {bound} is above the {most} that the table's declaration allows: a question's bounds may only "
                    "be tighter"
                )

    def describe(self) -> str:
        """Return the relation and the unit in words."""
        return f"{self.describe_unit()}, {self.relation.replace('_', '/')}"

    def describe_unit(self) -> str:
        """Return the privacy unit in words."""
        if self.unit is None:
            return "one row"
        if self.unit.column is None:
            return f"all rows of one {self.unit.people} (promised: at most {self.unit.max_rows})"
        cap = f" (at most {self.unit.total_rows} count)" if self.capped else ""
        return f"all rows of one {self.unit.people}{cap}"

    def describe_caps(self) -> tuple[str, ...]:
        """Return notes about rows of a unit that do not count in an answer; none where every row does."""
        if self.unit is None:
            return ()
        one = self.unit.people
        if not self.capped:
            return (f"each {one} is one row, made of all of its rows: max_rows leaves none out", *self.describe_ids())
        if self.unit.column is None:
            limit = f"at most {self.unit.max_rows:,} {'row' if self.unit.max_rows == 1 else 'rows'}"
            return (f"that each unit has {limit} is a promise of the declaration: nothing enforces it",)
        most = self.contributions
        each = self.rows_per_group
        row = "joined row" if self.copies > 1 else "row"
        notes = [f"at most {most:,} {row}{'' if most == 1 else 's'} of one {one} count; rows beyond are not counted"]
        if self.groups < most:
            keys = f"{self.groups:,} key{'' if self.groups == 1 else 's'}"
            notes.append(f"at most {keys} of one {one} count; its rows under other keys are not counted")
        if each < most:
            notes.append(f"at most {each:,} {row}{'' if each == 1 else 's'} of one {one} count under one key")
        return (*notes, *self.describe_ids())

    def describe_ids(self) -> tuple[str, ...]:
        """Return the note that rows without a unit's id do not count; none where no column names the unit."""
        return () if self.id_column is None else (f"rows whose {self.id_column} is missing are left out",)

    def to_dict(self) -> dict[str, Any]:
        """Return the declaration as plain, canonical data."""
        if self.unit is None:
            return {"neighbors": self.relation, "privacy_unit": "row"}
        unit = self.unit
        column = {} if unit.column is None else {"column": unit.column}
        bounds = ContributionBounds(unit.max_rows, unit.max_groups, unit.max_rows_per_group)
        people = {} if unit.of is None else {"of": unit.of}
        return {"neighbors": self.relation, "privacy_unit": column | bounds.to_dict() | people}


def _least(one: int | None, other: int | None) -> int | None:
    """Return the smaller of two bounds, either of which may be none."""
    return other if one is None else one if other is None else min(one, other)


def neighbors_from(*, neighbors: str, privacy_unit: str | PrivacyUnit) -> Neighbors:
    """Return the Neighbors that `neighbors=` and `privacy_unit=` of the public calls state.

    Raises DeclarationError unless the relation is "add_remove" or "replace" and the unit "row" or a PrivacyUnit.
    """
    if isinstance(privacy_unit, PrivacyUnit):
        return Neighbors(neighbors, privacy_unit)  # type: ignore[arg-type]  # checked at the door
    if privacy_unit != "row":
        raise DeclarationError('must be "row" or PrivacyUnit(column, max_rows=...)', key="privacy_unit")
    return Neighbors(neighbors, None)  # type: ignore[arg-type]  # checked at the door


@dataclass(frozen=True, slots=True, repr=False)
class Sensitivity:
    """The sensitivity of a vector of answers to one unit: cells touched (l0), and l1, l2, linf distances, exactly.

    `l2_squared` is stored because it is rational; `l2` is its root, rounded up. `because` is the rule, in words. `joint` is
    below 1 where no unit moves several vectors each as far as it may: see `noise_choice.cheapest`.

    >>> Sensitivity(l0=2, l1=Fraction(2), l2_squared=Fraction(2), linf=Fraction(1), because="replace").l2 >= 2**0.5
    True
    """

    l0: int
    l1: Fraction
    l2_squared: Fraction
    linf: Fraction
    because: str
    joint: Fraction = Fraction(1)

    @property
    def l2(self) -> float:
        """The Euclidean sensitivity, rounded up."""
        root = math.isqrt(self.l2_squared.numerator * self.l2_squared.denominator)
        if root * root == self.l2_squared.numerator * self.l2_squared.denominator:
            whole = Fraction(root, self.l2_squared.denominator)
            if Fraction(float(whole)) == whole:
                return float(whole)
        return math.nextafter(math.nextafter(math.sqrt(self.l2_squared), math.inf), math.inf)

    def rescale(self, unit: Fraction) -> Sensitivity:
        """Return the same bound with answers measured in another unit."""
        if unit == 1:
            return self
        return Sensitivity(
            self.l0, self.l1 * unit, self.l2_squared * unit**2, self.linf * unit, self.because, self.joint
        )

    def __repr__(self) -> str:
        figures = f"l0={self.l0}, l1={format_number(self.l1)}, l2={self.l2:.6g}, linf={format_number(self.linf)}"
        return f"Sensitivity({figures}, because={self.because!r})"
