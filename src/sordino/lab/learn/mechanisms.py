"""The mechanisms of the textbooks, bare: numbers in, noisy numbers out, to hold in the hand. NOT PRIVATE on real values.

They take plain numbers and floats, keep no account and know no table; what they return no ledger, report, server or assistant
takes. Questions of a table are asked with `table.ask`, whose noise is exact and whose cost is counted.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np

from sordino.core.accounting.gaussian_dp import analytic_gaussian_sigma
from sordino.core.arguments import amount, chance, whole
from sordino.core.errors import DeclarationError
from sordino.core.loss import Number, to_fraction
from sordino.core.noise.rng import Rng
from sordino.lab.learn.bare_noise import Floats, NoiseShape


class BareNumber(float):
    """A float that a bare mechanism returned, with the `noise` that went into it: NOT PRIVATE.

    It computes as a float does, and what is computed is a plain float.
    """

    noise: NoiseShape
    # by which `core.loss.to_fraction`, which reads every number that is declared, knows it
    not_private = True

    def __new__(cls, value: float, noise: NoiseShape) -> BareNumber:
        number = super().__new__(cls, value)
        number.noise = noise
        return number

    def __reduce__(self) -> Any:
        return BareNumber, (float(self), self.noise)


def laplace_noise(sensitivity: Number, epsilon: Number, *, discrete: bool = False) -> NoiseShape:
    """Return the noise of the Laplace mechanism: scale sensitivity / epsilon; `discrete` is the law over whole numbers.

    Dwork, McSherry, Nissim, Smith 2006, Proposition 1; over whole numbers Ghosh, Roughgarden, Sundararajan 2009.

    >>> laplace_noise(sensitivity=1, epsilon="1/2")
    Laplace noise of scale 2: standard deviation 2.83, 95% of draws within 5.99
    """
    scale = amount(sensitivity, name="sensitivity") / amount(epsilon, name="epsilon")
    return NoiseShape("discrete Laplace" if discrete else "Laplace", scale)


def gaussian_noise(
    sensitivity: Number, epsilon: Number, delta: Number, *, classic: bool = False, discrete: bool = False
) -> NoiseShape:
    """Return the noise of the Gaussian mechanism for an (epsilon, delta).

    The least sigma that is enough (Balle and Wang 2018, Algorithm 1), or, with `classic`, sensitivity
    sqrt(2 ln(1.25 / delta)) / epsilon (Dwork and Roth 2014, appendix A), which is proved for epsilon below 1 alone: raises
    DeclarationError beyond it. `discrete` is the law over whole numbers with that sigma.

    >>> round(gaussian_noise(1, 1, 1e-5).scale, 6), round(gaussian_noise(1, "0.999", 1e-5, classic=True).scale, 6)
    (3.730632, 4.849655)
    """
    moved = amount(sensitivity, name="sensitivity")
    loss = amount(epsilon, name="epsilon")
    failure = chance(delta, name="delta")
    if not classic:
        sigma = analytic_gaussian_sigma(loss, failure, moved)
    elif loss < 1:
        sigma = moved * math.sqrt(2 * math.log(1.25 / failure)) / loss
    else:
        raise DeclarationError(
            f"the classic sigma is proved for epsilon below 1 alone, not {loss:g}: leave out classic=True",
            key="epsilon",
        )
    return NoiseShape("discrete Gaussian" if discrete else "Gaussian", sigma)


def gaussian_noise_zcdp(sensitivity: Number, rho: Number) -> NoiseShape:
    """Return the noise of the Gaussian mechanism for a rho: sigma = sensitivity / sqrt(2 rho) (Bun and Steinke 2016).

    >>> gaussian_noise_zcdp(1, 0.5).scale
    1.0
    """
    return NoiseShape("Gaussian", amount(sensitivity, name="sensitivity") / math.sqrt(2 * amount(rho, name="rho")))


def laplace_mech(value: Number, sensitivity: Number, epsilon: Number, *, rng: Rng | None = None) -> BareNumber:
    """Return a number with Laplace noise of scale sensitivity / epsilon, drawn in floats: NOT PRIVATE.

    `rng` gives the bits (`sd.Rng.seeded(7)` the same ones for a whole room). Raises DeclarationError for what is no plain
    number: for a table, write `table.ask(sd.count(), epsilon=...)`.

    >>> laplace_mech(3650, sensitivity=1, epsilon=1, rng=Rng.seeded(7)).noise.scale
    1.0
    """
    return _add(value, laplace_noise(sensitivity, epsilon), rng)


def laplace_mech_vec(
    values: Iterable[Number], sensitivity: Number, epsilon: Number, *, rng: Rng | None = None
) -> Floats:
    """Return several numbers, each with Laplace noise of its own; `sensitivity` is that of all together, in the L1 norm."""
    return _add_all(values, laplace_noise(sensitivity, epsilon), rng)


def discrete_laplace_mech(value: Number, sensitivity: Number, epsilon: Number, *, rng: Rng | None = None) -> BareNumber:
    """Return a whole number with discrete Laplace noise (the geometric mechanism), drawn exactly. It counts no cost."""
    return _add(_whole(value), laplace_noise(_whole(sensitivity), epsilon, discrete=True), rng)


def gaussian_mech(
    value: Number,
    sensitivity: Number,
    epsilon: Number,
    delta: Number,
    *,
    classic: bool = False,
    rng: Rng | None = None,
) -> BareNumber:
    """Return a number with Gaussian noise for an (epsilon, delta), drawn in floats: NOT PRIVATE. See `gaussian_noise`."""
    return _add(value, gaussian_noise(sensitivity, epsilon, delta, classic=classic), rng)


def gaussian_mech_vec(
    values: Iterable[Number],
    sensitivity: Number,
    epsilon: Number,
    delta: Number,
    *,
    classic: bool = False,
    rng: Rng | None = None,
) -> Floats:
    """Return several numbers, each with Gaussian noise of its own; `sensitivity` is that of all, in the L2 norm."""
    return _add_all(values, gaussian_noise(sensitivity, epsilon, delta, classic=classic), rng)


def gaussian_mech_zcdp(value: Number, sensitivity: Number, rho: Number, *, rng: Rng | None = None) -> BareNumber:
    """Return a number with Gaussian noise for a rho, drawn in floats: NOT PRIVATE. See `gaussian_noise_zcdp`."""
    return _add(value, gaussian_noise_zcdp(sensitivity, rho), rng)


def discrete_gaussian_mech(
    value: Number, sensitivity: Number, epsilon: Number, delta: Number, *, rng: Rng | None = None
) -> BareNumber:
    """Return a whole number with discrete Gaussian noise, drawn exactly, of the continuous law's sigma.

    The law is exact, the calibration is not: over whole numbers that sigma can fall short (Canonne, Kamath, Steinke 2020),
    so that `table.ask` computes one for the discrete law.
    """
    return _add(_whole(value), gaussian_noise(_whole(sensitivity), epsilon, delta, discrete=True), rng)


def exponential_probabilities(
    scores: Sequence[Number], sensitivity: Number, epsilon: Number, *, monotone: bool = False
) -> Floats:
    """Return the probability of each candidate under the exponential mechanism: proportional to exp(epsilon score / 2 s).

    `monotone`: where a row can only raise scores, or only lower them, as counts under add/remove, the 2 goes. McSherry
    and Talwar 2007, section 3.

    >>> exponential_probabilities([14.976, 10.683, 4.443], 1, 1).round(4).tolist()
    [0.8912, 0.1042, 0.0046]
    """
    exponents = _scores(scores) * _rate(sensitivity, epsilon, monotone)
    weights = np.exp(exponents - exponents.max())
    return np.asarray(weights / weights.sum())


def exponential_mech(
    scores: Sequence[Number],
    sensitivity: Number,
    epsilon: Number,
    *,
    monotone: bool = False,
    rng: Rng | None = None,
) -> int:
    """Return the place of a candidate, drawn by the exponential mechanism in floats: NOT PRIVATE.

    >>> exponential_mech([0, 50, 3], 1, 1, rng=Rng.seeded(1))
    1
    """
    ends = np.cumsum(exponential_probabilities(scores, sensitivity, epsilon, monotone=monotone))
    return min(int(np.searchsorted(ends, _bits(rng).uniform_doubles(1)[0], side="right")), len(ends) - 1)


def report_noisy_max(
    scores: Sequence[Number],
    sensitivity: Number,
    epsilon: Number,
    *,
    monotone: bool = False,
    rng: Rng | None = None,
) -> int:
    """Return the place of the largest score after Laplace noise of scale 2 s / epsilon on each, in floats: NOT PRIVATE.

    Only the place is epsilon-private; the noisy scores are not (Dwork and Roth 2014, section 3.3). `monotone`: s / epsilon.

    >>> report_noisy_max([0, 500, 3], 1, 1, rng=Rng.seeded(1))
    1
    """
    noise = NoiseShape("Laplace", 1 / _rate(sensitivity, epsilon, monotone))
    numbers = _scores(scores)
    return int((numbers + noise.draw(_bits(rng), numbers.size)).argmax())


def randomized_response(answer: bool, epsilon: Number, *, rng: Rng | None = None) -> bool:
    """Return a yes or no that is the true one with probability e^epsilon / (1 + e^epsilon) (Warner 1965).

    The two coins of the textbooks are epsilon "ln3": true with probability 3/4. `sordino.local` has the survey.

    >>> [randomized_response(True, "ln3", rng=Rng.seeded(seed)) for seed in range(6)]
    [False, True, True, False, True, False]
    """
    if not isinstance(answer, bool | np.bool_):
        raise DeclarationError(f"answer must be True or False, not {type(answer).__name__}")
    rate = amount(epsilon, name="epsilon")
    truthful = bool(_bits(rng).uniform_doubles(1)[0] < 1 / (1 + math.exp(-rate)))
    return bool(answer) == truthful


def above_threshold(
    answers: Iterable[Number],
    threshold: Number,
    sensitivity: Number,
    epsilon: Number,
    *,
    rng: Rng | None = None,
) -> int | None:
    """Return the place of the first answer that is above the threshold, both noisy; None where none is. NOT PRIVATE.

    Noise of scale 2 s / epsilon on the threshold and 4 s / epsilon on each answer, for one price however many are below
    (Dwork and Roth 2014, section 3.6).

    >>> above_threshold([1, 2, 1000, 3], 100, 1, 1, rng=Rng.seeded(1))
    2
    """
    places = sparse_vector(answers, threshold, 1, sensitivity, epsilon, rng=rng)
    return places[0] if places else None


def sparse_vector(
    answers: Iterable[Number],
    threshold: Number,
    crossings: int,
    sensitivity: Number,
    epsilon: Number,
    *,
    rng: Rng | None = None,
) -> list[int]:
    """Return the places of the first `crossings` answers above the threshold: AboveThreshold so often, each at its share.

    The threshold's noise is drawn anew after each (Dwork and Roth 2014, section 3.6): scale 2 c s / epsilon, and
    4 c s / epsilon on each answer. NOT PRIVATE.

    >>> sparse_vector([1000, 2, 1000, 3], 100, 2, 1, 1, rng=Rng.seeded(1))
    [0, 2]
    """
    bits = _bits(rng)
    most = whole(crossings, name="crossings", least=1)
    scale = amount(sensitivity, name="sensitivity") * most / amount(epsilon, name="epsilon")
    mark = (
        float(to_fraction(threshold, name="threshold"))
        if isinstance(threshold, str)
        else _number(threshold, "threshold")
    )
    border, question = (NoiseShape("Laplace", width * scale) for width in (2, 4))
    places: list[int] = []
    noisy = mark + border.draw(bits, 1)[0]
    for place, answer in enumerate(answers):
        if _number(answer, "answers") + question.draw(bits, 1)[0] >= noisy:
            places.append(place)
            if len(places) == most:
                break
            noisy = mark + border.draw(bits, 1)[0]
    return places


def _add(value: Number, noise: NoiseShape, rng: Rng | None) -> BareNumber:
    return BareNumber(_number(value, "value") + float(noise.draw(_bits(rng), 1)[0]), noise)


def _add_all(values: Iterable[Number], noise: NoiseShape, rng: Rng | None) -> Floats:
    numbers = _scores(values, "values")
    return np.asarray(numbers + noise.draw(_bits(rng), numbers.size))


def _rate(sensitivity: Number, epsilon: Number, monotone: bool) -> float:
    return amount(epsilon, name="epsilon") / (amount(sensitivity, name="sensitivity") * (1 if monotone else 2))


def _bits(rng: Rng | None) -> Rng:
    if rng is None:
        return Rng.secure()
    if not isinstance(rng, Rng):
        raise DeclarationError(f"rng must be sd.Rng.seeded(7), or left out, not {type(rng).__name__}")
    return rng


def _scores(values: Any, name: str = "scores") -> Floats:
    """Return numbers as floats; a list, a tuple or a numpy array, and nothing that holds a table."""
    if not isinstance(values, list | tuple | range | np.ndarray):
        raise DeclarationError(f"{name} must be a list of plain numbers{_safe_way(values)}")
    numbers = [_number(value, name) for value in values]
    if not numbers:
        raise DeclarationError(f"{name} must hold at least one number")
    return np.array(numbers)


def _number(value: Any, name: str) -> float:
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | float | Fraction | Decimal | np.number):
        raise DeclarationError(f"{name} must be a plain number{_safe_way(value)}")
    number = float(value)
    if not math.isfinite(number):
        raise DeclarationError(f"{name} must be finite, not {number}")
    return number


def _whole(value: Any) -> Any:
    if _number(value, "value") != int(value):
        raise DeclarationError("a discrete mechanism takes whole numbers: round it, or use the continuous one")
    return int(value)


def _safe_way(value: Any) -> str:
    """Return what to write for a thing that is no number: a table is asked, never handed over."""
    kind = type(value).__name__
    if kind in ("Release", "Plan"):
        return f", not a {kind}: it is noisy already"
    return f", not {kind}: of a table, ask the question itself, as table.ask(sd.count(), epsilon=...), which is safe"
