"""Synthetic data: tables of the same shape that answer the questions of the original, at a stated loss.

    model = sd.synth.fit(adult, epsilon=1.0, delta=1e-9)
    model.sample(rows=100_000); model.answer(sd.count()); model.save("adult.model")

Every name is imported when it is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sordino.synth.answers import Answered as Answered
    from sordino.synth.comparison import compare_frames as compare_frames
    from sordino.synth.comparison import percent_error as percent_error
    from sordino.synth.constraints import at_most as at_most
    from sordino.synth.constraints import determines as determines
    from sordino.synth.constraints import never as never
    from sordino.synth.evaluation import Evaluation as Evaluation
    from sordino.synth.evaluation import evaluate as evaluate
    from sordino.synth.fitting import AIM as AIM
    from sordino.synth.fitting import MST as MST
    from sordino.synth.fitting import Independent as Independent
    from sordino.synth.fitting import Marginals as Marginals
    from sordino.synth.fitting import Tree as Tree
    from sordino.synth.fitting import fit as fit
    from sordino.synth.histogram import Histogram as Histogram
    from sordino.synth.histogram import Representation as Representation
    from sordino.synth.model import Model as Model
    from sordino.synth.model import load as load
    from sordino.synth.ranges import RangePlan as RangePlan
    from sordino.synth.ranges import plan_ranges as plan_ranges

_EXPORTS = {
    "AIM": "sordino.synth.fitting",
    "Answered": "sordino.synth.answers",
    "Evaluation": "sordino.synth.evaluation",
    "Histogram": "sordino.synth.histogram",
    "Independent": "sordino.synth.fitting",
    "MST": "sordino.synth.fitting",
    "Marginals": "sordino.synth.fitting",
    "Model": "sordino.synth.model",
    "RangePlan": "sordino.synth.ranges",
    "Representation": "sordino.synth.histogram",
    "Tree": "sordino.synth.fitting",
    "at_most": "sordino.synth.constraints",
    "compare_frames": "sordino.synth.comparison",
    "determines": "sordino.synth.constraints",
    "evaluate": "sordino.synth.evaluation",
    "fit": "sordino.synth.fitting",
    "load": "sordino.synth.model",
    "never": "sordino.synth.constraints",
    "percent_error": "sordino.synth.comparison",
    "plan_ranges": "sordino.synth.ranges",
}

__all__ = [
    "AIM",
    "MST",
    "Answered",
    "Evaluation",
    "Histogram",
    "Independent",
    "Marginals",
    "Model",
    "RangePlan",
    "Representation",
    "Tree",
    "at_most",
    "compare_frames",
    "determines",
    "evaluate",
    "fit",
    "load",
    "never",
    "percent_error",
    "plan_ranges",
]


def __getattr__(name: str) -> Any:
    if name in _EXPORTS:
        return getattr(importlib.import_module(_EXPORTS[name]), name)
    raise AttributeError(f"sordino.synth has no {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
