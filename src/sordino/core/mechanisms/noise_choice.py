"""Which noise has the least error for a loss: one mechanism a vector, of Sordino's own and those registered from outside."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction

from sordino.core.accounting.events import Composed, GaussianEvent
from sordino.core.accounting.gaussian_dp import gaussian_rho_for
from sordino.core.accounting.zcdp import rho_for
from sordino.core.errors import DeclarationError
from sordino.core.loss import ZCDP, ApproxDP, Event, Loss, PureDP
from sordino.core.mechanisms.additive_noise import (
    Gaussian,
    Laplace,
    Mechanism,
    Staircase,
    gaussian_for_gdp,
    gaussian_for_pair,
    gaussian_for_rho,
)
from sordino.core.neighbors import Sensitivity
from sordino.core.registration import check_registering

NoiseChoice = tuple[list[Mechanism], Event]
Maker = Callable[[Sensitivity, PureDP | ZCDP], Mechanism | None]
_CONFIDENCE = 0.95
# Staircase noise of a smaller gain is left: below an epsilon of about 1.4 a deviation falls by less than 4%.
_MUCH_LESS = 0.92

_REGISTERED: list[Maker] = []


def register_noise(maker: Maker) -> None:
    """Offer a mechanism from outside wherever Sordino adds noise for an epsilon or a rho.

    `maker` gets a vector's sensitivity, in whole steps, and the loss that is the vector's own; it returns a mechanism
    that costs no more, or None where it has none. It sees public parameters alone. Where its error at 95% is below that of
    every mechanism before it, it is used; its `law` must be registered in `estimates.noisy.LAWS` and its event by
    `register_event`, so that releases can be stored and read again. Raises DeclarationError once a table is open.
    """
    check_registering(maker, "a mechanism")
    _REGISTERED.append(maker)


def cheapest(parts: Sequence[tuple[Sensitivity, Fraction]], loss: Loss, *, sums_epsilon: bool = False) -> NoiseChoice:
    """Return one mechanism a part, and the event they amount to together, for this loss.

    `parts` gives each vector's sensitivity, in whole steps of its lattice, and its share of the loss; shares of those
    that need noise sum to 1. Pure losses get Laplace, rho gets the Gaussian (its l2 error is below Laplace's at the same
    rho), and (epsilon, delta) whichever errs less at 95%: for one number Laplace wins unless delta is large.

    `sums_epsilon` says that only epsilon and delta are summed, and there is no sample. Vectors of which one number moves by
    several steps then get staircase noise in place of Laplace noise where that gains most: its rho is larger. A mechanism whose
    event has no rho may be offered there alone, since a cap on rho refuses it.

    For rho, all parts may state one `joint` factor J, which says that every change d that a unit makes has
    sum of share |d_i|^2 / l2_i^2 <= J times the sum of shares. Theorem: Gaussian noise of rho share / J in each vector costs rho
    times the sum of shares. Proof: independent noise moved by d_i in each vector has the divergence of order a of at most
    a |d_i|^2 / (2 sigma_i^2), and divergences of independent vectors add up; sigma_i^2 is J l2_i^2 / (2 rho share).
    """
    if isinstance(loss, PureDP):
        return _pure(parts, loss.epsilon, sums_epsilon=sums_epsilon)
    if isinstance(loss, ApproxDP):
        pure = _pure(parts, loss.epsilon, sums_epsilon=sums_epsilon)
        if loss.delta == 0 or not any(share for _, share in parts):
            return pure
        smooth = _pair(parts, loss)
        # a vector that no unit can move has no noise in either, and no say
        ratios = [
            b.law.error(_CONFIDENCE) / max(1, a.law.error(_CONFIDENCE))
            for a, b, (sensitivity, _) in zip(pure[0], smooth[0], parts, strict=True)
            if sensitivity.l1
        ]
        return smooth if sum(ratios) < len(ratios) else pure
    joint = _joint(parts)
    mechanisms = [_least(_gaussian(s, loss.rho * share / joint), s, ZCDP, loss.rho * share) for s, share in parts]
    if joint < 1:
        return mechanisms, GaussianEvent(loss.rho * sum(share for _, share in parts))
    return mechanisms, _event([m.event for m in mechanisms])


def smooth_vectors(parts: Sequence[tuple[Sensitivity, Fraction]], rho: Fraction) -> NoiseChoice:
    """Return Gaussian noise a part, together sqrt(2 rho)-GDP: squares of mu add up (Dong, Roth, Su 2022, Corollary 3.3).

    Where a sigma would be below a step, noise of about a step is drawn: less is lost than is paid. A `joint` factor counts as in
    `cheapest`: moved by d_i, a vector's noise is |d_i| / l2_i times as easy to distinguish as moved by l2_i.
    """
    mechanisms: list[Mechanism] = []
    joint = _joint(parts)
    for sensitivity, share in parts:
        budget = min(rho * share / joint, sensitivity.l2_squared / 2)
        concentrated = _gaussian(sensitivity, budget)
        smooth = gaussian_for_gdp(concentrated, budget) if isinstance(concentrated, Gaussian) else None
        mechanisms.append(concentrated if smooth is None else smooth)
    if joint < 1:
        return mechanisms, GaussianEvent(rho * sum(share for _, share in parts))
    return mechanisms, _event([m.event for m in mechanisms])


def _joint(parts: Sequence[tuple[Sensitivity, Fraction]]) -> Fraction:
    """Return the factor that all parts state; raises DeclarationError where they state several, or one outside of (0, 1]."""
    factors = {sensitivity.joint for sensitivity, _ in parts}
    if len(factors) > 1 or any(not 0 < factor <= 1 for factor in factors):
        raise DeclarationError("vectors that are bounded together state one joint factor, above 0 and at most 1")
    return next(iter(factors), Fraction(1))


def _pure(parts: Sequence[tuple[Sensitivity, Fraction]], epsilon: Fraction, *, sums_epsilon: bool) -> NoiseChoice:
    # Many tables often have one sensitivity and one share: they use one mechanism.
    alike: dict[tuple[Sensitivity, Fraction], Mechanism] = {}
    for sensitivity, share in parts:
        if (sensitivity, share) not in alike:
            budget = epsilon * share if sensitivity.l1 else epsilon
            ours = _pure_mechanism(sensitivity, budget, sums_epsilon=sums_epsilon)
            alike[sensitivity, share] = _least(ours, sensitivity, PureDP, budget)
    mechanisms = [alike[part] for part in parts]
    return mechanisms, _event([m.event for m in mechanisms])


def _pure_mechanism(sensitivity: Sensitivity, epsilon: Fraction, *, sums_epsilon: bool) -> Mechanism:
    """Return Laplace noise, or staircase noise where one whole number moves and that has much less variance and no more error."""
    laplace = Laplace(sensitivity.l1, epsilon)
    steps = sensitivity.l1
    if not sums_epsilon or sensitivity.l0 != 1 or sensitivity.joint != 1 or steps.denominator != 1 or steps <= 1:
        return laplace
    stairs = Staircase(int(steps), epsilon)
    less = stairs.law.variance() <= _MUCH_LESS * laplace.law.variance()
    return stairs if less and stairs.law.error(_CONFIDENCE) <= laplace.law.error(_CONFIDENCE) else laplace


def _pair(parts: Sequence[tuple[Sensitivity, Fraction]], loss: ApproxDP) -> NoiseChoice:
    noisy = [s for s, share in parts if share]
    # one number alone is calibrated on its own discrete law, which needs less noise than a vector's bound
    if len(noisy) == 1 and noisy[0].l0 == 1:
        mechanisms: list[Mechanism] = [
            gaussian_for_pair(shift=int(s.linf), epsilon=loss.epsilon, delta=loss.delta)
            if share
            else _gaussian(s, share)
            for s, share in parts
        ]
        return mechanisms, _event([m.event for m in mechanisms])
    mechanisms = _vectors(parts, loss)
    return mechanisms, Composed(tuple(m.event for m in mechanisms), (loss.epsilon, loss.delta))


def _vectors(parts: Sequence[tuple[Sensitivity, Fraction]], loss: ApproxDP) -> list[Mechanism]:
    """Return Gaussian noise of all vectors, calibrated as Gaussian DP, else as zCDP where its sigma is below a step.

    Both sum over vectors and hold by themselves: the one with less noise is certified.
    """
    concentrated = rho_for(loss.epsilon, loss.delta)
    mechanisms = [_gaussian(s, concentrated * share) for s, share in parts]
    budget = gaussian_rho_for(loss.epsilon, loss.delta)
    smooth = [
        gaussian_for_gdp(m, budget * share) if isinstance(m, Gaussian) else m
        for m, (_, share) in zip(mechanisms, parts, strict=True)
    ]
    better = [m for m in smooth if m is not None]
    if len(better) < len(mechanisms) or any(
        b.law.variance() > m.law.variance() for b, m in zip(better, mechanisms, strict=True)
    ):
        return mechanisms
    return better


def _gaussian(sensitivity: Sensitivity, rho: Fraction) -> Mechanism:
    if sensitivity.l2_squared == 0:
        return Laplace(Fraction(0), Fraction(1))
    steps = sensitivity.linf
    alike = steps.denominator == 1 and sensitivity.l0 * steps**2 == sensitivity.l2_squared
    moved = (sensitivity.l0, int(steps)) if alike else None
    return gaussian_for_rho(l2_squared=sensitivity.l2_squared, rho=rho, moved=moved)


def _event(events: list[Event]) -> Event:
    return events[0] if len(events) == 1 else Composed(tuple(events))


def _least(ours: Mechanism, sensitivity: Sensitivity, kind: type[PureDP | ZCDP], amount: Fraction) -> Mechanism:
    """Return the mechanism of least error at 95% among our own and the registered ones; ties go to the earlier.

    Raises DeclarationError where a registered one costs more than the loss: it would err less because it reveals more.
    """
    # A registered mechanism is priced by what one vector moves: it may not be so for several that move together.
    if not _REGISTERED or not sensitivity.l1 or sensitivity.joint != 1:
        return ours
    loss = kind(amount)
    offers = [offer for maker in _REGISTERED if (offer := maker(sensitivity, loss)) is not None]
    for offer in offers:
        cost = offer.event.pure() if isinstance(loss, PureDP) else offer.event.rho()
        if cost is None or cost > amount:
            raise DeclarationError(
                f"a registered mechanism, {offer.describe()}, costs more than {loss.describe()}, its loss here: its "
                "maker returns None where it has none for a loss"
            )
    return min([ours, *offers], key=lambda mechanism: mechanism.law.error(_CONFIDENCE))
