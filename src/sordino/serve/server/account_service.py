"""AccountService: what people do with accounts, passwords, tokens and approvals. Access is checked as in CuratorService."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Literal

from sordino.ask.project.serve_settings import ServeSettings
from sordino.core.errors import DeclarationError, NotAllowed, SignInNeeded
from sordino.serve.server.access import NotThere, Visitor, check_access, sees_all
from sordino.serve.server.accounts import Account, Accounts, Token
from sordino.serve.server.approvals import Approval, Approvals, TwoPerson
from sordino.serve.server.database import ServerDatabase
from sordino.serve.server.jobs import ShortQueue
from sordino.serve.server.logs import AuditLog
from sordino.serve.server.sessions import Session, Sessions, SignInThrottle


class AccountService:
    """Let people in, and let them see and change what their role includes."""

    def __init__(
        self, store: ServerDatabase, *, reserved: Collection[str] = (), settings: ServeSettings | None = None
    ) -> None:
        self._settings = ServeSettings("") if settings is None else settings
        self.two_person = TwoPerson(store, days=self._settings.two_person_days)
        self.accounts = Accounts(store, reserved=reserved)
        self.sessions = Sessions(store)
        self.approvals = Approvals(store)
        self.audit_log = AuditLog(store)
        self._throttle = SignInThrottle()
        self._sign_ins = ShortQueue(running=2, waiting=6)
        # whoever is signed in already sets passwords, however many strangers try theirs
        self._new_passwords = ShortQueue(running=1, waiting=3)

    # ---- who comes in

    def enter(self, secret: str, *, via: str = "token", address: str = "") -> Visitor:
        """Return the visitor whom a token lets in; raises SignInNeeded, or TooManyRequests after many failures."""
        try:
            return self.accounts.visitor_of_token(secret, via=via)
        except SignInNeeded:
            self._throttle.take_address(address)
            raise

    def check_password(self, name: str, password: str, *, address: str = "") -> Account:
        """Return the account that name and password fit; raises SignInNeeded or TooManyRequests. Every wrong try is in the log.

        A try counts against its name, and a wrong one against the address that it comes from, where that is known.
        """
        with self._sign_ins.hold():
            # counted before the hash, so that many at once are not all let through; a right password is given back
            self._throttle.take_password(name, address)
            try:
                account = self.accounts.check_password(name, password)
            except SignInNeeded:
                self.audit_log.append(_printable(name), "session.begin", "password", "refused")
                raise
        self._throttle.give_back(address)
        return account

    def record_refusal(self, name: str, *, address: str, by: str) -> None:
        """Log that a sign-in was refused, and count it; raises TooManyRequests where the address had too many."""
        self._throttle.take_address(address)
        self.audit_log.append_if_able(_printable(name), "session.begin", by, "refused")

    def sign_in(self, name: str, password: str, *, address: str = "") -> tuple[str, Session]:
        """Return the cookie of a new session for a name and its password, and the session."""
        return self.begin_session(self.check_password(name, password, address=address), by="password")

    def begin_session(self, account: Account, *, by: str) -> tuple[str, Session]:
        """Return the cookie of a new session for someone whose account is known, and the session."""
        cookie = self.sessions.begin(account)
        session = self.sessions.find(cookie)
        self.audit_log.append(session.visitor, "session.begin", by)
        return cookie, session

    def sign_out(self, visitor: Visitor, cookie: str) -> None:
        """End a session."""
        self.sessions.end(cookie)
        self.audit_log.append(visitor, "session.end", "")

    # ---- accounts

    def list_accounts(self, visitor: Visitor) -> list[Account]:
        """Return the accounts that a visitor may see: its own, or all."""
        check_access(visitor, "account.read")
        everything = sees_all(visitor, "account.read")
        return [one for one in self.accounts.all() if everything or one.id == visitor.account]

    def find_account(self, visitor: Visitor, name: str, action: str = "account.read") -> Account:
        """Return an account by its name, for an action; raises NotThere where it is another's and the role has its own alone."""
        check_access(visitor, action)
        account = self.accounts.find(name)
        check_access(visitor, action, owner=account.id)
        return account

    def add_account(
        self, visitor: Visitor, name: str, role: str, *, password: str | None = None, subject: str | None = None
    ) -> Account:
        """Add an account."""
        check_access(visitor, "account.change")
        with self._new_passwords.hold():
            account = self.accounts.add(name, role, password=password, subject=subject)
        self.two_person.note(visitor, "made", account=account.id)
        self.audit_log.append(visitor, "account.change", f"{name} added as {role}")
        return account

    def change_account(
        self, visitor: Visitor, name: str, *, role: str | None = None, disabled: bool | None = None
    ) -> Account:
        """Change an account's role, or disable it; nobody changes the account that it acts with."""
        account = self.find_account(visitor, name, "account.change")
        if account.id == visitor.account:
            raise NotAllowed("nobody changes the account that it acts with: another officer can")
        changed = self.accounts.change(account, role=role, disabled=disabled)
        if role is not None or disabled is False:
            self.two_person.note(visitor, "changed", account=account.id)
        self.audit_log.append(visitor, "account.change", f"{name}: {changed.role}{', disabled' * changed.disabled}")
        return changed

    def change_password(self, visitor: Visitor, name: str, new: str, *, old: str | None = None) -> None:
        """Set a password: one's own with the old one, another's as an officer. The account's sessions end."""
        account = self.find_account(visitor, name, "password.change")
        if account.id == visitor.account and account.has_password:
            if old is None:
                raise DeclarationError("is missing; state the present password", key="old")
            self.check_password(name, old)
        with self._new_passwords.hold():
            self.accounts.set_password(account, new)
        self.two_person.note(visitor, "reset the password of", account=account.id)
        self.audit_log.append(visitor, "password.change", name)

    # ---- tokens

    def list_tokens(self, visitor: Visitor, name: str) -> list[Token]:
        """Return the tokens of an account, without their secrets."""
        return self.accounts.tokens(self.find_account(visitor, name, "token.read"))

    def make_token(self, visitor: Visitor, label: str, *, expires: str | None = None) -> tuple[Token, str]:
        """Make a token for one's own account, of the share that the visitor spends; its secret is shown this once."""
        account = self.find_account(visitor, visitor.name, "token.make")
        token, secret = self.accounts.make_token(account, label, spender=visitor.spender, expires=expires)
        self.audit_log.append(visitor, "token.make", f"{account.name}: {label}")
        return token, secret

    def revoke_token(self, visitor: Visitor, number: int) -> None:
        """Revoke a token: one's own, or anyone's as an officer."""
        token = self.accounts.token(number)
        check_access(visitor, "token.revoke", owner=token.account)
        self.accounts.revoke_token(token)
        self.audit_log.append(visitor, "token.revoke", f"{number}: {token.name}")

    # ---- approvals and the log

    def list_approvals(self, visitor: Visitor, *, state: str | None = None) -> list[Approval]:
        """Return what waits for an officer, or did: an analyst's own, or all."""
        check_access(visitor, "approval.read")
        only = None if sees_all(visitor, "approval.read") else visitor.account
        return self.approvals.all(account=only, state=state)

    def find_approval(self, visitor: Visitor, number: int) -> Approval:
        """Return one of them by its number; raises NotThere."""
        check_access(visitor, "approval.read")
        approval = self.approvals.find(number)
        check_access(visitor, "approval.read", owner=approval.account)
        return approval

    def keep_form(self, visitor: Visitor, number: int, form: Mapping[str, Any]) -> None:
        """Keep the form by which a visitor's own question gets its answer once it is approved; raises NotThere for another's."""
        approval = self.find_approval(visitor, number)
        if approval.account != visitor.account:
            raise NotThere
        self.approvals.keep_form(approval, form)

    def decide(
        self, visitor: Visitor, number: int, decision: Literal["approved", "declined"], *, reason: str | None = None
    ) -> Approval:
        """Approve or decline; raises AlreadyDecided where another officer was first, and NotAllowed for one's own question.

        To approve what an account asks that the officer made, reset or funded lately is refused too, unless the project says
        `two_person = false`: then the log tells it.
        """
        check_access(visitor, "approval.decide")
        approval = self.approvals.find(number)
        # The account may have become an officer's after it asked as an analyst's.
        if approval.account == visitor.account:
            raise NotAllowed("nobody decides on a question of its own: another officer can")
        outcome: str = decision
        did = self.two_person.involvement(visitor, account=approval.account, spender=approval.spender)
        if did is not None and decision == "approved":
            what = f"the officer {did} the account or its share within {self._settings.two_person_days} days"
            if self._settings.two_person:
                raise NotAllowed(
                    f"{what}: another officer has to approve its questions until then (a site with one officer states two_person "
                    "= false in [serve])"
                )
            outcome = f"{decision}, by one person: {what}"
        decided = self.approvals.decide(approval, visitor, decision, reason=reason)
        self.audit_log.append(visitor, "approval.decide", f"{number}: {approval.name}", outcome)
        return decided

    def read_audit_log(
        self, visitor: Visitor, *, after: int = 0, most: int = 1000, account: str = "", about: str = "", day: str = ""
    ) -> list[dict[str, Any]]:
        """Return lines of the audit log, oldest first: all, or those of an account, about some words, of a day."""
        check_access(visitor, "audit.read")
        most = min(max(1, most), 10_000)
        return self.audit_log.lines(after=max(0, after), most=most, account=account, about=about, day=day)


def _printable(name: str) -> str:
    return name[:80] if name.isprintable() else "?"
