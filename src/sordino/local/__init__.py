"""The local model: each device randomises its own answer, and the collector never sees a true one.

    from sordino import local
    choice = local.best(labels, epsilon=1.0, respondents=100_000)
    reports = choice.perturb(answers, rng)               # on the devices
    estimate = choice.estimate(choice.count(reports))    # at the collector

Every name here is imported when it is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sordino.local.choice import Choice as Choice
    from sordino.local.choice import best as best
    from sordino.local.choice import respondents_needed as respondents_needed
    from sordino.local.device.client import Device as Device
    from sordino.local.device.client_ledger import Lifetime as Lifetime
    from sordino.local.estimates.frequency import Estimate as Estimate
    from sordino.local.estimates.mean import MeanEstimate as MeanEstimate
    from sordino.local.estimates.regression import BloomEstimate as BloomEstimate
    from sordino.local.exactness import exact_epsilon as exact_epsilon
    from sordino.local.poisoning import attainable_shift as attainable_shift
    from sordino.local.poisoning import shape_test as shape_test
    from sordino.local.protocols.attributes import Attributes as Attributes
    from sordino.local.protocols.bloom import Bloom as Bloom
    from sordino.local.protocols.catalog import from_parameters as from_parameters
    from sordino.local.protocols.distribution import Distribution as Distribution
    from sordino.local.protocols.distribution import DistributionEstimate as DistributionEstimate
    from sordino.local.protocols.hadamard import Hadamard as Hadamard
    from sordino.local.protocols.hashing import OLH as OLH
    from sordino.local.protocols.memoization import TwoRounds as TwoRounds
    from sordino.local.protocols.memoization import two_rounds as two_rounds
    from sordino.local.protocols.numeric import Mean as Mean
    from sordino.local.protocols.randomizer import Randomizer as Randomizer
    from sordino.local.protocols.rappor import Rappor as Rappor
    from sordino.local.protocols.response import GRR as GRR
    from sordino.local.protocols.response import fair_coins as fair_coins
    from sordino.local.protocols.subset import SubsetSelection as SubsetSelection
    from sordino.local.protocols.unary import OUE as OUE
    from sordino.local.protocols.unary import SUE as SUE
    from sordino.local.protocols.unary import Unary as Unary
    from sordino.local.reports import Reports as Reports
    from sordino.local.reports import SupportCounts as SupportCounts
    from sordino.local.shuffle import shuffled as shuffled
    from sordino.local.task import SigningKey as SigningKey
    from sordino.local.task import Task as Task
    from sordino.local.task import create_task as create_task
    from sordino.local.task import read_task as read_task

_EXPORTS = {
    "Attributes": "attributes",
    "Bloom": "bloom",
    "BloomEstimate": "regression",
    "Choice": "choice",
    "Device": "longitudinal",
    "Distribution": "distribution",
    "DistributionEstimate": "distribution",
    "Estimate": "frequency",
    "GRR": "response",
    "Hadamard": "hadamard",
    "Lifetime": "lifetime",
    "Mean": "numeric",
    "MeanEstimate": "average",
    "OLH": "hashing",
    "OUE": "unary",
    "Randomizer": "randomizer",
    "Rappor": "rappor",
    "Reports": "reports",
    "SUE": "unary",
    "SigningKey": "task",
    "SubsetSelection": "subset",
    "SupportCounts": "reports",
    "Task": "task",
    "TwoRounds": "rounds",
    "Unary": "unary",
    "attainable_shift": "poisoning",
    "best": "choice",
    "create_task": "task",
    "exact_epsilon": "exactness",
    "fair_coins": "response",
    "from_parameters": "catalog",
    "read_task": "task",
    "respondents_needed": "choice",
    "shape_test": "poisoning",
    "shuffled": "shuffle",
    "two_rounds": "rounds",
}

__all__ = [
    "GRR",
    "OLH",
    "OUE",
    "SUE",
    "Attributes",
    "Bloom",
    "BloomEstimate",
    "Choice",
    "Device",
    "Distribution",
    "DistributionEstimate",
    "Estimate",
    "Hadamard",
    "Lifetime",
    "Mean",
    "MeanEstimate",
    "Randomizer",
    "Rappor",
    "Reports",
    "SigningKey",
    "SubsetSelection",
    "SupportCounts",
    "Task",
    "TwoRounds",
    "Unary",
    "attainable_shift",
    "best",
    "create_task",
    "exact_epsilon",
    "fair_coins",
    "from_parameters",
    "read_task",
    "respondents_needed",
    "shape_test",
    "shuffled",
    "two_rounds",
]


def __getattr__(name: str) -> Any:
    if name not in _EXPORTS:
        raise AttributeError(f"module 'sordino.local' has no attribute {name!r}")
    found = getattr(importlib.import_module(f"sordino.local.{_EXPORTS[name]}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted(__all__)
