"""What a ledger is, in thirty lines: a cap, shares, charges, requests. It keeps nothing and is shared with nobody."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction

Outcome = tuple[str, str]  # a word, or the name of the error, and a charge or an answer


@dataclass
class ReferenceLedger:
    """Say what each call to a ledger has to come to."""

    cap: Fraction
    spent: Fraction = Fraction(0)
    charges: list[list[str]] = field(default_factory=list)  # state, question, answer
    requests: dict[str, int] = field(default_factory=dict)
    shares: dict[str, list[Fraction]] = field(default_factory=dict)  # cap and spent

    def recall(self, request: str, question: str) -> Outcome | None:
        """Return what a request made before comes to, None where it is new."""
        if request not in self.requests:
            return None
        state, asked, answer = self.charges[self.requests[request]]
        words = {"reserved": ("InDoubt", ""), "failed": ("ChargedError", ""), "committed": ("answered", answer)}
        return ("QuestionRefused", "") if asked != question else words[state]

    def charge(self, epsilon: Fraction, question: str, request: str | None, spender: str | None) -> Outcome:
        """Charge, where the request is new and neither the cap nor the share would be passed."""
        before = None if request is None else self.recall(request, question)
        if before is not None:
            return before
        if spender is not None and spender not in self.shares:
            return "UnknownName", ""
        share = self.shares.get(str(spender), [self.cap, Fraction(0)])
        if self.spent + epsilon > self.cap or (spender is not None and share[1] + epsilon > share[0]):
            return "BudgetExhausted", ""
        self.spent, share[1] = self.spent + epsilon, share[1] + epsilon
        self.charges.append(["reserved", question, ""])
        if request is not None:
            self.requests[request] = len(self.charges) - 1
        return "charged", f"c-{len(self.charges):04d}"

    def close(self, number: int, state: str, answer: str) -> Outcome:
        """Commit or fail a charge, once."""
        if self.charges[number][0] != "reserved":
            return "LedgerError", ""
        self.charges[number][0::2] = [state, answer]
        return state, ""

    def share(self, spender: str, cap: Fraction) -> Outcome:
        """Declare a share that is not above the cap, once."""
        if spender not in self.shares and cap <= self.cap:
            self.shares[spender] = [cap, Fraction(0)]
        known = self.shares.get(spender)
        return ("DeclarationError" if known is None else "shared" if known[0] == cap else "DeclarationChanged"), ""
