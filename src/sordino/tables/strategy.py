"""What to measure so that a set of tables has the least error: residuals under Gaussian noise, marginals under Laplace.

A table is a sorted tuple of axes, and () is the total. Everything here is a function of the numbers of keys and of the tables
wanted; it sees no data and no noise.

Every table splits into orthogonal parts, one for each subset A of its axes: what the marginal on A says beyond its own
margins. A part has the same variance in each cell of its marginal, so the variance of a cell of a table T is

    sum over A within T of  s_A * product over A of (1 - 1/m) * product over T without A of 1/m^2

where m is the number of keys of an axis, and s_A is the variance with which a cell of the marginal on A is known, as far as
its part A goes. Which s_A the noise gives, and what it costs, is all that a strategy decides.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from sordino.ask.queries.tabulation import Objective
from sordino.core.errors import DeclarationError
from sordino.core.neighbors import Relation
from sordino.tables.range_basis import RangeBasis, basis_factors

Axes = tuple[int, ...]
Floats = np.ndarray[Any, np.dtype[np.float64]]

# Shares are whole multiples of it, rounded down: a share below it is not worth its noise.
_GRAIN = 2**-44
# The relative distance from the optimum at which the search for the least greatest error ends, and its most rounds.
_GAP = 1e-3
_ROUNDS = 5000
# Up to this many axes, any set of them may be measured under Laplace noise; beyond, parts of tables and some of their joins.
_ALL_SUBSETS = 8
# Joins of tables may have up to this many times the cells of the largest table, as a power of 2, and starts among them.
_STEPS = 12
_STARTS = 3
# A marginal that no table asks for is measured only if it has no more cells than this, or than the largest table.
_CELLS = 10_000
# A marginal whose share of a Laplace strategy ends below this is left out, if the others still determine every table.
_FAINT = 1e-5
# Limits are aimed at a little below, for the roundings of a search; a table without one weighs so much of one with the widest.
_SLACK = 1e-3
# Changes of a unit, times parts, of which the worst mixture is searched, and the rounds of that search.
_CHANGES = 2**20
_MIXTURES = 200
_UNLIMITED = 1e-4


@dataclass(frozen=True, slots=True)
class Measured:
    """A marginal, or its residual, and its share of the loss."""

    axes: Axes
    share: Fraction


@dataclass(frozen=True)
class Workload:
    """The tables wanted, and which part A of each has how much of which error.

    `parts` are the subsets A that matter; entry k says that a cell of table `table_of[k]` has the variance `factor[k]` times
    s_A of part `part_of[k]`. Axes of one key are in no part, since they say nothing. `limits` are the parts of the variance that
    a table's cells have without limits to which these are limited, infinity where none is stated.
    """

    sizes: tuple[int, ...]
    tables: tuple[Axes, ...]
    parts: tuple[Axes, ...]
    part_of: np.ndarray[Any, np.dtype[np.intp]]
    table_of: np.ndarray[Any, np.dtype[np.intp]]
    factor: Floats
    weights: Floats
    limits: Floats

    @property
    def cells(self) -> Floats:
        """The number of cells of each table."""
        return np.array([float(count_cells(self.sizes, table)) for table in self.tables])

    def spread(self, weights: Floats) -> Floats:
        """Return, for each part, the sum over tables of weight times factor."""
        return _sum_by(self.part_of, self.factor * weights[self.table_of], len(self.parts))

    def cell_variances(self, part_variances: Floats) -> Floats:
        """Return the variance of a cell of each table, from s_A of each part."""
        return _sum_by(self.table_of, self.factor * part_variances[self.part_of], len(self.tables))


def count_cells(sizes: Sequence[int], axes: Axes) -> int:
    """Return the number of cells of a table."""
    return math.prod(sizes[axis] for axis in axes)


def subsets(axes: Iterable[int]) -> list[Axes]:
    """Return every subset of axes, the smallest first.

    >>> subsets((0, 2))
    [(), (0,), (2,), (0, 2)]
    """
    ordered = sorted(axes)
    return [subset for length in range(len(ordered) + 1) for subset in itertools.combinations(ordered, length)]


def read_workload(
    sizes: Sequence[int],
    workload: Iterable[Axes],
    *,
    weights: Mapping[Axes, float] | Sequence[float] | None = None,
    ordered: Mapping[int, RangeBasis] | None = None,
    limits: Mapping[Axes, float] | None = None,
) -> Workload:
    """Check the tables, their weights and limits, and split each table into parts.

    A weight belongs to a table: by its axes in a mapping (1 where it is not named), or by its place in a sequence. On an axis
    in `ordered`, "a cell" is any range of keys, and its variance the mean over all of them. Raises DeclarationError where
    there is no table, a table is no sorted tuple of known axes, a basis has other keys than its axis, or a weight is not
    above 0.
    """
    bases = ordered or {}
    for axis, basis in bases.items():
        if not 0 <= axis < len(sizes) or basis.keys != sizes[axis]:
            raise DeclarationError(f"the basis of axis {axis} has {basis.keys} keys; sizes are {tuple(sizes)}")
    tables = tuple(tuple(table) for table in workload)
    if not tables:
        raise DeclarationError("a tabulation needs at least one table")
    for table in tables:
        if list(table) != sorted(set(table)) or not all(0 <= axis < len(sizes) for axis in table):
            raise DeclarationError(f"a table is a sorted tuple of axes from 0 to {len(sizes) - 1}, not {table}")
    if any(size < 1 for size in sizes):
        raise DeclarationError("every axis has at least one key")
    if weights is None:
        numbers = [1.0] * len(tables)
    elif isinstance(weights, Mapping):
        unknown = [table for table in weights if table not in tables]
        if unknown:
            raise DeclarationError(f"a weight is given for {unknown[0]}, which is no table of the tabulation")
        numbers = [float(weights.get(table, 1)) for table in tables]
    else:
        if len(weights) != len(tables):
            raise DeclarationError(f"there are {len(tables)} tables, but {len(weights)} weights")
        numbers = [float(weight) for weight in weights]
    if not all(0 < number < math.inf for number in numbers):
        raise DeclarationError("a weight must be a number above 0")
    stated = limits or {}
    if not set(stated) <= set(tables) or not all(limit > 0 for limit in stated.values()):
        raise DeclarationError("a limit is a number above 0 for a table of the tabulation")
    # What an axis adds to the variance of a cell, if the part has it, and if it has not.
    inside = [basis_factors(bases[i])[0] if i in bases else 1.0 - 1.0 / m for i, m in enumerate(sizes)]
    outside = [basis_factors(bases[i])[1] if i in bases else 1.0 / m**2 for i, m in enumerate(sizes)]
    index: dict[Axes, int] = {}
    entries = []
    for place, table in enumerate(tables):
        for part in subsets(axis for axis in table if sizes[axis] > 1):
            factor = math.prod(inside[axis] if axis in part else outside[axis] for axis in table)
            entries.append((index.setdefault(part, len(index)), place, factor))
    part_of, table_of, factors = zip(*entries, strict=True)
    return Workload(
        tuple(sizes),
        tables,
        tuple(index),
        np.array(part_of),
        np.array(table_of),
        np.array(factors),
        np.array(numbers),
        np.array([float(stated.get(table, math.inf)) for table in tables]),
    )


def part_cost(sizes: Sequence[int], part: Axes, ordered: Collection[int] = ()) -> float:
    """Return the squared length of a part of one row: the product over axes of 1 - 1/m, or of 1 for a basis of ranges."""
    return math.prod(1.0 - 1.0 / sizes[axis] for axis in part if axis not in ordered)


def choose_residuals(
    sizes: Sequence[int],
    workload: Iterable[Axes],
    *,
    weights: Mapping[Axes, float] | Sequence[float] | None = None,
    objective: Objective = "sum",
    known: Collection[Axes] = (),
    ordered: Mapping[int, RangeBasis] | None = None,
    limits: Mapping[Axes, float] | None = None,
    relation: Relation = "add_remove",
) -> tuple[Measured, ...]:
    """Return the residuals to measure under Gaussian noise, each with its share of rho.

    `objective` "sum" minimises the sum over tables of weight times the squared errors of all cells; "greatest" minimises the
    greatest, over tables, of weight times the variance of a cell, so weights of 1 / t^2 aim at standard deviations t. Tables
    in `known` are exact already, and their parts are not measured. Axes in `ordered` are measured in a basis of ranges, and
    errors are means over all ranges of their keys. `limits` has, for tables whose variance must be less, the part of it that may
    remain: the weighted sum is least among strategies that keep to all limits. Where none does, the greatest ratio to a limit
    is least.

    Theorem (Xiao, He, Zhang, Kifer 2023, ResidualPlanner): of all Gaussian mechanisms of one cost, measuring each part A of
    the tables by itself has the least error, for both objectives, where one row is added or removed. Part A with the
    variance s_A costs c_A / (2 s_A), c_A the product of 1 - 1/m, whichever cell the row is in; with v_A the sum of weights
    times cells times factors of A, the error is the sum of v_A s_A. By Cauchy and Schwarz its minimum at cost rho is
    (sum of sqrt(c_A v_A))^2 / (2 rho), at shares of sqrt(c_A v_A) / sum. The least greatest error is the largest such
    minimum over weights that sum to 1, since the problem is convex in s and linear in the weights; it is found by raising
    the weights of tables whose error is above the mean, until greatest and mean agree within 1 in 1,000. Limits add a weight to
    their tables, the multiplier of the limit, which rises where the error is above it and falls where it is below.

    Under "replace" the cost is that of the worst pair of cells, or of a row that drops out, for all parts at once
    (`residuals.joint_rho`): its least error is the largest, over mixtures of such changes, of the least error where parts cost
    their mean (both are convex problems, and dual), found by raising the weights of changes that cost more than others. Shares
    are then of what each part costs by itself.

    >>> [(m.axes, round(float(m.share), 3)) for m in choose_residuals((2, 4), [(0,), (1,)])]
    [((), 0.282), ((0,), 0.23), ((1,), 0.488)]
    """
    tables = read_workload(sizes, workload, weights=weights, ordered=ordered, limits=limits)
    cost = np.array([part_cost(tables.sizes, part, ordered or ()) for part in tables.parts], dtype=np.float64)
    exact = {part for table in known for part in subsets(table)}
    cost[[part in exact for part in tables.parts]] = 0.0
    if not cost.any():
        return ()
    single = cost
    if relation == "replace" and not ordered:
        single = cost * [_pair_factor(tables.sizes, part) for part in tables.parts]
        cost = _mix_changes(tables, cost, objective)
    if limits:
        free = np.sqrt(cost * tables.spread(tables.weights * tables.cells))
        own = np.divide(cost * free.sum(), free, out=np.zeros_like(cost), where=free > 0)
        shares = _keep_limits(replace(tables, limits=tables.limits * tables.cell_variances(own)), cost)
    elif objective == "greatest":
        shares = _balance(tables, cost)
    else:
        shares = np.sqrt(cost * tables.spread(tables.weights * tables.cells))
    # From shares of the cost that they were chosen by to those of what each part costs by itself.
    return round_shares(tables.parts, shares * np.divide(single, cost, out=np.ones_like(cost), where=cost > 0))


def _pair_factor(sizes: Sequence[int], part: Axes) -> float:
    """Return what a row moved from one cell to another costs, where adding one costs 1: the total does not move."""
    if not part:
        return 1.0
    least = min(sizes[axis] for axis in part)
    return 2 * least / (least - 1)


def _mix_changes(tables: Workload, cost: Floats, objective: Objective) -> Floats:
    """Return the mean cost of each part over the mixture of changes that leaves the most error."""
    axes = sorted({axis for part in tables.parts for axis in part})
    if 2 ** len(axes) * len(cost) > _CHANGES:
        return cost * [_pair_factor(tables.sizes, part) for part in tables.parts]
    pattern = np.arange(2 ** len(axes))
    # A row that drops out, then one that moves between two cells, for each set of axes on which they agree.
    changes = np.empty((len(pattern) + 1, len(cost)))
    changes[0] = cost
    for column, part in enumerate(tables.parts):
        cosine = np.ones(len(pattern))
        for axis in part:
            agrees = pattern >> axes.index(axis) & 1 == 1
            cosine *= np.where(agrees, 1.0, -1.0 / (tables.sizes[axis] - 1))
        changes[1:, column] = 2 * cost[column] * (1 - cosine)
    mixture = np.full(len(changes), 1.0 / len(changes))
    best = cost
    least = math.inf
    bound = 0.0
    for _ in range(_MIXTURES):
        mean = mixture @ changes
        shares = (
            _balance(tables, mean)
            if objective == "greatest"
            else np.sqrt(mean * tables.spread(tables.weights * tables.cells))
        )
        precision = np.divide(shares, mean, out=np.zeros_like(mean), where=mean > 0) / shares.sum()
        costs = changes @ precision
        variances = np.divide(1.0, precision, out=np.zeros_like(mean), where=precision > 0)
        errors = tables.weights * tables.cell_variances(variances)
        error = float(errors.max() if objective == "greatest" else (errors * tables.cells).sum())
        # At a mean cost of 1 this error is the least; the worst change costs more.
        bound = max(bound, error)
        if error * float(costs.max()) < least:
            least = error * float(costs.max())
            best = mean
        if least <= bound * (1 + _GAP):
            break
        mixture = mixture * costs**2
        mixture /= mixture.sum()
    return best


def _balance(tables: Workload, cost: Floats) -> Floats:
    """Return shares whose greatest weighted variance of a cell is within `_GAP` of the least."""
    # Parts that cost nothing have no variance either.
    shown = _sum_by(tables.table_of, cost[tables.part_of] > 0, len(tables.tables)) > 0
    dual = np.where(shown, 1.0, 0.0)
    dual /= dual.sum()
    best, least, ceiling = np.zeros(len(cost)), math.inf, 0.0
    power = 1.0
    for _ in range(_ROUNDS):
        shares = np.sqrt(cost * tables.spread(dual * tables.weights))
        total = shares.sum()
        with np.errstate(divide="ignore", invalid="ignore"):
            variances = np.where(cost > 0, cost * total / shares, 0.0)
        errors = tables.weights * tables.cell_variances(variances)
        ceiling = max(ceiling, total**2)
        greatest = float(errors.max())
        if greatest < least:
            best, least = shares, greatest
        if least <= ceiling * (1 + _GAP):
            break
        dual = dual * (errors / total**2) ** power
        dual /= dual.sum()
    return best


def _keep_limits(tables: Workload, cost: Floats) -> Floats:
    """Return shares of the least weighted sum of errors within the limits, or of the least greatest ratio to them."""
    aimed = tables.limits * (1 - _SLACK)
    nearest_shares = _balance(aim_at_limits(tables), cost)

    def ratios(shares: Floats) -> tuple[Floats, Floats]:
        with np.errstate(divide="ignore", invalid="ignore"):
            variances = np.where(cost > 0, cost * shares.sum() / shares, 0.0)
        errors = tables.cell_variances(variances)
        return errors / aimed, errors

    if float(ratios(nearest_shares)[0].max()) > 1:
        return nearest_shares
    weights = tables.weights * tables.cells
    multipliers = np.where(np.isfinite(tables.limits), weights, 0.0)
    best = nearest_shares
    least = float((weights * ratios(best)[1]).sum())
    for _ in range(_ROUNDS):
        shares = np.sqrt(cost * tables.spread(weights + multipliers))
        ratio, errors = ratios(shares)
        value = float((weights * errors).sum())
        # By duality no strategy within the limits has a sum below this one.
        bound = value + float((multipliers[multipliers > 0] * (errors - aimed)[multipliers > 0]).sum())
        if float(ratio.max()) <= 1 and value < least:
            best = shares
            least = value
        if least <= bound * (1 + _GAP):
            break
        multipliers = np.maximum(multipliers * ratio, 0.0)
    return best


def aim_at_limits(tables: Workload) -> Workload:
    """Return the workload whose weighted variances are ratios to limits; tables without one hardly count."""
    limited = np.isfinite(tables.limits)
    weights = np.where(limited, 1.0 / np.where(limited, tables.limits, 1.0), 0.0)
    return replace(tables, weights=np.where(limited, weights, float(weights[limited].min()) * _UNLIMITED))


def choose_marginals(
    sizes: Sequence[int],
    workload: Iterable[Axes],
    *,
    weights: Mapping[Axes, float] | Sequence[float] | None = None,
    objective: Objective = "sum",
    known: Collection[Axes] = (),
    ordered: Mapping[int, RangeBasis] | None = None,
    limits: Mapping[Axes, float] | None = None,
) -> tuple[Measured, ...]:
    """Return the marginals to measure under Laplace noise, each with its share of epsilon.

    The objectives, weights, limits and `known` are those of `choose_residuals`; axes in `ordered` are measured by single keys,
    and their errors are means over all ranges. A row is in one cell of each marginal, so
    shares of epsilon simply add up. A cell of marginal B has the variance 2 / share^2 in units of 1 / epsilon^2; summed to a
    marginal A within B it knows part A with the precision share^2 n_A / (2 n_B), n counting cells, and precisions of several
    marginals add up. The error is minimised over shares numerically, from several starts, as OPT_M does (McKenna, Miklau, Hay,
    Machanavajjhala 2018, section 6.3). Candidates are all sets of axes where there are few, else tables, their parts and
    joins of tables, since a larger marginal may serve several tables at once.

    >>> [m.axes for m in choose_marginals((2, 2), [(0,), (1,)])]
    [(0, 1)]
    """
    from scipy.optimize import minimize

    tables = read_workload(sizes, workload, weights=weights, ordered=ordered, limits=limits)
    free = choose_marginals(sizes, workload, weights=weights, known=known, ordered=ordered) if limits else ()
    exact = {part for table in known for part in subsets(table)}
    unknown = np.array([part not in exact for part in tables.parts])
    if not unknown.any():
        return ()
    ways = _list_joins(tables)
    axes = sorted({axis for part in tables.parts for axis in part})
    everything = subsets(axes) if len(axes) <= _ALL_SUBSETS else []
    small = [marginal for marginal in everything if count_cells(sizes, marginal) <= _CELLS]
    candidates = tuple(dict.fromkeys((*tables.parts, *small, *itertools.chain.from_iterable(ways))))
    place = {part: number for number, part in enumerate(tables.parts)}
    pairs = [
        (column, place[part], 1.0 / count_cells(sizes, tuple(axis for axis in marginal if axis not in part)))
        for column, marginal in enumerate(candidates)
        for part in subsets(marginal)
        if part in place
    ]
    column_of, part_of, ratio = (np.array(entry) for entry in zip(*pairs, strict=True))
    spread = np.where(unknown, tables.spread(tables.weights * tables.cells), 0.0)

    def variances(theta: Floats) -> Floats:
        """Return the variance of a cell of each table at shares proportional to theta."""
        shares = theta / theta.sum()
        precision = _sum_by(part_of, shares[column_of] ** 2 * ratio, len(tables.parts)) / 2 + 1e-30
        return tables.cell_variances(np.where(unknown, 1 / precision, 0.0))

    greatest_weights = tables.weights
    aimed = tables.limits
    if limits:
        share = {measured.axes: float(measured.share) for measured in free}
        unlimited = np.array([share.get(axes, 0.0) for axes in candidates])
        aimed = tables.limits * variances(unlimited) * (1 - _SLACK)
        greatest_weights = aim_at_limits(replace(tables, limits=aimed)).weights

    def passed(theta: Floats, penalty: float) -> tuple[float, Floats]:
        """Return the log of the weighted sum of errors and a penalty for passed limits, and its gradient."""
        value, gradient = error(theta, None)
        now = variances(theta)
        logs = np.log(np.maximum(now / aimed, 1.0))
        precision = _sum_by(part_of, theta[column_of] ** 2 * ratio, len(tables.parts)) / 2 + 1e-30
        # Each table's variance is (sum of theta)^2 times a sum over parts of factor / precision.
        pull = penalty * 2 * logs / np.maximum(now, 1e-300) * theta.sum() ** 2
        slope = -np.where(unknown, tables.spread(pull) / precision**2, 0.0)
        gradient = gradient + _sum_by(column_of, slope[part_of] * theta[column_of] * ratio, len(theta))
        return value + penalty * float((logs**2).sum()), gradient + penalty * 4 * float(logs.sum()) / theta.sum()

    def error(theta: Floats, power: float | None) -> tuple[float, Floats]:
        """Return the log of the error at shares proportional to theta, and its gradient; p-norm of tables with power."""
        precision = _sum_by(part_of, theta[column_of] ** 2 * ratio, len(tables.parts)) / 2 + 1e-30
        if power is None:
            value = float((spread / precision).sum())
            slope = -spread / precision**2 / value
            logarithm = math.log(value)
        else:
            errors = tables.cell_variances(np.where(unknown, 1 / precision, 0.0)) * greatest_weights
            top = float(errors.max())
            shape = (errors / top) ** power
            logarithm = math.log(top) + math.log(shape.sum()) / power
            pull = shape / (shape.sum() * np.where(errors > 0, errors, 1.0))
            slope = -np.where(unknown, tables.spread(pull * greatest_weights) / precision**2, 0.0)
        gradient = _sum_by(column_of, slope[part_of] * theta[column_of] * ratio, len(theta))
        total = theta.sum()
        return logarithm + 2 * math.log(total), gradient + 2 / total

    def descend(theta: Floats, power: float | None, function: Any = error) -> tuple[float, Floats]:
        answer = minimize(
            function,
            theta,
            (power,),
            jac=True,
            method="L-BFGS-B",
            bounds=[(0, None)] * len(theta),
            options={"maxiter": 500},
        )
        return float(answer.fun), answer.x / answer.x.sum()

    wanted = {tuple(axis for axis in table if sizes[axis] > 1) for table in tables.tables}
    starts = [
        np.array([1.0 if marginal in wanted else 0.02 for marginal in candidates]),
        np.array([1.0 if marginal in place else 0.02 for marginal in candidates]),
        np.ones(len(candidates)),
    ]
    powers: tuple[float | None, ...] = (2.0, 8.0, 32.0, 128.0, 512.0) if limits or objective != "sum" else (None,)
    # The joins that are best when each has the same share, and all others a little.
    shared = [np.array([1.0 if marginal in way else 0.02 for marginal in candidates]) for way in map(set, ways)]
    starts += sorted(shared, key=lambda start: error(start, powers[0])[0])[:_STARTS]
    results = []
    for start in starts:
        theta = start / start.sum()
        for power in powers:
            value, theta = descend(theta, power)
        results.append((value, theta))
    best = min(results, key=lambda result: result[0])[1]
    if limits and float((variances(best) / aimed).max()) <= 1:
        # From within the limits, and from the least sum without them: the penalty grows until none is passed.
        results = [(error(best, None)[0], best)]
        for theta in (best, unlimited):
            for penalty in (1e2, 1e4, 1e6):
                theta = descend(theta, penalty, passed)[1]
            if float((variances(theta) / aimed).max()) <= 1 + _SLACK / 2:
                results.append((error(theta, None)[0], theta))
        best = min(results, key=lambda result: result[0])[1]
    return round_shares(candidates, _drop_faint(best, column_of, part_of, unknown))


def _sum_by(places: np.ndarray[Any, np.dtype[np.intp]], values: Any, length: int) -> Floats:
    """Return the sum of the values at each place below `length`."""
    return np.bincount(places, values, length).astype(np.float64)


def _list_joins(tables: Workload) -> list[list[Axes]]:
    """Return ways to answer all tables from joins of them: for each of several most numbers of cells, the joins.

    Tables are taken from the largest; each is put into the join that it makes larger by the least factor, if that has few
    enough cells.
    """
    axes = sorted({axis for part in tables.parts for axis in part})
    wide = {tuple(axis for axis in table if tables.sizes[axis] > 1) for table in tables.tables}
    ordered = sorted(wide, key=lambda table: (-count_cells(tables.sizes, table), table))
    logs = np.log(np.array([float(tables.sizes[axis]) for axis in axes]))
    member = np.array([[axis in table for axis in axes] for table in ordered]).reshape(len(ordered), len(axes))
    largest = count_cells(tables.sizes, ordered[0])
    ways = []
    for most in sorted({min(largest * 2**step, max(largest, _CELLS)) for step in range(_STEPS)}):
        joins = np.zeros((0, len(axes)), dtype=bool)
        for row in member:
            union = (joins | row) @ logs
            growth = np.where(union <= math.log(most) + 1e-9, union - joins @ logs, np.inf)
            if len(joins) and float(growth.min()) < np.inf:
                joins[int(np.argmin(growth))] |= row
            else:
                joins = np.vstack([joins, row])
        ways.append([tuple(axis for axis, inside in zip(axes, row, strict=True) if inside) for row in joins])
    return ways


def _drop_faint(theta: Floats, column_of: Any, part_of: Any, unknown: Any) -> Floats:
    """Return shares without those below `_FAINT`, if every unknown part is in what remains."""
    strong = np.where(theta >= _FAINT, theta, 0.0)
    covered = _sum_by(part_of, strong[column_of] > 0, len(unknown)) > 0
    return strong if bool(np.all(covered | ~unknown)) else theta


def round_shares(axes: Sequence[Axes], shares: Floats) -> tuple[Measured, ...]:
    """Return positive shares as exact fractions that sum to at most 1, the smallest marginals first."""
    grains = np.floor(shares / shares.sum() / _GRAIN).astype(np.int64)
    # Floats may sum to a little above 1: the largest gives way.
    grains[int(np.argmax(grains))] -= max(0, int(grains.sum()) - round(1 / _GRAIN))
    measured = [Measured(a, Fraction(int(g), round(1 / _GRAIN))) for a, g in zip(axes, grains, strict=True) if g > 0]
    return tuple(sorted(measured, key=lambda entry: (len(entry.axes), entry.axes)))
