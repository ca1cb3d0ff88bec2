"""Protocols by name: made for labels and an epsilon, or made again of their public parameters.

It may not know tasks: whoever signed the parameters is checked elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from sordino.errors import DeclarationError, nearest
from sordino.local.labels import Labels, check_labels
from sordino.local.protocols.hadamard import Hadamard
from sordino.local.protocols.hashing import BLH, OLH
from sordino.local.protocols.heavy_hitters import HeavyHitters
from sordino.local.protocols.projective import ProjectiveResponse
from sordino.local.protocols.rappor import Rappor
from sordino.local.protocols.response import GRR
from sordino.local.protocols.subset import SubsetSelection
from sordino.local.protocols.summed_histogram import SHE
from sordino.local.protocols.unary import OUE, SUE, THE, Unary
from sordino.local.thresholds import BITS
from sordino.loss import Number

__all__ = ["MAKERS", "PROTOCOLS", "Protocols", "from_parameters", "make_protocol"]

Protocols = GRR | Unary | OLH | Hadamard | SubsetSelection | ProjectiveResponse | Rappor | SHE

PROTOCOLS: dict[str, type[Protocols | HeavyHitters]] = {
    "grr": GRR,
    "unary": Unary,
    "olh": OLH,
    "hadamard": Hadamard,
    "subset": SubsetSelection,
    "projective": ProjectiveResponse,
    "rappor": Rappor,
    "heavy_hitters": HeavyHitters,
    "histogram": SHE,
}
MAKERS: dict[str, Callable[..., Protocols]] = {  # of labels and epsilon alone, the simplest first
    "grr": GRR,
    "hadamard": Hadamard,
    "olh": OLH,
    "sue": SUE,
    "oue": OUE,
    "subset": SubsetSelection,
    "projective": ProjectiveResponse,
    "blh": BLH,
    "the": THE,
    "she": SHE,
}


def make_protocol(method: str, labels: Labels, *, epsilon: Number) -> Protocols:
    """Return the protocol of this name for labels and an epsilon; raises DeclarationError for another name.

    >>> make_protocol("olh", range(14), epsilon=1).name
    'OLH'
    """
    if method not in MAKERS:
        raise DeclarationError(f"{method!r} is not a protocol of the local model; {nearest(str(method), MAKERS)}")
    return MAKERS[method](labels, epsilon=epsilon)


def from_parameters(parameters: Mapping[str, Any], labels: Labels) -> Protocols | HeavyHitters:
    """Return the protocol that wrote these parameters, for these labels.

    Every field is checked: the kind is known, the labels have the stated number and hash, thresholds are of 32 bits,
    and the epsilon that follows from them is at most the stated one. Raises DeclarationError where one is not so.

    >>> made = from_parameters(GRR(["yes", "no"], epsilon=1).parameters(), ["yes", "no"])
    >>> made == GRR(["yes", "no"], epsilon=1)
    True
    """
    kind, kept = str(parameters.get("kind")), check_labels(labels)
    if kind not in PROTOCOLS:
        raise DeclarationError(f"{kind!r} is not a protocol of the local model; {nearest(kind, PROTOCOLS)}")
    if parameters.get("bits") != BITS:
        raise DeclarationError(f"thresholds must be of {BITS} bits")
    if not isinstance(parameters.get("epsilon"), str):
        raise DeclarationError('epsilon must be text such as "1" or "1/3"')
    made = PROTOCOLS[kind].from_parameters(dict(parameters), kept)
    if made.parameters() != dict(parameters):
        wrong = sorted(n for n in {*made.parameters(), *parameters} if made.parameters().get(n) != parameters.get(n))
        raise DeclarationError(f"these parameters do not fit the labels or each other: {', '.join(wrong)}")
    return made
