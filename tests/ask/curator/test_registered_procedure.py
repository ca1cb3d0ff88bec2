"""A procedure and an event of somebody else's: registered from outside, planned, asked, stored, read, audited."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import sordino as sd

# What a curator's own module holds: a question that counts rows with Laplace noise of its own, and the event of it.
FOREIGN = '''
from dataclasses import dataclass
from fractions import Fraction

import pyarrow as pa
from sqlglot import exp

import sordino as sd
from sordino.ask.curator.plan import PlannedColumn, Procedure, price
from sordino.ask.curator.plan import register_procedure
from sordino.core.accounting.event_fields import register_event
from sordino.core.estimates.noisy import Noisy
from sordino.core.mechanisms.additive_noise import Laplace
from sordino.core.noise.laws import DiscreteLaplace
from sordino.core.noise.discrete import discrete_laplace
from sordino.core.release import Output


@register_event("doubled-laplace")
@dataclass(frozen=True, slots=True)
class DoubledLaplace:
    """Pure epsilon, at twice the price that is needed."""

    epsilon: Fraction

    def pure(self): return 2 * self.epsilon
    def approx(self): return None
    def rho(self): return 2 * self.epsilon**2
    def renyi(self, order): return None
    def profile(self, grid): return None


@dataclass(frozen=True, slots=True)
class RowsAtLeast:
    alias: str = "rows"

    def identity(self): return "rows-at-least"
    def describe(self): return "how many rows there are, by a procedure of my own"


@dataclass(frozen=True, slots=True, kw_only=True)
class CountRows(Procedure):
    scale: Fraction

    def columns(self, confidence):
        law = DiscreteLaplace(self.scale)
        return [PlannedColumn((self.question.alias,), "rows", (float(law.error(confidence)),), "rows", ("mine",), (), ())]

    def write(self, rows):
        on = rows.primitives()
        return rows.write(exp.Select(expressions=[exp.alias_(exp.Count(this=exp.Star()), "t0")]).from_(on.source()))

    def release(self, statements, rows, rng):
        exact = rows.run(statements).column("t0").to_pylist()[0]
        noisy = exact + discrete_laplace(self.scale, rng)
        return (), (Output(self.question.alias, Noisy((noisy,), Fraction(1), DiscreteLaplace(self.scale)), "mine"),)


def plan_rows(question, table, *, asked):
    event = DoubledLaplace(asked.epsilon / 2)
    return price(CountRows(question=question, event=event, scale=2 / asked.epsilon), table, asked=asked)


def protect(ledger):
    return sd.protect(
        pa.table({"x": list(range(100))}),
        domain=sd.Domain({"x": sd.Integer(0, 100)}),
        neighbors="add_remove",
        privacy_unit="row",
        budget=sd.PureDP(10),
        ledger=ledger,
        name="people",
    )
'''
REGISTER = 'register_procedure(RowsAtLeast, plan_rows, module="mypackage", version="1.2")\n'


# What imports Sordino once, opens no table, and runs each script in a fork of itself: importing takes a second, a fork none.
PARENT = """
import io, json, os, sys, traceback
from contextlib import redirect_stdout
import duckdb, pandas, pyarrow, scipy.special, sqlglot.dialects.duckdb
import sordino.ask.curator.connect, sordino.ask.curator.question_reading, sordino.ask.engines.duckdb


def answer(place, state, script, text):
    os.environ["SORDINO_STATE"] = state
    os.chdir(place)
    sys.path.insert(0, place)
    sys.stdin = io.StringIO(text)
    said = io.StringIO()
    fault = ""
    try:
        with redirect_stdout(said):
            exec(compile(script, "script", "exec"), {"__name__": "__main__"})
    except BaseException:
        fault = traceback.format_exc()
    return json.dumps([said.getvalue(), fault])


for line in sys.stdin:
    reading, writing = os.pipe()
    if not os.fork():
        os.write(writing, answer(*json.loads(line)).encode())
        os._exit(0)
    os.close(writing)
    with open(reading) as told:
        print(told.read(), flush=True)
    os.wait()
"""
Run = Callable[..., str]


@pytest.fixture(scope="module")
def parent() -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-c", PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        yield process
        assert process.stdin is not None
        process.stdin.close()


@pytest.fixture
def run(parent: subprocess.Popen[str], tmp_path: Path, state: Path) -> Run:
    """Run a script in a process in which no table was opened yet and nothing foreign is registered; return its words."""
    (tmp_path / "mine.py").write_text(FOREIGN)

    def run_script(script: str, text: str = "") -> str:
        assert parent.stdin is not None
        assert parent.stdout is not None
        parent.stdin.write(json.dumps([str(tmp_path), str(state), script, text]) + "\n")
        parent.stdin.flush()
        said, fault = json.loads(parent.stdout.readline())
        assert not fault, fault
        return str(said)

    return run_script


def test_a_question_that_is_not_registered_is_refused(run: Run) -> None:
    script = """
from mine import *
from sordino.errors import QuestionRefused
try:
    protect(None).plan(RowsAtLeast(), epsilon=1)
except QuestionRefused as refused:
    print("refused")
"""
    assert run(script) == "refused\n"


def test_a_foreign_procedure_is_planned_asked_stored_and_named(run: Run, tmp_path: Path) -> None:
    script = f"""
from mine import *
{REGISTER}
people = protect("budget.ledger")
plan = people.plan(RowsAtLeast(), epsilon=1)
assert plan.cost == sd.PureDP(1), plan.cost
assert any("mypackage 1.2" in note for note in plan.notes)
release = people.ask(plan, request_id="one")
assert abs(float(release.value) - 100) < 60
assert any("mypackage 1.2" in note for note in release.notes), release.notes
again = people.ask(RowsAtLeast(), epsilon=1, request_id="one")
assert again.value == release.value
print(release.to_json())
"""
    text = run(script)
    # Without the procedure and its event, the ledger sums and the record reads back.
    reader = """
import json, sys
import sordino as sd
ledger = sd.Ledger.existing("budget.ledger")
print(ledger.spent().describe())
charge, = ledger.charges()
print("mypackage 1.2" in charge.note)
release = sd.Release.from_dict(json.loads(sys.stdin.read()))
print(release.event.pure(), "mypackage 1.2" in str(release.notes))
from sordino.accounting import best
from sordino.core.accounting.event_fields import event_from_dict
print(best([event_from_dict(charge.event)], 1e-6).epsilon <= 1)
"""
    (tmp_path / "mine.py").unlink()
    assert run(reader, text).splitlines() == ["epsilon 1", "True", "1 True", "True"]


def test_a_foreign_procedure_is_audited(run: Run) -> None:
    script = f"""
from mine import *
from sordino import audit
{REGISTER}
here = pa.table({{"x": [1, 2, 3]}})
there = pa.table({{"x": [1, 2]}})
found = audit.audit_question(
    RowsAtLeast(), here, there, domain=sd.Domain({{"x": sd.Integer(0, 100)}}), neighbors="add_remove",
    privacy_unit="row", epsilon=1, samples=1000,
)
print(found is not None)
"""
    assert run(script) == "True\n"


def test_foreign_code_states_whose_it_is(run: Run) -> None:
    script = """
from mine import *
from sordino.errors import DeclarationError
try:
    register_procedure(RowsAtLeast, plan_rows)
except DeclarationError as refused:
    print("module and version" in str(refused))
"""
    assert run(script) == "True\n"


def test_the_robust_questions_are_registered_from_the_laboratory(run: Run) -> None:
    """The curator imports none of them: their procedure comes with their name."""
    script = """
import sordino.ask.curator.curator, sys
print("sordino.lab.robust" in sys.modules)
import sordino as sd
sd.smooth
print("sordino.lab.robust" in sys.modules)
"""
    assert run(script).split() == ["False", "True"]


@pytest.mark.parametrize("name", ["smooth", "propose_test_release", "sample_and_aggregate"])
def test_robust_names_stay(name: str) -> None:
    assert callable(getattr(sd, name))


def test_what_is_written_before_the_charge_can_read_nothing(run: Run) -> None:
    """A procedure that runs a statement while it writes it fails, in a plan and in a question, and nothing is charged."""
    script = f"""
from mine import *
{REGISTER}
write = CountRows.write
CountRows.write = lambda self, rows: rows.run(write(self, rows))
people = protect(None)
for call in (people.plan, people.ask):
    try:
        call(RowsAtLeast(), epsilon=1)
    except AttributeError as error:
        print("run" in str(error))
print(people.spent.describe())
"""
    assert run(script) == "True\nTrue\nepsilon 0\n"


def test_what_is_registered_late_is_refused_whatever_it_is(run: Run) -> None:
    script = f"""
from mine import *
from sordino.core.estimates.noisy import LAWS
from sordino.core.mechanisms.noise_choice import register_noise
from sordino.errors import DeclarationError
from sordino.synth.methods import register_synthesizer
protect(None)
for register in (
    lambda: {REGISTER.strip()},
    lambda: register_event("late")(DoubledLaplace),
    lambda: LAWS.register("late")(DoubledLaplace),
    lambda: register_noise(lambda sensitivity, loss: None),
    lambda: register_synthesizer("late", RowsAtLeast),
):
    try:
        register()
    except DeclarationError as refused:
        print("table 'people' is open" in str(refused), "before the first table is opened" in str(refused))
# Sordino's own modules register themselves when they are first used
print(sd.smooth("median", "x").statistic)
"""
    assert run(script) == "True True\n" * 5 + "median\n"


@pytest.mark.parametrize(
    "wrong",
    [
        "event=DoubledLaplace(Fraction(1, 100))",
        "cost=sd.PureDP(Fraction(1, 100))",
        "asked=sd.PureDP(Fraction(1, 100))",
        "question=RowsAtLeast('others')",
    ],
)
def test_a_foreign_plan_is_priced_anew_and_refused_where_it_states_something_else(run: Run, wrong: str) -> None:
    script = f"""
from dataclasses import replace
from mine import *
from sordino.errors import DeclarationError
def plan_cheaply(question, table, *, asked):
    return replace(plan_rows(question, table, asked=asked), {wrong})
register_procedure(RowsAtLeast, plan_cheaply, module="mypackage", version="1.2")
people = protect(None)
for call in (people.plan, people.ask):
    try:
        call(RowsAtLeast(), epsilon=1)
    except DeclarationError as refused:
        print("mypackage 1.2" in str(refused), "another question, event or cost" in str(refused))
print(people.spent.describe())
"""
    assert run(script) == "True True\nTrue True\nepsilon 0\n"


def test_a_foreign_procedure_that_fails_after_the_charge_is_said_to_be_its_providers(run: Run) -> None:
    script = f"""
from mine import *
{REGISTER}
from sordino.errors import ChargedError
def release(self, statements, rows, rng):
    raise ValueError(str(rows.run(statements).to_pylist()))
CountRows.release = release
people = protect(None)
try:
    people.ask(RowsAtLeast(), epsilon=1)
except ChargedError as failed:
    text = str(failed)
    print("mypackage 1.2" in text, "defect of Sordino" in text, "100" in text, failed.__cause__ or failed.__context__)
print(people.spent.describe())
"""
    assert run(script) == "True False False None\nepsilon 1\n"


def test_foreign_code_plans_none_of_sordinos_own_questions(run: Run) -> None:
    script = """
from mine import *
from sordino.ask.queries.aggregation import Aggregation
from sordino.errors import DeclarationError
try:
    register_procedure(Aggregation, plan_rows, module="mypackage", version="1.2")
except DeclarationError as refused:
    print("own question" in str(refused))
"""
    assert run(script) == "True\n"
