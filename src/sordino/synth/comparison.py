"""One question put to two frames, and how far the answers are apart. NOT PRIVATE where a frame holds raw rows."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import SupportsFloat, TypeVar

from sordino.core.errors import DeclarationError

Frame = TypeVar("Frame")


def percent_error(true: SupportsFloat, private: SupportsFloat) -> float:
    """Return abs(true - private) / abs(true) as a percentage; infinite where the truth is 0 and the other is not.

    A range of a histogram, or a released value, stands for its number.

    >>> percent_error(200, 190)
    5.0
    """
    truth = float(true)
    answer = float(private)
    if not (math.isfinite(truth) and math.isfinite(answer)):
        raise DeclarationError("a percent error is of two finite numbers")
    if truth == 0:
        return 0.0 if answer == 0 else math.inf
    return 100.0 * abs(truth - answer) / abs(truth)


def compare_frames(query: Callable[[Frame], float], *, original: Frame, synthetic: Frame) -> float:
    """Return the percent error of a question on synthetic rows: the query runs on each frame that it is given.

    NOT PRIVATE where `original` holds raw rows: publish nothing of it.

    >>> compare_frames(len, original=[1, 2, 3, 4], synthetic=[1, 2, 3])
    25.0
    """
    return percent_error(float(query(original)), float(query(synthetic)))
