"""The normal quantile at every confidence that may be stated, also those next to 0 and to 1."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from sordino.core.estimates.weighted_sum import normal_quantile
from trying import examples

CONFIDENCES = st.floats(min_value=0, max_value=1, exclude_min=True, exclude_max=True) | st.sampled_from(
    [5e-324, 1 - 2**-53, 1 - 2**-52, 1 - 2**-51]
)


@examples(20, 100, CONFIDENCES, CONFIDENCES)
def test_it_is_finite_and_grows_with_the_confidence(one: float, other: float) -> None:
    low, high = sorted((one, other))
    assert 0 <= normal_quantile(low) <= normal_quantile(high) < 9


@given(CONFIDENCES)
def test_the_normal_law_lies_within_it_with_the_confidence(confidence: float) -> None:
    outside = math.erfc(normal_quantile(confidence) / math.sqrt(2))
    assert math.isclose(outside, 1 - confidence, rel_tol=0.6 if confidence > 1 - 1e-14 else 1e-2)
