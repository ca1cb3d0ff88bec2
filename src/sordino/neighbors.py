"""How far two tables may lie apart, and how far that can move an answer. Nothing here has a default."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

from sordino.errors import DeclarationError
from sordino.loss import format_number

__all__ = ["Neighbors", "PrivacyUnit", "Relation", "Sensitivity", "neighbors_from"]

Relation = Literal["add_remove", "replace"]


@dataclass(frozen=True, slots=True)
class PrivacyUnit:
    """Protect all rows that share one value of `column`, of which at most `max_rows` are used.

    The rows kept are chosen for each unit by itself, whatever the order of rows; rows without a unit are dropped.
    `max_groups`, where given, also caps the private keys that one unit's rows may fall under in one question. `of` says
    whose unit it is, where the column's name does not: tables with the same are of the same people.

    >>> PrivacyUnit("member_id", max_rows=5, of="person").people
    'person'
    """

    column: str
    max_rows: int
    max_groups: int | None = None
    of: str | None = None

    @property
    def people(self) -> str:
        """Whose unit it is: `of`, or the column's name."""
        return self.column if self.of is None else self.of

    def __post_init__(self) -> None:
        if not isinstance(self.column, str) or not self.column:
            raise DeclarationError("the privacy unit's column must be the name of a column")
        if self.of is not None and (not isinstance(self.of, str) or not self.of):
            raise DeclarationError('must be a name, such as of = "person"', key="of")
        if isinstance(self.max_rows, bool) or not isinstance(self.max_rows, int) or not 1 <= self.max_rows <= 10**9:
            raise DeclarationError("must be from 1 to 10^9: the most rows of one unit that count", key="max_rows")
        if self.max_groups is not None and (isinstance(self.max_groups, bool) or not 1 <= self.max_groups <= 10**9):
            raise DeclarationError(
                "must be 1 or more: the most private keys that one unit counts under", key="max_groups"
            )


@dataclass(frozen=True, slots=True)
class Neighbors:
    """State when two tables are neighbors: `relation` in privacy units; `unit` None for a row, else a PrivacyUnit.

    add_remove: one has all rows of one more unit. replace: the rows of one unit are exchanged for those of another.

    >>> Neighbors("add_remove", PrivacyUnit("user_id", max_rows=5)).contributions
    5
    """

    relation: Relation
    unit: PrivacyUnit | None
    copies: int = 1  # joined rows that one row may become: a fact of a question, not of a declaration
    capped: bool = True  # whether rows beyond the cap are left out: not where each row is made of all rows of a unit

    def __post_init__(self) -> None:
        if self.relation not in ("add_remove", "replace"):
            raise DeclarationError(f'must be "add_remove" or "replace", not {self.relation!r}', key="neighbors")

    @property
    def contributions(self) -> int:
        """The most rows that one unit may have after the cap and after joins with public tables."""
        return self.copies * (1 if self.unit is None else self.unit.max_rows)

    @property
    def people(self) -> str | None:
        """Whose rows they are, None where each row is a unit of its own."""
        return None if self.unit is None else self.unit.people

    @property
    def groups(self) -> int:
        """The most private keys that one unit may count under."""
        most = None if self.unit is None else self.unit.max_groups
        return self.contributions if most is None else min(most, self.contributions)

    def describe(self) -> str:
        """Return the relation and the unit in words."""
        return f"{self.describe_unit()}, {self.relation.replace('_', '/')}"

    def describe_unit(self) -> str:
        """Return what is protected, in words."""
        if self.unit is None:
            return "one row"
        cap = f" (at most {self.unit.max_rows} count)" if self.capped else ""
        return f"all rows of one {self.unit.people}{cap}"

    def describe_caps(self, *, private_keys: bool = False) -> tuple[str, ...]:
        """Return which rows of a unit take no part in an answer, in words; nothing where every row does."""
        if self.unit is None:
            return ()
        most, one = self.unit.max_rows, self.unit.people
        if not self.capped:
            return (f"each {one} is one row, made of all of its rows: max_rows leaves none out",)
        rows = f"at most {most:,} {'row' if most == 1 else 'rows'} of one {one} count; rows beyond are not counted"
        if not private_keys or self.groups >= self.contributions:
            return (rows,)
        return (rows, f"at most {self.groups:,} keys of one {one} count; its rows under other keys are not counted")

    def to_dict(self) -> dict[str, Any]:
        """Return the declaration as plain, canonical data."""
        unit: Any = "row"
        if self.unit is not None:
            unit = {"column": self.unit.column, "max_rows": self.unit.max_rows}
            if self.unit.max_groups is not None:
                unit["max_groups"] = self.unit.max_groups
            if self.unit.of is not None:
                unit["of"] = self.unit.of
        return {"neighbors": self.relation, "privacy_unit": unit}


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
    """Bound how far one unit moves a vector of answers: cells touched (l0), and l1, l2, linf distances, exactly.

    `l2_squared` is kept because it is rational; `l2` is its root, rounded up. `because` is the rule, in words.

    >>> Sensitivity(l0=2, l1=Fraction(2), l2_squared=Fraction(2), linf=Fraction(1), because="replace").l2 >= 2**0.5
    True
    """

    l0: int
    l1: Fraction
    l2_squared: Fraction
    linf: Fraction
    because: str

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
        return Sensitivity(self.l0, self.l1 * unit, self.l2_squared * unit**2, self.linf * unit, self.because)

    def __repr__(self) -> str:
        figures = f"l0={self.l0}, l1={format_number(self.l1)}, l2={self.l2:.6g}, linf={format_number(self.linf)}"
        return f"Sensitivity({figures}, because={self.because!r})"
