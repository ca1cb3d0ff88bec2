"""The kinds of arrays that synthesizers compute with: floats for counts and shares, whole numbers for keys and codes."""

from __future__ import annotations

from typing import Any

import numpy as np

Floats = np.ndarray[Any, np.dtype[np.float64]]
Codes = np.ndarray[Any, np.dtype[np.int64]]
