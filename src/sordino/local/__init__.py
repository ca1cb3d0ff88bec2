"""The local model: each device randomises its own answer, and the collector never sees a true one.

    from sordino import local
    choice = local.best(labels, epsilon=1.0, respondents=100_000)
    reports = choice.perturb(answers, rng)               # on the devices
    estimate = choice.estimate(choice.count(reports))    # at the collector

Every name here is imported when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sordino.core.lazy import export_lazily

if TYPE_CHECKING:
    from sordino.local.collection_plan import CollectionPlan as CollectionPlan
    from sordino.local.collection_plan import ProtocolChoice as ProtocolChoice
    from sordino.local.collection_plan import best as best
    from sordino.local.collection_plan import plan_collection as plan_collection
    from sordino.local.collection_plan import respondents_needed as respondents_needed
    from sordino.local.device.client import Client as Client
    from sordino.local.device.client_ledger import ClientLedger as ClientLedger
    from sordino.local.device.delivery import NotDelivered as NotDelivered
    from sordino.local.estimates.frequency import FrequencyEstimate as FrequencyEstimate
    from sordino.local.estimates.mean import MeanEstimate as MeanEstimate
    from sordino.local.estimates.prefix_tree import HeavyHittersEstimate as HeavyHittersEstimate
    from sordino.local.estimates.regression import BloomEstimate as BloomEstimate
    from sordino.local.exactness import exact_epsilon as exact_epsilon
    from sordino.local.heavy_hitters_plan import HeavyHittersPlan as HeavyHittersPlan
    from sordino.local.heavy_hitters_plan import HeavyHittersSimulation as HeavyHittersSimulation
    from sordino.local.heavy_hitters_plan import plan_heavy_hitters as plan_heavy_hitters
    from sordino.local.heavy_hitters_plan import simulate_heavy_hitters as simulate_heavy_hitters
    from sordino.local.poisoning import attainable_shift as attainable_shift
    from sordino.local.poisoning import shape_test as shape_test
    from sordino.local.protocols.attributes import Attributes as Attributes
    from sordino.local.protocols.bloom import Bloom as Bloom
    from sordino.local.protocols.catalog import from_parameters as from_parameters
    from sordino.local.protocols.catalog import register_protocol as register_protocol
    from sordino.local.protocols.distribution import Distribution as Distribution
    from sordino.local.protocols.distribution import DistributionEstimate as DistributionEstimate
    from sordino.local.protocols.hadamard import Hadamard as Hadamard
    from sordino.local.protocols.hashing import BLH as BLH
    from sordino.local.protocols.hashing import OLH as OLH
    from sordino.local.protocols.heavy_hitters import HeavyHitters as HeavyHitters
    from sordino.local.protocols.memoization import Memoized as Memoized
    from sordino.local.protocols.memoization import memoize as memoize
    from sordino.local.protocols.numeric import Mean as Mean
    from sordino.local.protocols.randomizer import Randomizer as Randomizer
    from sordino.local.protocols.rappor import Rappor as Rappor
    from sordino.local.protocols.response import GRR as GRR
    from sordino.local.protocols.response import fair_coins as fair_coins
    from sordino.local.protocols.subset import SubsetSelection as SubsetSelection
    from sordino.local.protocols.summed_histogram import SHE as SHE
    from sordino.local.protocols.unary import OUE as OUE
    from sordino.local.protocols.unary import SUE as SUE
    from sordino.local.protocols.unary import THE as THE
    from sordino.local.protocols.unary import Unary as Unary
    from sordino.local.reports import Reports as Reports
    from sordino.local.reports import SupportCounts as SupportCounts
    from sordino.local.shuffle import shuffled as shuffled
    from sordino.local.simulation import CollectionSimulation as CollectionSimulation
    from sordino.local.simulation import pick_protocol as pick_protocol
    from sordino.local.simulation import simulate_collection as simulate_collection
    from sordino.local.task import SigningKey as SigningKey
    from sordino.local.task import Task as Task
    from sordino.local.task import create_task as create_task
    from sordino.local.task import read_task as read_task

_REMOVED = {
    "Pairs": "declare one label for each pair of values, and use a protocol of labels",
    "PairEstimate": "declare one label for each pair of values, and use a protocol of labels",
    "ProjectiveResponse": "use SubsetSelection, which has the same error",
}

__getattr__, __dir__, __all__ = export_lazily(__name__, removed=_REMOVED)
