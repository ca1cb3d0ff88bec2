"""Independent: one-way counts of every column, drawn separately; correlation is lost, so nothing of it is paid for."""

from __future__ import annotations

from collections.abc import Sequence

from sordino.noise.rng import Rng
from sordino.synth.access import Data
from sordino.synth.columns import Keyed
from sordino.synth.outcome import Outcome, independent_outcome
from sordino.synth.session import Session, steadier

__all__ = ["fit_independent"]


def fit_independent(data: Data, columns: Sequence[Keyed], *, reserve: float, rng: Rng) -> Outcome:
    """Return the independent model, all but `reserve` of the loss spent on one-way counts; reserve is asked for after."""
    from sordino.synth.budget import share_of

    session = Session(data, steadier(data, [c.size for c in columns]), rng)
    return independent_outcome(session.ways(columns, 1 - share_of(reserve)), "independent columns")
