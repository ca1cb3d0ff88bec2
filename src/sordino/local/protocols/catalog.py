"""The protocols of the local model by name: the one place that lists them, for Python, the command line, tasks and pages.

A protocol from outside joins by `register_protocol`, in the process that makes or reads its reports. This module knows no
tasks: whoever signed the parameters is checked elsewhere.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from sordino.core.errors import DeclarationError, nearest
from sordino.core.registration import check_registering

if TYPE_CHECKING:
    from sordino.core.loss import Number
    from sordino.local.labels import Labels
    from sordino.local.protocols.heavy_hitters import HeavyHitters
    from sordino.local.protocols.randomizer import Randomizer

# Text names a class that is imported when it is first used, since the command line lists the names without numpy.
PROTOCOLS: dict[str, str | type[Any]] = {
    "grr": "sordino.local.protocols.response.GRR",
    "unary": "sordino.local.protocols.unary.Unary",
    "olh": "sordino.local.protocols.hashing.OLH",
    "hadamard": "sordino.local.protocols.hadamard.Hadamard",
    "subset": "sordino.local.protocols.subset.SubsetSelection",
    "rappor": "sordino.local.protocols.rappor.Rappor",
    "heavy_hitters": "sordino.local.protocols.heavy_hitters.HeavyHitters",
    "histogram": "sordino.local.protocols.summed_histogram.SHE",
}

# Protocols of labels and an epsilon alone, the simplest first: `best` prefers the earlier of two that are as good.
MAKERS: dict[str, str | Callable[..., Any]] = {
    "grr": "sordino.local.protocols.response.GRR",
    "hadamard": "sordino.local.protocols.hadamard.Hadamard",
    "olh": "sordino.local.protocols.hashing.OLH",
    "sue": "sordino.local.protocols.unary.SUE",
    "oue": "sordino.local.protocols.unary.OUE",
    "subset": "sordino.local.protocols.subset.SubsetSelection",
    "blh": "sordino.local.protocols.hashing.BLH",
    "the": "sordino.local.protocols.unary.THE",
    "she": "sordino.local.protocols.summed_histogram.SHE",
}

# Of the makers, those whose answers `memoize` can make permanent.
PERMANENT = ("grr", "sue", "oue", "the")

REMOVED = {"projective": "projective-geometry response was removed: subset selection has the same error"}


def register_protocol(kind: str, protocol: type[Any], *, makers: Mapping[str, Callable[..., Any]]) -> None:
    """Add a protocol from outside: a class that is a `Randomizer` with `from_parameters`, read back by its `kind`.

    `makers` maps each name by which people ask for it to a function of labels and `epsilon=`; each joins `best`. Its
    reports are written under `protocol.number`, which must be 128 to 255: lower numbers are Sordino's own. With
    `on_device = True` it has `perturb_words(number, words)`, and a `Client` answers its tasks.

    Raises DeclarationError where a name is taken, or the class states another kind or such a number, and once a table is
    open.
    """
    taken = sorted({kind} & PROTOCOLS.keys() | makers.keys() & MAKERS.keys())
    if taken:
        raise DeclarationError(f"{', '.join(taken)}: a protocol of this name exists; choose another name")
    if protocol.kind != kind or not 128 <= protocol.number <= 255:
        raise DeclarationError(
            f"a registered protocol states its kind, here {kind!r}, and a number from 128 to 255 for its reports"
        )
    check_registering(protocol, f"protocol {kind!r}")
    PROTOCOLS[kind] = protocol
    MAKERS.update(makers)


def make_protocol(method: str, labels: Labels, *, epsilon: Number) -> Randomizer:
    """Return the protocol of this name for labels and an epsilon; raises DeclarationError for another name.

    >>> make_protocol("olh", range(14), epsilon=1).name
    'OLH'
    """
    protocol: Randomizer = _load(MAKERS, method)(labels, epsilon=epsilon)
    return protocol


def device_protocols() -> list[str]:
    """Return the kinds of protocol that a person's device answers, one label at a time and more than once.

    >>> device_protocols()
    ['grr', 'unary', 'histogram']
    """
    return [kind for kind in PROTOCOLS if getattr(_load(PROTOCOLS, kind), "on_device", False)]


def from_parameters(parameters: Mapping[str, Any], labels: Labels) -> Randomizer | HeavyHitters:
    """Return the protocol that wrote these parameters, for these labels.

    Every field is checked: the kind is known, the labels have the stated number and hash, thresholds are of 32 bits,
    and the epsilon that follows from them is at most the stated one. Raises DeclarationError where one is not so.

    >>> from sordino.local.protocols.response import GRR
    >>> protocol = from_parameters(GRR(["yes", "no"], epsilon=1).parameters(), ["yes", "no"])
    >>> protocol == GRR(["yes", "no"], epsilon=1)
    True
    """
    from sordino.local.labels import check_labels
    from sordino.local.thresholds import BITS

    protocol_class = _load(PROTOCOLS, str(parameters.get("kind")))
    checked_labels = check_labels(labels)
    if parameters.get("bits") != BITS:
        raise DeclarationError(f"thresholds must be of {BITS} bits")
    if not isinstance(parameters.get("epsilon"), str):
        raise DeclarationError('epsilon must be text such as "1" or "1/3"')
    protocol: Randomizer | HeavyHitters = protocol_class.from_parameters(dict(parameters), checked_labels)
    recomputed = protocol.parameters()
    if recomputed != dict(parameters):
        wrong = sorted(name for name in {*recomputed, *parameters} if recomputed.get(name) != parameters.get(name))
        raise DeclarationError(f"these parameters do not fit the labels or each other: {', '.join(wrong)}")
    return protocol


def _load(table: Mapping[str, Any], name: str) -> Any:
    if name in REMOVED:
        raise DeclarationError(REMOVED[name])
    if name not in table:
        raise DeclarationError(f"{name!r} is not a protocol of the local model; {nearest(str(name), table)}")
    entry = table[name]
    if not isinstance(entry, str):
        return entry
    module, _, attribute = entry.rpartition(".")
    return getattr(importlib.import_module(module), attribute)
