"""The published tutorials again, step by step: each a call, what it returns, and the text's own number beside it.

`python bench/walkthroughs.py` runs all of them, on Adult (SORDINO_ADULT, or the path given) and on the universes of the posts,
and writes bench/results/walkthroughs.md. Noise is seeded, so that the table is the same each time: NOT PRIVATE.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results" / "walkthroughs.md"
_LONGEST = 110


@dataclass(frozen=True)
class Step:
    """A step of a tutorial: what it does, the call here, the text's number if it prints one, and how they compare.

    `how` is "=" where ours must equal it (to 6 digits), "in" where it must lie in the interval of our noisy answer,
    "not" where the text is wrong and ours differs, "" where there is nothing to compare.
    """

    text: str
    call: str
    published: Any = None
    how: str = ""


COUNTING = """
people = lambda question, epsilon=1: adult.ask(question, epsilon=epsilon)
high = adult.where(col("education_num") > 10)
"""
COUNTING_STEPS = (
    Step("Laplace mechanism, F(x) = f(x) + Lap(s/epsilon)", "learn.laplace_mech(3650, 1, 1, rng=rng)"),
    Step("sensitivity of x", 'sens.function_sensitivity("x", lower=None, upper=None).value', 1, "="),
    Step("of x + x", 'sens.function_sensitivity("x + x", lower=None, upper=None).value', 2, "="),
    Step("of 5 x", 'sens.function_sensitivity("5*x", lower=None, upper=None).value', 5, "="),
    Step("of x * x: none", 'sens.function_sensitivity("x*x", lower=None, upper=None).value', math.inf, "="),
    Step("the Adult data", "raw.num_rows", 32561, "="),
    Step("count of all", "people(sd.count())", 32561, "in"),
    Step("count, more than 10 years of education", "people(high.agg(sd.count()))", 10516, "in"),
    Step("count, at most 10", 'people(adult.where(col("education_num") <= 10).agg(sd.count()))', 22045, "in"),
    Step(
        "count of one value that a single person has",
        'people(adult.where(col("native_country") == "Holand-Netherlands").agg(sd.count()))',
        1,
        "in",
    ),
    Step("sum of ages, more than 10 years", 'people(high.agg(sd.sum("age")))', 422876, "in"),
    Step("a sum without bounds is unbounded", 'refusal(lambda: loose.plan(sd.sum("age"), epsilon=1))'),
    Step(
        "a sum's sensitivity as upper - lower, [10, 20]",
        'sens.worst_case_sensitivity(sd.sum("x"), sd.Domain({"x": sd.Integer(10, 20)}), neighbors="add_remove", '
        'privacy_unit="row").l1',
        10,
        "not",
    ),
    Step("mean age, more than 10 years", 'people(high.agg(sd.mean("age")))', 40.21262837580829, "in"),
    Step(
        "the mean as sum / count",
        'people(high.agg(sd.sum("age")), "0.5").value / people(high.agg(sd.count()), "0.5").value',
        40.21262837580829,
        "near",
    ),
    Step("sequential composition", "adult.spent"),
    Step("clipped sum, 0 to 125", 'people(sd.sum(col("age").clip(0, 125)))', 1256257, "in"),
    Step(
        "its sensitivity",
        'sens.worst_case_sensitivity(sd.sum("x"), sd.Domain({"x": sd.Integer(0, 125)}), neighbors="add_remove", '
        'privacy_unit="row").l1',
        125,
        "=",
    ),
    Step(
        "noise against the bound",
        '[round(adult.plan(sd.sum(col("age").clip(0, u)), epsilon="0.01").error(0.95)) for u in (50, 90)]',
    ),
    Step("histogram of age", 'sd.plot(people(sd.histogram("age", width=8)))'),
    Step("looking at the data is not private: what a look costs", 'people(sd.histogram("age", width=8)).cost'),
    Step(
        "sums at bounds 0 to 99 level off around 80",
        'upper(loose.find_bounds("age", method="ladder", ladder=range(100), epsilon=1))',
        80,
        "near",
    ),
    Step(
        "what that picture cost: epsilon 1",
        'loose.find_bounds("age", method="ladder", ladder=range(100), epsilon=1).cost',
    ),
    Step(
        "bounds 2^0 to 2^14: roughly 2^8",
        'upper(loose.find_bounds("age", method="ladder", ladder=[2**i for i in range(15)], epsilon="0.15"))',
        256,
        "near",
    ),
    Step("a column of unknown scale", 'loose.find_bounds("capital_gain", epsilon=1).question'),
    Step("many rows a person", 'sd.PrivacyUnit("household", max_rows=6)'),
    Step(
        "differing records: distance by multisets", 'sens.distance([1, 1, 2], [1, 2], neighbors="add_remove")', 1, "="
    ),
    Step(
        "unbounded and bounded neighbors",
        '[sens.distance([1, 2], [1, 3], neighbors=n) for n in ("add_remove", "replace")]',
        [2, 1],
        "=",
    ),
)

SYNTHETIC = """
original = synth.Histogram("age").exact(raw, domain=domain)
released = synth.Histogram("age").fit(adult, epsilon=1)
with_rows = synth.Histogram("age", rows=True).fit(adult, epsilon=1)
both = synth.Histogram(("age", "occupation")).fit(adult, epsilon=1)
independent = synth.Independent(["age", "occupation"]).fit(adult, epsilon=1)
drawn = released.sample(10_000, rng=rng)
ages = drawn.to_pandas()["age"]
"""
SYNTHETIC_STEPS = (
    Step("range query, ages 21 to 32", "original.range(21, 33)", 9878, "="),
    Step(
        "the same asked privately",
        'adult.ask(adult.where((col("age") >= 21) & (col("age") < 33)).agg(sd.count()), epsilon=1)',
        9878,
        "in",
    ),
    Step("bar chart of true counts", "sd.plot(original)"),
    Step("the representation answers what the data does", "original.range(0, 100).value", 32561, "="),
    Step("noisy histogram by parallel composition", "released.facts"),
    Step("its range 21 to 32", "released.range(21, 33)", 9878, "in"),
    Step("more queries are free", "released.range(17, 65), adult.spent.amounts()['epsilon'] > 0"),
    Step("a small range [30, 31)", "released.range(30, 31)", 861, "in"),
    Step(
        "a large range [30, 71): its error, as Laplace's in the text",
        "round(released.range(30, 71).error(0.95), 1)",
        3.0,
        "not",
    ),
    Step("percent error", "synth.percent_error(3650, 3721.5)", 1.9589041095890412, "="),
    Step("clip at 0 and normalise", "float(released.probabilities().sum())", 1, "="),
    Step("plot of probabilities", "sd.plot([released, drawn])"),
    Step("gen_samples(5)", 'released.sample(5, rng=rng)["age"].to_pylist()'),
    Step("10,000 drawn ages", "drawn.num_rows", 10000, "="),
    Step("mean age, synthetic against 38.58", "float(ages.mean())", 38.58164675532078, "near"),
    Step(
        "a range of 10,000 rows: a huge error",
        "round(100 * abs(int(((ages >= 20) & (ages < 65)).sum()) - original.range(20, 65).value) / "
        "original.range(20, 65).value, 1)",
        69.29,
        "near",
    ),
    Step("a private number of rows", "with_rows.sample(rng=rng).num_rows", 32561, "near"),
    Step("what both cost together (the text: not said)", "with_rows.facts"),
    Step(
        "one-way marginals lose the correlation",
        "independent.answer(sd.sql(\"SELECT COUNT(*) AS n FROM adult WHERE age = 18 AND occupation = 'Exec-managerial'\")).value",
    ),
    Step("the same by the two-way table (true: 6)", 'both.cell(18, "Exec-managerial")', 6, "in"),
    Step("crosstab of age and occupation", "both.to_pandas().shape"),
    Step("(17, Adm-clerical): 23 people, .07%", 'both.cell(17, "Adm-clerical")', 23, "in"),
    Step("rows of both columns", "both.sample(3, rng=rng).to_pylist()[0]"),
    Step("age out of the two-way table, 20 to 29", 'both.range(20, 30, column="age")', 8054, "in"),
    Step("answers with an error one can use", 'both.range(20, 30, column="age").interval(0.95)'),
    Step(
        "more columns, more noise: bins",
        '[synth.Histogram(c).plan(adult, epsilon=1).bins for c in ("age", ("age", "occupation"), ("age", "occupation", "sex"))]',
    ),
    Step("accurate and correlated", 'synth.Tree().fit(adult, epsilon=1, delta="1e-9")'),
)

RISK = """
year, absence = [1, 2, 3, 4], [1, 2, 3, 10]
school = {name: risk.Worlds(values, size=3, query="mean") for name, values in (("year", year), ("absence", absence))}
W, Y = school["absence"], school["year"]
"""
RISK_STEPS = (
    Step(
        "sensitivity Df of the mean",
        "round(float(Y.sensitivity), 4), round(float(W.sensitivity), 4)",
        (0.8333, 2.8333),
        "=",
    ),
    Step("spread Dv", "float(Y.spread), float(W.spread)", (1, 3), "="),
    Step(
        "neighbors of {1, 2, 3} in {1, 2, 3, 4}",
        'sens.list_neighborhoods("mean", year, size=3, neighbors="replace", within=1)',
    ),
    Step("the worlds: four of three pupils", "W.count", 4, "="),
    Step("uniform prior", "W.prior.tolist()", [0.25] * 4, "="),
    Step("posterior, year, at 2.20131 and epsilon 2", "Y.posterior(output=2.20131, epsilon=2)[0]", 0.33898835, "="),
    Step("posterior, absence", "W.posterior(output=2.20131, epsilon=2).max()", 0.61802372, "="),
    Step("the attacker's guess is right", "W.worlds[W.posterior(output=2.20131, epsilon=2).argmax()]", (1, 2, 3), "="),
    Step("one pupil's risk", "W.record_risk(10, output=2.20131, epsilon=2)"),
    Step("played 10,000 times", "W.simulate(epsilon=2, runs=10_000, rng=rng).share"),
    Step("confidence (swapped in the text)", "W.posterior_gain(output=2.20131, epsilon=2)", 0.15120153, "not"),
    Step(
        "upper bound at epsilon 2, absence and year",
        "W.risk_bound(epsilon=2), Y.risk_bound(epsilon=2)",
        (0.7347845418, 0.7860684399),
        "=",
    ),
    Step("tight risk at .5, year", "Y.risk(epsilon=0.5)", 0.3291788293, "="),
    Step("tight risk at .5, absence", "W.risk(epsilon=0.5)", 0.3476971460, "="),
    Step("epsilon by the bound, risk 1/3, year", 'Y.epsilon_bound_for(risk="1/3")', 0.3378875901, "="),
    Step("epsilon by the bound, absence", 'W.epsilon_bound_for(risk="1/3")', 0.3829392688, "="),
    Step("epsilon by binary search, year", 'Y.epsilon_for(risk="1/3")', 0.5251497, "="),
    Step("epsilon by binary search, absence", 'W.epsilon_for(risk="1/3")', 0.431720, "="),
    Step(
        "both panels against epsilon",
        'sd.plot(risk.assess_risk({"year": year, "absence": absence}, size=3, query="mean", risk="1/3"))',
    ),
    Step(
        "the median: ln 2 and 4 ln 2",
        '[risk.Worlds(v, size=3, query="median").epsilon_for(risk="1/3") for v in (year, absence)]',
        [math.log(2), 4 * math.log(2)],
        "=",
    ),
    Step(
        "the variance, risk 1/3",
        '[risk.Worlds(v, size=3, query="var").epsilon_for(risk="1/3") for v in (year, absence)]',
    ),
    Step(
        "another query: a function of one's own",
        "risk.Worlds(absence, size=3, query=lambda t: t.max() - t.min()).epsilon_for(risk='1/3')",
    ),
    Step(
        "a prior that is not uniform",
        "risk.Worlds(absence, size=3, query='mean', prior=[.7, .1, .1, .1]).epsilon_for(risk=.8)",
    ),
    Step("larger data: 20 of 40", "risk.Worlds(range(1, 41), size=20, query='mean').count", math.comb(40, 20), "="),
)

LOCAL = """
U, V = [1, 2, 3, 10, 11], [1, 2, 3, 4, 5]
bounded = dict(neighbors="replace", within=1)
"""
LOCAL_STEPS = (
    Step(
        "local sensitivity, unbounded",
        'sens.local_sensitivity("median", U, [1, 2, 3], neighbors="add_remove", exactly=1, direction="either").value',
    ),
    Step(
        "local sensitivity of {1, 2, 3}, bounded",
        'sens.local_sensitivity("median", U, [1, 2, 3], **bounded).value',
        1,
        "=",
    ),
    Step("of {1, 2, 10}: 8", 'sens.local_sensitivity("median", U, [1, 2, 10], **bounded).value', 8, "="),
    Step(
        "of {1, 3, 10}: the code says 8, the hand table 7",
        'sens.local_sensitivity("median", U, [1, 3, 10], **bounded).value',
        8,
        "not",
    ),
    Step("of {1, 10, 11}: 8", 'sens.local_sensitivity("median", U, [1, 10, 11], **bounded).value', 8, "="),
    Step("global, bounded: 8", 'sens.global_sensitivity("median", U, size=3, **bounded).value', 8, "="),
    Step(
        "global, unbounded: 4.5",
        'sens.global_sensitivity("median", U, size=3, neighbors="add_remove", exactly=1, direction="either").value',
        4.5,
        "=",
    ),
    Step("the hand table", 'sens.list_neighborhoods("median", U, size=3, **bounded)'),
    Step("which move attains it", 'sens.global_sensitivity("median", U, size=3, **bounded).witness'),
    Step(
        "ten queries at k = 1 to 4",
        "sens.sensitivity_profile(range(1, 11), [1, 2, 3, 4, 5], queries=ten, distances=range(1, 5)).num_rows",
        160,
        "=",
    ),
    Step(
        "their picture",
        "sd.plot(sens.sensitivity_profile(range(1, 11), [1, 2, 3, 4, 5], queries=ten, distances=range(1, 5)))",
    ),
    Step(
        "percentile_25 has a word here",
        'refusal(lambda: sens.local_sensitivity("percentile_25", U, [1, 2], **bounded))',
    ),
    Step(
        "wrong input: a table outside the universe",
        'refusal(lambda: sens.local_sensitivity("mean", U, [1, 7], **bounded))',
    ),
    Step(
        "wrong input: k beyond the table",
        'refusal(lambda: sens.local_sensitivity("mean", U, [1, 2], neighbors="replace", exactly=3))',
    ),
    Step(
        "the variance declines with exactly k, within k it does not",
        '[round(sens.global_sensitivity("var", V, size=3, neighbors="replace", within=k).value, 3) for k in (1, 2)]',
    ),
    Step(
        "local sum = global sum",
        'sens.local_sensitivity("sum", V, [1, 2, 3], neighbors="add_remove", exactly=1, direction="add").value',
    ),
    Step(
        "add, remove, either",
        '[sens.local_sensitivity("mean", U, [1, 3, 10], neighbors="add_remove", exactly=1, direction=d).value for '
        'd in ("add", "remove", "either")]',
    ),
    Step(
        "why not local sensitivity: an attack",
        'sens.local_noise("median", U, [1, 2, 3], [1, 2, 11], neighbors="replace", epsilon=1).scales',
    ),
    Step(
        "smooth sensitivity",
        'sens.smooth_sensitivity("median", [1, 2, 3, 10], lower=0, upper=20, beta="0.1", neighbors="replace").value',
    ),
    Step(
        "several columns at once",
        'sd.plot(sens.sensitivity_profile({"a": U, "b": V}, {"a": [1, 3], "b": [1, 2]}, queries=["mean"], distances=[1]))',
    ),
)

COINS = """
jobs = adult_domain()["occupation"].values
people = [job for job in raw["occupation"].to_pylist() if job is not None]
truth = [job == "Sales" for job in raw["occupation"].to_pylist()]
coins = local.fair_coins()
unary = local.Unary(jobs, p=0.75, q=0.25)
answers = coins.estimate(coins.count(coins.perturb(truth, rng)))
bits = unary.count(unary.perturb(people, rng))
estimated = unary.estimate(bits)
share = lambda one, label: float(one.frequencies[list(one.labels).index(label)])
"""
COINS_STEPS = (
    Step("two coins: epsilon ln 3 (the text: 1.09)", "float(coins.epsilon)", 1.0986122886681098, "="),
    Step("200 salespeople: some 150 say yes", "coins.count(coins.perturb([True] * 200, rng)).supports", None, ""),
    Step("all of Adult, true answer", "sum(truth)", 3650, "="),
    Step("estimate of salespeople (the text: 3721.5)", "round(share(answers, True) * answers.n, 1)", 3650, "near"),
    Step("its interval", "[round(end * answers.n) for end in ends(answers, True)]"),
    Step("error in percent (the text: 1.96)", "round(synth.percent_error(3650, share(answers, True) * answers.n), 2)"),
    Step(
        "the central model's error (.011%)",
        "round(synth.percent_error(3650, adult.ask(adult.where(col('occupation') == 'Sales').agg(sd.count()), "
        "epsilon=1).value), 3)",
    ),
    Step(
        "smaller counts, larger errors",
        '[round(synth.percent_error(people.count(j), share(estimated, j) * estimated.n)) for j in ("Sales", '
        '"Protective-serv", "Armed-Forces")]',
    ),
    Step("14 occupations", "len(jobs)", 14, "="),
    Step("encode Sales: the fifth place", 'unary.encode(["Sales"])[0].tolist().index(1)', 5, "="),
    Step("perturb it", 'unary.perturb(["Sales"], rng).bits()[0].astype(int).tolist()'),
    Step("epsilon of p .75, q .25", "float(unary.epsilon)", 2.1972245773362196, "="),
    Step("of p .6, q .2", "float(local.Unary(jobs, p=0.6, q=0.2).epsilon)", 1.791759469228055, "="),
    Step("sums of perturbed bits", "[int(n) for n in bits.supports[:3]]"),
    Step("(sum - n q) / (p - q), Sales: 3650", 'round(share(estimated, "Sales") * estimated.n)', 3650, "near"),
    Step("the order of the six largest", "order(estimated)[:6]"),
    Step("picture", "sd.plot(estimated)"),
    Step("RAPPOR", 'float(local.Rappor(jobs, f="1/2", p="1/2", q="3/4").epsilon)'),
    Step("the best protocol", "local.best(jobs, epsilon=1, respondents=32_561).why"),
    Step("respondents needed beside 300 of a curator", "local.respondents_needed(jobs, epsilon=1, margin=0.01)"),
    Step(
        "by the command line",
        '"sordino local simulate --data adult.csv --column occupation --value Sales --protocol coins"',
    ),
    Step(
        "devices that randomise for themselves",
        '"sordino local task create; local serve; local estimate (docs/collector.md)"',
    ),
    Step("the trusted curator beside it", '"sordino local simulate --plot: both columns beside the true one"'),
)

DOCS_STEPS = (
    Step("the chapter on sensitivity as a page that runs", '"docs/tour/counting-to-clipping.md"'),
    Step("the chapter on synthetic data", '"docs/tour/synthetic-data.md"'),
    Step("the posts on choosing epsilon", '"docs/tour/choosing-epsilon.md"'),
    Step("the posts on local sensitivity", '"docs/tour/local-and-global-sensitivity.md"'),
    Step("the chapter on the local model", '"docs/tour/randomised-response.md"'),
    Step("every word of them", '"docs/glossary.md"'),
    Step("the book's chapters, and errata", '"docs/tour/README.md"'),
    Step("notebooks", '"make notebooks"'),
    Step("the bare mechanisms", '"docs/learn.md"'),
)

TOURS: tuple[tuple[str, str, tuple[Step, ...], bool], ...] = (
    ("Sensitivity, counting to clipping", COUNTING, COUNTING_STEPS, True),
    ("Synthetic data", SYNTHETIC, SYNTHETIC_STEPS, True),
    ("Choosing epsilon from a risk", RISK, RISK_STEPS, False),
    ("Local and global sensitivity", LOCAL, LOCAL_STEPS, False),
    ("The local model", COINS, COINS_STEPS, True),
    ("Pages", "", DOCS_STEPS, False),
)


def names(adult: Path | None) -> dict[str, Any]:
    """Return the names that calls use; with the Adult table where its path is given."""
    import sordino as sd
    from sordino import learn, local, risk, synth
    from sordino import sensitivity as sens
    from sordino.core.errors import SordinoError
    from sordino.datasets import adult_columns, adult_domain, load_adult

    def refusal(call: Any) -> str:
        try:
            call()
        except SordinoError as error:
            return f"refused: {error}"
        raise AssertionError("this was answered")

    def upper(bounds: Any) -> Any:
        return dict(bounds.chosen)["upper"]

    def ends(estimate: Any, label: Any) -> tuple[float, float]:
        row = next(one for one in estimate.interval(0.95).to_pylist() if one["label"] == label)
        return row["lower"], row["upper"]

    def order(estimate: Any) -> list[Any]:
        pairs = sorted(zip(estimate.frequencies, estimate.labels, strict=True), reverse=True)
        return [label for _, label in pairs]

    rng = sd.Rng.seeded(2026)
    ten = [
        "count",
        "sum",
        "mean",
        "median",
        "std",
        "var",
        "quantile:0.25",
        "quantile:0.5",
        "quantile:0.75",
        "quantile:0.9",
    ]
    known: dict[str, Any] = {
        **{"sd": sd, "sens": sens, "risk": risk, "learn": learn, "local": local, "synth": synth, "col": sd.col},
        **{"rng": rng, "refusal": refusal, "upper": upper, "ends": ends, "order": order, "ten": ten},
        **{"adult_domain": adult_domain, "math": math},
    }
    if adult is None:
        return known
    declared = adult_domain()
    columns = {name: declared[name] for name in declared}
    csv = sd.Csv(header=False, names=adult_columns(), null_values=("?",))
    opened: dict[str, Any] = {"neighbors": "add_remove", "privacy_unit": "row", "csv": csv, "ledger": None}
    free = {**columns, "age": sd.Integer(), "capital_gain": sd.Integer()}
    known["adult"] = sd.protect(adult, domain=declared, budget=sd.ApproxDP(1000, "1e-6"), rng=rng, **opened)
    known["loose"] = sd.protect(adult, domain=sd.Domain(free), budget=sd.PureDP(1000), rng=rng, **opened)
    known["domain"] = declared
    known["raw"] = load_adult(adult)
    return known


def run(steps: Sequence[Step], known: dict[str, Any]) -> list[tuple[Step, str, str]]:
    """Return each step with what it returned, as text, and whether that is what the text prints."""
    rows = []
    for step in steps:
        value = eval(step.call, known)
        rows.append((step, show(value), compare(step, value)))
    return rows


def compare(step: Step, value: Any) -> str:
    """Return how a value relates to the text's own; raises AssertionError where they should agree and do not."""
    if not step.how:
        return ""
    if step.how == "in":
        low, high = value.interval(0.9999)
        assert low <= step.published <= high, (step, value)
        return "in its interval"
    plain = getattr(value, "value", value)
    ours, theirs = (list(one) if isinstance(one, list | tuple) else [one] for one in (plain, step.published))
    alike = all(math.isclose(float(a), float(b), rel_tol=1e-6) for a, b in zip(ours, theirs, strict=True))
    if step.how == "near":
        return f"{100 * abs(float(ours[0]) - float(theirs[0])) / abs(float(theirs[0])):.2g}% from it"
    assert alike == (step.how == "="), (step, value)
    return "equal" if alike else "the text is wrong"


def show(value: Any) -> str:
    """Return a value on one line of a table."""
    if hasattr(value, "interval") and hasattr(value, "value"):
        low, high = value.interval(0.95)
        return f"{value.value:,.6g} ({low:,.6g} to {high:,.6g})"
    text = value if isinstance(value, str) else f"{value:.10g}" if isinstance(value, float) else repr(value)
    lines = " ".join(text.split()).replace("|", "\\|")
    return lines if len(lines) <= _LONGEST else f"{lines[:_LONGEST]}..."


def tables(adult: Path | None) -> list[tuple[str, list[tuple[Step, str, str]]]]:
    """Return every tour's rows; those on Adult only where its path is given."""
    results = []
    for title, before, steps, needs_adult in TOURS:
        if needs_adult and adult is None:
            continue
        # Noise begins anew, so that a tour's numbers do not depend on the tours before it.
        known = names(adult if needs_adult else None)
        exec(before, known)
        results.append((title, run(steps, known)))
    return results


def page(results: Sequence[tuple[str, Sequence[tuple[Step, str, str]]]]) -> str:
    """Return the page of all tables."""
    total = sum(len(rows) for _, rows in results)
    lines = [
        "# The published tutorials, step by step",
        "",
        f"`python bench/walkthroughs.py` ran these {total} steps and wrote this page. Noise is seeded: NOT PRIVATE. "
        "Where a step has noise,",
        'the text\'s number must lie in the 99.99% interval of ours ("in its interval"; the interval shown is at '
        "95%); where it has none, both must be",
        "equal to six digits. `adult` is the Adult extract, `loose` the same without bounds on age and gain.",
    ]
    number = 0
    for title, rows in results:
        lines += ["", f"## {title}", "", "| | step | call | here | the text | |", "|---|---|---|---|---|---|"]
        for step, text, verdict in rows:
            number += 1
            theirs = "" if step.published is None else show(step.published)
            call = " ".join(step.call.split()).replace("|", "\\|")
            lines.append(f"| {number} | {step.text} | `{call}` | {text} | {theirs} | {verdict} |")
    return "\n".join([*lines, ""])


def main() -> None:
    """Run every step and write the page."""
    given = sys.argv[1] if len(sys.argv) > 1 else os.environ.get("SORDINO_ADULT")
    if given is None:
        raise SystemExit("name the Adult extract: python bench/walkthroughs.py adult.data")
    RESULTS.write_text(page(tables(Path(given))), encoding="utf-8")
    print(f"wrote {RESULTS}")


if __name__ == "__main__":
    main()
