"""Charging: where a plan is charged, its answer made a Release, and its outcome put on record. It sees no data.

A failure after the charge stays charged, and no cause of it goes on, since it may quote a cell.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from types import MappingProxyType
from typing import Any, NoReturn

from sordino.ask.curator.plan import Answer, Plan
from sordino.ask.engines.engine import EngineFailed
from sordino.ask.queries.queryable import ReleaseContent
from sordino.core.accounting.event_fields import event_to_dict
from sordino.core.errors import ChargedError, InDoubt, LedgerError, QuestionRefused
from sordino.core.ledger.ledger import Ledger
from sordino.core.ledger.records import Charge, ShareSums, StoredAnswer, check_share, resume_charge
from sordino.core.loss import Loss, loss_from
from sordino.core.neighbors import Neighbors
from sordino.core.release import Release
from sordino.core.source import PrivateTable

DEFECT = (
    "this is a defect of Sordino, whatever the data: please report the question and the version, and ask it another way"
)
# What runs code from outside: an algorithm, or an engine. No later frame of its failure is of ours.
_CALL_OUT = (
    ("sordino.ask.curator.adaptive_session", "run_adaptive"),
    ("sordino.ask.curator.combined_charge", "run_parts"),
    ("sordino.ask.curator.plan", "run"),
    ("sordino.ask.curator.plan", "sample"),
)


class Charging:
    """Charges plans about one table to its ledger, and to the share of a spender where one is named.

    `private` is False where the noise is seeded, and `remarks` are notes about the table. One that `resumes` answers a request
    whose process stopped, under the charge that it made: no answer of it left, since an answer is stored first, and the
    first that is stored is the only one.

    So does every one where a request failed in passing (`Failure.passing`): for want of open files, or since a file was
    changed while it was read. Theorem: the failed tries and the answer together are as private as the one answer that was
    charged. Proof: let t be the number of tries that failed. An answer is stored before it leaves and a charge stores one,
    so nothing left of a failed try but that it failed, and why, in one of our own sentences. Whether a try fails in passing
    is decided by the machine and the files' sizes and times, a process F that sees neither cells nor noise, so the law of
    (t, answer) is that of F times that of a single answer, drawn with fresh noise that no failed try has used. For
    neighbors of the rows, F is the same and the second factor is what the charge is for. (F sees when a scan is under way,
    and how many there are: that is the channel of time, which docs/limits.md names.) A failure of any other cause is final:
    were one decided by rows or noise, asking until an answer comes would draw it from a law that they have cut.
    """

    def __init__(
        self,
        name: str,
        *,
        ledger: Ledger,
        declared: dict[str, Any],
        neighbors: Neighbors,
        private: bool,
        share: tuple[str, Loss] | None = None,
        resumes: bool = False,
        remarks: Callable[[], tuple[str, ...]] = tuple,
    ) -> None:
        self.name = name
        self._remarks = remarks
        self._resumes = resumes
        self.spender = None if share is None else share[0]
        self._share = None if share is None else check_share(*share, of=ledger.cap)
        self.ledger = ledger
        self.declaration = declaration_digest(name, declared)
        self.declared = declared
        self._neighbors = neighbors
        self._private = private
        self._on_record = ledger.is_declared(name, declared)
        if share is not None:
            self._on_record = ledger.is_share(*share) and self._on_record

    def declare(self, others: Mapping[str, PrivateTable] = MappingProxyType({})) -> None:
        """Put the declaration on the ledger's record, once, and those of the other private tables that a question reads.

        Raises DeclarationChanged where the ledger holds another one.
        """
        if not self._on_record:
            self.ledger.declare(self.name, self.declared)
            if self.spender is not None and self._share is not None:
                self.ledger.declare_share(self.spender, self._share)
            self._on_record = True
        for name, table in others.items():
            self.ledger.declare(name, dict(table.declaration))

    def spent(self) -> Loss:
        """Return what was spent from the budget, or from the spender's share of it."""
        share = self._read_share()
        return self.ledger.spent() if share is None else share.spent

    def remaining(self) -> Loss:
        """Return what may still be charged: what the budget leaves, and of it no more than the share does."""
        left = self.ledger.remaining()
        share = self._read_share()
        if share is None:
            return left
        most = share.remaining.amounts()
        return loss_from({name: min(amount, most[name]) for name, amount in left.amounts().items()})

    def _read_share(self) -> ShareSums | None:
        if self.spender is None or self._share is None:
            return None
        nothing = loss_from(dict.fromkeys(self._share.amounts(), Fraction(0)))
        return self.ledger.shares().get(self.spender, ShareSums(self._share, nothing))

    def recall(self, request: str, identity: str) -> StoredAnswer | None:
        """Return the stored answer of a request made before, None where it is new, or is to be resumed; as `Ledger.recall`."""
        try:
            return self.ledger.recall(request, identity)
        except ChargedError as failed:
            if failed.resumable or (self._resumes and isinstance(failed, InDoubt)):
                return None
            raise

    def charge(self, plan: Plan, *, identity: str, request: str | None) -> Charge | StoredAnswer:
        """Charge a plan of a declared table durably; another process may have answered the request in the meantime."""
        provider = f" [procedure of {plan.provider[:200]}]" if plan.provider else ""
        note = f"{name_tables(plan.table_shares)}: {plan.words}"
        longest = 1000 - len(provider)
        note = (note if len(note) <= longest else note[: longest - 3] + "...") + provider
        try:
            return self.ledger.charge(plan.event, note=note, question=identity, request=request, spender=self.spender)
        except InDoubt as doubt:
            if not self._resumes or doubt.charge is None:
                raise
            resumed = self.ledger.find(doubt.charge)
        return resume_charge(resumed, event_to_dict(plan.event), self.spender)

    def charge_new(self, plan: Plan) -> Charge:
        """Charge a plan that has no request id."""
        self.declare()
        charged = self.charge(plan, identity=plan.identity(), request=None)
        # without a request id a charge is always new
        assert isinstance(charged, Charge)
        return charged

    def read_stored(self, stored: StoredAnswer, plan: Plan) -> Release:
        """Return the stored answer of a request; raise QuestionRefused where it was asked at another loss."""
        release = Release.from_dict(json.loads(stored.answer))
        if release.cost != plan.cost:
            raise QuestionRefused(
                f"this request id was answered as {release.charge} at {release.cost.describe()}, not at "
                f"{plan.cost.describe()}; use a new request id"
            )
        return release

    def look_back(self, plan: Plan) -> Plan:
        """Return a plan with the charges that answered the same question before, and what is not known of the ledger."""
        charges = tuple(c.id for c in self.ledger.earlier(plan.identity()))
        return plan.seen_before(charges, self.ledger.unknown())

    def make_release(self, plan: Plan, charge: Charge, answer: Answer | ReleaseContent) -> Release:
        """Make the release of a charge from its answer."""
        content = answer if isinstance(answer, ReleaseContent) else ReleaseContent(*answer)
        return Release(
            question=plan.words,
            keys=content.keys,
            outputs=content.outputs,
            cost=plan.cost,
            spent=charge.spent if charge.share is None else charge.share.spent,
            remaining=charge.remaining if charge.share is None else charge.share.remaining,
            event=plan.event,
            neighbors=self._neighbors.relation,
            privacy_unit=plan.protects.describe_unit(),
            declaration=self.declaration,
            charge=charge.id,
            table_name=self.name,
            time=charge.time,
            private=self._private,
            request=charge.request,
            notes=(*plan.notes, *content.notes, *self._remarks()),
            chosen=content.chosen,
            layout=plan.procedure.layout,
            spender=charge.spender,
        )

    def commit(self, charge: Charge, text: str) -> None:
        """Put an answer on record; ChargedError where the ledger cannot, so that scripts do not ask again."""
        try:
            self.ledger.commit(charge, text)
            return
        except LedgerError:
            # reported below, without the ledger's own words
            pass
        raise ChargedError(
            f"the question was charged ({charge.id}) but its answer could not be stored, so it is not given; the charge "
            "stands. Check that the ledger can be written: that its disk has room, or that its server answers",
            charge=charge.id,
        )

    def fail(self, charge: Charge, failure: Failure) -> NoReturn:
        """Record that a charge has no answer, and raise ChargedError, with a cause in our own words if there is one."""
        cause = failure.cause
        resumable = failure.passing and charge.request is not None
        # It may lie on the server that failed: the charge then stays without an outcome.
        with contextlib.suppress(LedgerError):
            self.ledger.fail(charge, cause or "the engine could not compute the answer", resumable=resumable)
        hidden = "The cause is not shown, as it may hold data: check that the source is whole and readable"
        # the id itself is not quoted: a server binds it to the account, so that the visitor knows it under another name
        again = ". Ask again under the same request id: that charges nothing" if resumable else ""
        raise ChargedError(
            f"the question was charged ({charge.id}) but could not be computed; the charge stands. "
            f"{cause[:1].upper()}{cause[1:] or hidden}{again}",
            charge=charge.id,
            resumable=resumable,
        )


def name_tables(shares: Mapping[str, Fraction]) -> str:
    """Return the tables that a charge concerns, with the share of each if there are several: the beginning of its note.

    >>> name_tables({"visits": Fraction(1)}), name_tables({"visits": Fraction(1, 3), "calls": Fraction(2, 3)})
    ('visits', 'visits (1/3), calls (2/3)')
    """
    if len(shares) == 1:
        return next(iter(shares))
    return ", ".join(f"{name} ({share})" for name, share in shares.items())


def share_of_table(note: str, table: str) -> Fraction:
    """Return how much of a charge is of questions about a table, by the charge's note.

    >>> share_of_table("visits (1/3), calls (2/3): SELECT ...", "calls"), share_of_table("visits: the number of rows", "calls")
    (Fraction(2, 3), Fraction(0, 1))
    """
    if note.startswith(f"{table}: "):
        return Fraction(1)
    prefix = _TABLES.match(note)
    shares = _TABLE.findall(prefix.group()) if prefix else ()
    return sum((Fraction(share) for name, share in shares if name == table), Fraction(0))


def write_answer(release: Release, charge: Charge) -> str:
    """Return the JSON text that the ledger keeps: a charge's release without the tables that `from_dict` makes anew.

    So each key is in it once instead of four times: a ledger holds no text of more than a gigabyte, and to write it takes
    longer than to count rows. Errors and intervals, some of which take longer than the question, are computed where they
    are asked for.
    """
    return json.dumps(release.to_record(event=charge.event), ensure_ascii=False, allow_nan=False)


# The tables of a charge with several, as `name_tables` writes them; no question's own words come before its first colon.
_TABLE = re.compile(r"([^,():]+) \((\d+/\d+)\)(?:, )?")
_TABLES = re.compile(rf"(?:{_TABLE.pattern})+(?=: )")


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a charged question has no answer, in our own words or none, and whether the machine alone decided that."""

    cause: str = ""
    passing: bool = False


def failure_of(failure: Exception, provider: str = "") -> Failure:
    """Explain a failure in our own words: the engine's cause, or whose defect it is; nothing of its message.

    What the failure itself says may hold data. A failure of a procedure from outside is its provider's, and one of an engine
    from outside, or of the algorithm that `adapt` runs, is no defect of ours.
    """
    if isinstance(failure, EngineFailed):
        return Failure(failure.cause, failure.passing)
    if isinstance(failure, OSError | MemoryError):
        return Failure()
    if provider:
        return Failure(
            f"the procedure that answers it failed: it is code of {provider}, not Sordino's own. Report the question and both "
            "versions to its authors"
        )
    frames = [frame for frame, _ in traceback.walk_tb(failure.__traceback__)]
    called = [(str(frame.f_globals.get("__name__", "")), frame.f_code.co_name) for frame in frames]
    own = [(module, place) for module, place in called if module.startswith("sordino.")]
    return Failure("" if own and own[-1] in _CALL_OUT else DEFECT)


def declaration_digest(name: str, declaration: Mapping[str, Any]) -> str:
    """Return the digest of a table's declaration, by which releases and plans name it."""
    return hashlib.sha256(json.dumps([name, declaration], sort_keys=True).encode()).hexdigest()[:16]
