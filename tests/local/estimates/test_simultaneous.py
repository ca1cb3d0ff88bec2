"""Intervals of all labels at once: how often every one of them holds."""

from __future__ import annotations

import numpy as np
import pyarrow.compute as pc
import pytest

from sordino import local
from sordino.core.noise.rng import Rng

LABELS = [f"label {i}" for i in range(20)]


@pytest.mark.deep
@pytest.mark.parametrize("about", ["respondents", "population"])
def test_all_labels_hold_at_once_as_often_as_promised(about: str) -> None:
    """20 labels, 400 rounds: each by itself fails for some label in most rounds; together in about 5%; 4.5 deviations."""
    protocol = local.GRR(LABELS, epsilon=2)
    answers = [LABELS[i * i % 20] for i in range(800)]
    truth = np.array([answers.count(label) / len(answers) for label in LABELS])
    rng, rounds = Rng.seeded(41), 400
    hold = {True: 0, False: 0}
    for _ in range(rounds):
        estimate = protocol.estimate(protocol.count(protocol.perturb(answers, rng)))
        for together in hold:
            ends = estimate.interval(0.95, about=about, simultaneous=together)
            low, high = (ends[name].to_numpy() for name in ("lower", "upper"))
            hold[together] += bool(((low <= truth) & (truth <= high)).all())
    assert hold[True] / rounds >= 0.95 - 4.5 * (0.95 * 0.05 / rounds) ** 0.5
    assert hold[False] / rounds < 0.8


def test_one_label_is_as_wide_as_by_itself_and_many_are_wider() -> None:
    protocol = local.GRR(LABELS, epsilon=1)
    estimate = protocol.estimate(protocol.count(protocol.perturb(LABELS * 50, Rng.seeded(2))))
    alone, together = (estimate.interval(0.95, simultaneous=s) for s in (False, True))
    widths = [pc.subtract(t["upper"], t["lower"]).to_numpy() for t in (alone, together)]
    assert (widths[1] >= widths[0]).all()
    assert widths[1].max() > 1.3 * widths[0].max()
