"""A classroom: the pages over a generated census, an account and a budget for each student, and an attack as the last task.

It serves made-up people alone, and keeps no table of anyone's: so it may show, after a guess, what is true, and may draw the
same noise for everybody from a seed. Nothing here takes a project file.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, Request
from fastapi.responses import Response
from starlette.concurrency import run_in_threadpool

from sordino.ask.project.load import Project, load_project
from sordino.ask.project.serve_settings import ServeSettings
from sordino.core.accounting.belief import posterior_bounds
from sordino.core.errors import DeclarationError, NotAllowed, arg
from sordino.core.ledger.ledger import Ledger
from sordino.core.loss import Number, PureDP, format_number
from sordino.core.noise.rng import Rng
from sordino.core.templates import open_templates
from sordino.lab.datasets.census import write_census_project
from sordino.serve.server.access import Visitor
from sordino.serve.server.accounts import Accounts
from sordino.serve.server.curator_service import CuratorService
from sordino.serve.server.database import ServerDatabase
from sordino.serve.server.http_app import add_routes
from sordino.serve.server.http_guard import HttpGuard
from sordino.serve.server.http_request import service_of
from sordino.serve.workbench.page_route import PAGES, Changing, PageRoute, Reading, go, page, pick
from sordino.serve.workbench.workbench_app import workbench_app

if TYPE_CHECKING:
    import pyarrow as pa

CLASS_PAGES = APIRouter(route_class=PageRoute, include_in_schema=False)
TABLE = "people"
TEACHER = "teacher"
MOST_STUDENTS = 200
_MOST_ROWS = 10_000_000
# Letters and digits that nobody mistakes for others when a card is read: 31 of them, 12 are 59 bits.
_READABLE = "abcdefghjkmnpqrstuvwxyz23456789"


@dataclass(frozen=True, slots=True)
class Card:
    """What a student, or the teacher, is given on paper: the account, its password, and a token for programs."""

    name: str
    password: str
    token: str


@dataclass(frozen=True, slots=True)
class Target:
    """The person of a student's last task: who lives alone in a household, and whether they are in the table at all."""

    household: int
    is_in: bool


@dataclass(frozen=True, slots=True)
class Score:
    """The guesses of a class beside what its budgets allow: `right` of `guesses`, and the most that may be expected."""

    guesses: int
    right: int
    allowed: float


class Classroom:
    """The census of a class, the person that each student is to find out about, and the guesses that were handed in."""

    def __init__(
        self, service: CuratorService, targets: dict[str, Target], *, epsilon: Fraction, rows: int, seed: int | None
    ) -> None:
        self.service = service
        self.epsilon = epsilon
        self.rows = rows
        self.seed = seed
        self._targets = targets
        self._guesses: dict[str, bool] = {}
        self._lock = threading.Lock()

    @property
    def students(self) -> int:
        """How many students the class has."""
        return len(self._targets)

    def target(self, visitor: Visitor) -> Target | None:
        """Return the person whom a student is to find out about; None for the teacher."""
        return self._targets.get(visitor.name)

    def guess_of(self, visitor: Visitor) -> bool | None:
        """Return what a student handed in; None before."""
        return self._guesses.get(visitor.name)

    def hand_in(self, visitor: Visitor, *, is_in: bool) -> None:
        """Take a student's guess, once. Raises NotAllowed for the teacher, and for a second guess."""
        if visitor.name not in self._targets:
            raise NotAllowed("a guess is handed in by a student, who has a person to guess about")
        with self._lock:
            if visitor.name in self._guesses:
                raise NotAllowed("your guess was handed in already, and the answer shown: it stands")
            self._guesses[visitor.name] = is_in

    def score(self) -> Score:
        """Return how many guesses are right, and the share of right ones that nobody exceeds by more than luck.

        Theorem: a guess is right with probability at most e^epsilon / (1 + e^epsilon), and one count at epsilon attains it.
        Proof: each person is in the table by the toss of a coin, and a student's answers together are epsilon-private under
        add_remove, so after any of them either case is at most e^epsilon times as likely as the other. The geometric noise
        of one count has P(x - 1) = e^-epsilon P(x) above 0, and the likelier case is right as often as that allows.
        """
        with self._lock:
            right = sum(self._targets[name].is_in == guess for name, guess in self._guesses.items())
            return Score(len(self._guesses), right, self.chance(self.epsilon))

    def chance(self, epsilon: Fraction) -> float:
        """Return the most often that a guess is right after answers of a total `epsilon`."""
        return posterior_bounds(float(epsilon), prior=0.5)[1]


def open_classroom(
    directory: Path,
    *,
    students: int,
    epsilon: Number,
    rows: int = 30_000,
    seed: int | None = None,
    accounts: Callable[[ServerDatabase], Accounts] | None = None,
) -> tuple[Classroom, Sequence[Card]]:
    """Return a class over a census that is generated into an empty directory, and a card for the teacher and each student.

    Each student may spend `epsilon`, and the table's cap is what all of them may spend together. With a `seed` the census
    is that of the seed, and the noise of each student's answers begins anew from it: whoever asks the same questions in
    the same order gets the same numbers, each marked NOT PRIVATE, and the ledger is kept in memory. Passwords and tokens
    are secret either way. `accounts` opens the accounts of the store, for tests. Raises DeclarationError.
    """
    check_class(students=students, rows=rows)
    share = PureDP(epsilon)
    amount = share.amounts()["epsilon"]
    if amount == 0:
        raise DeclarationError(f"{arg('epsilon')} must be above 0: a student without a budget asks nothing")
    rng = Rng.secure() if seed is None else Rng.seeded(seed)
    project, targets, count = _write_class(directory, students=students, rows=rows, rng=rng)
    cap = PureDP(amount * students)
    budget = replace(
        project.budget(TABLE), cap=cap, reason=f"a class of {students}, each of whom may spend {share.describe()}"
    )
    if seed is not None:
        budget = replace(budget, ledger=Ledger.open(None, cap=cap))
    settings = ServeSettings(str(directory / "class.db"), log="off")
    project = replace(project, budgets=MappingProxyType({TABLE: budget}), serve=settings)
    service = CuratorService(project, ServerDatabase.open(settings.store), seed=seed)
    if accounts is not None:
        service.account_service.accounts = accounts(service.store)
    cards = [_add_account(service, TEACHER, "officer")]
    for name in targets:
        cards.append(_add_account(service, name, "analyst"))
        service.set_share("the class", name, TABLE, lambda _: share)
    return Classroom(service, targets, epsilon=amount, rows=count, seed=seed), cards


def check_class(*, students: int, rows: int) -> None:
    """Raise DeclarationError for a class that is too small or too large, before anything is written."""
    if not 1 <= students <= MOST_STUDENTS:
        raise DeclarationError(f"{arg('students')} must be from 1 to {MOST_STUDENTS}, not {students}")
    if not 1000 <= rows <= _MOST_ROWS:
        raise DeclarationError(f"{arg('rows')} must be from 1,000 to {_MOST_ROWS:,}, not {rows}")


def _write_class(directory: Path, *, students: int, rows: int, rng: Rng) -> tuple[Project, dict[str, Target], int]:
    """Write the census without those targets that a coin leaves out; return its project, the targets, and its rows."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    path = write_census_project(directory, rows, rng)
    data = directory / "census.parquet"
    census = pq.read_table(data)
    width = len(str(students))
    alone = _lone_households(census)
    targets: dict[str, Target] = {}
    for number in range(1, students + 1):
        household = alone.pop(rng.below(len(alone)))
        targets[f"student-{number:0{width}}"] = Target(household, bool(rng.bits(1)))
    absent = [target.household for target in targets.values() if not target.is_in]
    kept = census.filter(pc.invert(pc.is_in(census["household"], pa.array(absent, census["household"].type))))
    pq.write_table(kept, data)
    return load_project(path), targets, kept.num_rows


def _lone_households(census: pa.Table) -> list[int]:
    """Return the households of one person each, in order."""
    import pyarrow.compute as pc

    sizes = pc.value_counts(census["household"])
    return sorted(pair["values"] for pair in sizes.to_pylist() if pair["counts"] == 1)


def _add_account(service: CuratorService, name: str, role: str) -> Card:
    """Make an account with a password that is easy to type, and a token for programs."""
    rng = Rng.secure()
    letters = "".join(_READABLE[rng.below(len(_READABLE))] for _ in range(12))
    password = "-".join(letters[start : start + 4] for start in range(0, 12, 4))
    accounts = service.account_service.accounts
    account = accounts.add(name, role, password=password)
    return Card(name, password, accounts.make_token(account, "class")[1])


def write_cards(cards: Sequence[Card], *, address: str, epsilon: Fraction) -> str:
    """Return one HTML page of cards to print and cut: address, account, password, token, and the line for a notebook."""
    template = open_templates(PAGES).get_template("cards.html")
    return template.render(cards=cards, address=address, epsilon=format_number(epsilon), teacher=TEACHER)


# ---- The pages of the class: its tasks, and the guess that is the last of them


def classroom_app(classroom: Classroom) -> HttpGuard:
    """Return the application that serves a class: the workbench, and its tasks."""
    guard = workbench_app(classroom.service)
    guard.app.state.classroom = classroom
    add_routes(guard.app, CLASS_PAGES)
    return guard


@CLASS_PAGES.get("/tasks")
async def show_tasks(request: Request, session: Reading) -> Response:
    """Show the tasks; to a student who handed in a guess also what is true, to the teacher how the class did."""
    classroom: Classroom = request.app.state.classroom
    visitor = session.visitor
    target = classroom.target(visitor)
    guess = classroom.guess_of(visitor)
    tenth = classroom.epsilon / 10
    words: dict[str, Any] = {"target": target, "guess": guess, "rows": classroom.rows, "students": classroom.students}
    words |= {"share": format_number(classroom.epsilon), "cap": format_number(classroom.epsilon * classroom.students)}
    words |= {
        "tenth": format_number(tenth),
        "hundredth": format_number(tenth / 10),
        "seeded": classroom.seed is not None,
    }
    words |= {"alone": f"{classroom.chance(classroom.epsilon):.0%}"}
    words |= {"together": f"{classroom.chance(classroom.epsilon * classroom.students):.1%}"}
    words |= {"score": classroom.score() if target is None or guess is not None else None}
    if target is not None:
        status = await run_in_threadpool(service_of(request).budgets, visitor, TABLE)
        words["spent"] = status[0]["shares"][visitor.spender]["spent"]["epsilon"]
    return page(request, "tasks.html", session, **words)


@CLASS_PAGES.post("/tasks/guess")
async def hand_in_guess(request: Request, session: Changing) -> Response:
    """Take a student's guess."""
    classroom: Classroom = request.app.state.classroom
    fields = await pick(request, "guess")
    if fields["guess"] not in ("in", "out"):
        raise DeclarationError('must be "in" or "out"', key="guess")
    classroom.hand_in(session.visitor, is_in=fields["guess"] == "in")
    return go("/tasks")
