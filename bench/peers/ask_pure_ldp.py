"""pure-ldp's side of bench/peers/side_by_side.py: a respondent at a time, as its clients and servers are called."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pure_ldp.frequency_oracles as oracles
from peers.peer_process import serve

KINDS: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "GRR": (oracles.DEClient, oracles.DEServer, {}),
    "OUE": (oracles.UEClient, oracles.UEServer, {"use_oue": True}),
    "OLH": (oracles.LHClient, oracles.LHServer, {"use_olh": True}),
}


class PureLDP:
    """Its frequency oracles; labels are counted from one."""

    def local(self, protocol: str, labels: int, epsilon: float, answers: list[int]) -> Callable[[], Any]:
        client_kind, server_kind, more = KINDS[protocol]
        client, server = client_kind(epsilon=epsilon, d=labels, **more), server_kind(epsilon=epsilon, d=labels, **more)
        reports = [client.privatise(answer + 1) for answer in answers]

        def shares() -> list[float]:
            server.aggregate_all(reports)
            return [count / len(answers) for count in server.estimate_all(range(1, labels + 1))]

        return shares


if __name__ == "__main__":
    serve(PureLDP)
