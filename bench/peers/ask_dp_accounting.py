"""dp-accounting's side of bench/peers/side_by_side.py: it composes, and asks no table."""

from __future__ import annotations

import dp_accounting as accounting
from dp_accounting import pld
from peers.peer_process import serve


class DPAccounting:
    """The accountant of privacy loss distributions, at its default grid."""

    def compose(self, law: str, scale: float, times: int, delta: float) -> float:
        event = (accounting.LaplaceDpEvent if law == "laplace" else accounting.GaussianDpEvent)(scale)
        accountant = pld.PLDAccountant()
        accountant.compose(accounting.SelfComposedDpEvent(event, times))
        return float(accountant.get_epsilon(delta))


if __name__ == "__main__":
    serve(DPAccounting)
