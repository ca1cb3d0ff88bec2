"""multi-freq-ldpy's side of bench/peers/side_by_side.py: a respondent at a time, as its clients are called."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from multi_freq_ldpy.pure_frequency_oracles.GRR import GRR_Aggregator_MI, GRR_Client
from multi_freq_ldpy.pure_frequency_oracles.LH import LH_Aggregator_MI, LH_Client
from multi_freq_ldpy.pure_frequency_oracles.UE import UE_Aggregator_MI, UE_Client
from peers.peer_process import serve


class MultiFreqLDPy:
    """Its frequency oracles, with the estimator by inversion, which it clips to shares that sum to one."""

    def local(self, protocol: str, labels: int, epsilon: float, answers: list[int]) -> Callable[[], Any]:
        if protocol == "GRR":
            reports = [GRR_Client(answer, labels, epsilon) for answer in answers]
            return lambda: GRR_Aggregator_MI(reports, labels, epsilon)
        if protocol == "OUE":
            vectors = [UE_Client(answer, labels, epsilon, True) for answer in answers]
            return lambda: UE_Aggregator_MI(vectors, epsilon, True)
        hashes = [LH_Client(answer, labels, epsilon, True) for answer in answers]
        return lambda: LH_Aggregator_MI(hashes, labels, epsilon, True)


if __name__ == "__main__":
    serve(MultiFreqLDPy)
