"""Global and local sensitivity over a finite universe, with the pair of tables that attains them.

It chooses the algorithm and evaluates the witness; the algorithms are in `local`, `worst_table`, `variance` and
`check`. It may not know engines, columns or budgets: universe and size are public, and a local sensitivity is not.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from sordino.errors import DeclarationError
from sordino.sensitivity.check import cost, enumerated
from sordino.sensitivity.local import farthest_neighbor
from sordino.sensitivity.moves import Moves, moves_from
from sordino.sensitivity.statistic import Statistic, statistic_from
from sordino.sensitivity.universe import Floats, Places, places_of, size_in, universe_from
from sordino.sensitivity.variance import Extreme, largest_std, largest_variance_change
from sordino.sensitivity.worst_table import farthest_pair

__all__ = ["PAIRS_ENUMERATED", "Change", "global_sensitivity", "local_sensitivity"]

PAIRS_ENUMERATED = 4_000_000  # pairs of tables that are compared one by one where there is no proof
