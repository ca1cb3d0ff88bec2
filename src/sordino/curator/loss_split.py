"""What is asked about the split of a loss: weights, what errors are compared by, and stated sizes. It computes no share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Literal, TypeAlias, get_args

from sordino.errors import DeclarationError
from sordino.loss import Number, to_fraction

__all__ = ["EQUAL", "LossSplit", "Share", "Weights", "read_split"]

Share: TypeAlias = Literal["equal", "relative", "error"]
Weights: TypeAlias = Sequence[Number] | Mapping[str, Number]


@dataclass(frozen=True, slots=True)
class LossSplit:
    """State how a loss is split: in proportion to `weights`, or for the least weighted sum of errors.

    `share` is "equal", "error" (each error in its own unit) or "relative" (each divided by the size of its answer, which
    `scale` states by name). `exact` holds the shares of a plan that was made before, one an aggregate.
    """

    weights: tuple[Fraction, ...] | Mapping[str, Fraction] | None = None
    share: Share = "equal"
    scale: Mapping[str, Fraction] = field(default_factory=dict)
    exact: tuple[Fraction, ...] = ()

    @property
    def is_equal(self) -> bool:
        """Whether nothing but equal shares is asked for."""
        return self.weights is None and self.share == "equal" and not self.exact


EQUAL = LossSplit()


def read_split(*, weights: Weights | None, share: Share, scale: Mapping[str, Number] | None) -> LossSplit:
    """Return how `weights=`, `share=` and `scale=` split a loss; raises DeclarationError where they make no sense."""
    if share not in get_args(Share):
        raise DeclarationError(f'share is "equal", "relative" or "error", not {share!r}')
    if scale is not None and share != "relative":
        raise DeclarationError('scale states what errors are divided by: it goes with share="relative"')
    if scale is not None and not isinstance(scale, Mapping):
        raise DeclarationError('scale states sizes by name, such as scale={"income": 50000}')
    sizes = {name: _above_zero(size, name="scale") for name, size in (scale or {}).items()}
    if weights is None or isinstance(weights, Mapping):
        stated = None if weights is None else {name: _above_zero(w, name="weights") for name, w in weights.items()}
        return LossSplit(stated, share, sizes)
    if isinstance(weights, (str, bytes)) or not isinstance(weights, Sequence):
        raise DeclarationError('weights are numbers in order, or by name, such as weights={"n": 1, "total": 3}')
    return LossSplit(tuple(_above_zero(w, name="weights") for w in weights), share, sizes)


def _above_zero(value: Any, *, name: str) -> Fraction:
    found = to_fraction(value, name=name)
    if found <= 0:
        raise DeclarationError("must be above 0", key=name)
    return found
