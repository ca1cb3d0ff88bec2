"""`sordino epsilon`: its two commands, from a risk of possible worlds and from requirements taken together.

It never opens a table: universes, sizes, priors and row counts are public statements of whoever asks.
"""

from __future__ import annotations

from sordino.cli.epsilon.assess_worlds import worlds
from sordino.cli.epsilon.choose_interval import choose

__all__ = ["choose", "worlds"]
