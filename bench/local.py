"""How long the local model takes for a million respondents at epsilon 1, beside pure-ldp and multi-freq-ldpy.

Run `python bench/local.py [--json] [--respondents 1000000]`. Client: answers (label numbers) to a batch of reports;
server: reports to estimated shares; the best of three runs, in one process of one thread each (its peak memory beside).
The other libraries are measured in the same run where they are installed, respondent by respondent as their interfaces
ask, on fewer people where a run would take minutes (the figure is scaled up, and `of` says from how many).

`--hitters` searches frequent texts of an open domain instead: how many of the ten most frequent of 2,000 made-up words of
six letters are found, how many texts that nobody has, and the mean error of the shares of those found, by the steps that
`HeavyHitters` chooses (PEM's) and by a character a group (TreeHist's), 5 runs each. pure-ldp has both too, but with its
default oracle it takes minutes for a few thousand reports, so there is no row of it.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

RESPONDENTS = 1_000_000
OURS = {"GRR": 14, "OUE": 1024, "OLH": 1024, "Hadamard": 1024, "SubsetSelection": 14}
LIMITS = {"GRR": (0.03, 0.01), "OUE": (1.5, 0.25), "OLH": (0.06, 0.8), "Hadamard": (0.05, 0.01)}
THEIRS = {"GRR": 14, "OUE": 1024, "OLH": 1024}
SOME = {"GRR": 100_000, "OUE": 5_000, "OLH": 5_000}
REPEATS = 3


def run(respondents: int = RESPONDENTS) -> dict[str, Any]:
    """Measure every protocol, each in a process of its own; return plain figures (seconds, megabytes)."""
    figures: dict[str, Any] = {}
    for library, protocols in (("sordino", OURS), ("pure-ldp", THEIRS), ("multi-freq-ldpy", THEIRS)):
        for name, labels in protocols.items():
            command = [sys.executable, __file__, "--one", library, name, str(labels), str(respondents)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            last = done.stderr.strip().splitlines()[-1:] or ["it ended without words"]
            figures[f"{library} {name} k={labels}"] = (
                json.loads(done.stdout) if done.returncode == 0 else {"skipped": last[0][:120]}
            )
    return figures


LETTERS = "abcdefgh"
SEARCHES = ("wide steps", "a character a group")


def search(respondents: int = 20_000, *, epsilon: int = 3, runs: int = 5) -> dict[str, Any]:
    """Search the same frequent texts by each method; return means over runs."""
    figures: dict[str, Any] = {}
    for name in SEARCHES:
        found = []
        for seed in range(runs):
            draw = np.random.Generator(np.random.PCG64(seed))
            words = np.unique(["".join(draw.choice(list(LETTERS), 6)) for _ in range(2000)])
            words = draw.permutation(words)
            weights = 1 / np.arange(1, len(words) + 1)
            answers = draw.choice(words, respondents, p=weights / weights.sum()).tolist()
            shares = _searched(name, answers, epsilon)
            truth = Counter(answers)
            top = [word for word, _ in truth.most_common(10)]
            errors = [abs(share - truth[word] / respondents) for word, share in shares.items() if truth[word]]
            found.append(
                (sum(w in shares for w in top), sum(not truth[w] for w in shares), np.mean(errors or [np.nan]))
            )
        top_ten, false, mean = (float(np.nanmean(column)) for column in zip(*found, strict=True))
        figures[name] = {"of the top ten": top_ten, "held by nobody": false, "error": mean}
    return figures


def _searched(name: str, answers: list[str], epsilon: int) -> dict[str, float]:
    """Return the texts that one method finds, with their shares."""
    from sordino.core.noise.rng import Rng
    from sordino.local import HeavyHitters

    made = HeavyHitters(LETTERS, length=6, epsilon=epsilon)
    if "character" in name:
        digits = made.levels[-1]
        steps = sorted({-(-digits * i // 6) for i in range(1, 7)})
        made = HeavyHitters(LETTERS, length=6, epsilon=epsilon, levels=(*steps, digits))
    table = made.find(made.perturb(answers, Rng.secure())).table
    return dict(zip(table["label"].to_pylist(), table["frequency"].to_pylist(), strict=True))


def main() -> None:
    """Print the figures as a table, or as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--respondents", type=int, default=RESPONDENTS)
    parser.add_argument("--hitters", action="store_true", help="search frequent texts instead")
    parser.add_argument("--one", nargs=4, metavar=("LIBRARY", "PROTOCOL", "LABELS", "N"))
    options = parser.parse_args()
    if options.one:
        library, name, labels, respondents = options.one
        print(json.dumps(one(library, name, int(labels), int(respondents))))
        return
    figures = search() if options.hitters else run(options.respondents)
    if options.json:
        print(json.dumps(figures, indent=2))
        return
    if options.hitters:
        for name, found in figures.items():
            says = "".join(f"{what}: {value:<10.4g}" for what, value in found.items())
            print(f"{name:<32}{says}")
        return
    print(f"{options.respondents:,} respondents, epsilon 1{'client s':>29}{'server s':>12}{'MB':>8}")
    for name, found in figures.items():
        if "skipped" in found:
            print(f"{name:<42} skipped: {found['skipped']}")
            continue
        limit = "" if found["within"] is None else " within the limits" if found["within"] else " OVER THE LIMITS"
        of = "" if found["of"] == options.respondents else f" (scaled up from {found['of']:,})"
        print(f"{name:<42}{found['client']:>10.4f}{found['server']:>12.4f}{found['megabytes']:>8}{limit}{of}")


def one(library: str, name: str, labels: int, respondents: int) -> dict[str, Any]:
    """Measure one protocol of one library in this process."""
    if library == "sordino":
        found = _ours(name, labels, respondents)
    elif library == "pure-ldp":
        found = _pure_ldp(name, labels, min(respondents, SOME[name]), respondents)
    else:
        found = _multi_freq(name, labels, min(respondents, SOME[name]), respondents)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1024 if sys.platform != "darwin" else 1024**2)
    limits = LIMITS.get(name) if library == "sordino" and respondents == RESPONDENTS else None
    within = None
    if limits:
        within = found["client"] <= limits[0] and found["server"] <= limits[1] and peak <= 500
    return {**found, "megabytes": round(peak), "within": within}


def _answers(labels: int, count: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    return np.random.Generator(np.random.PCG64(1)).integers(0, labels, count)


def _ours(name: str, labels: int, respondents: int) -> dict[str, Any]:
    from sordino import local
    from sordino.core.noise.rng import Rng

    protocol, rng = getattr(local, name)(range(labels), epsilon=1), Rng.secure()
    answers = _answers(labels, respondents).astype(np.int32)
    client, server = float("inf"), float("inf")
    for _ in range(REPEATS):
        start = time.perf_counter()
        reports = protocol.perturb(answers, rng)
        middle = time.perf_counter()
        shares = protocol.estimate(protocol.count(reports)).frequencies
        end = time.perf_counter()
        client, server = min(client, middle - start), min(server, end - middle)
        del reports
    if abs(float(shares.sum()) - 1) > 0.5:
        raise AssertionError("the estimate is not one")
    return {"client": client, "server": server, "of": respondents}


def _pure_ldp(name: str, labels: int, some: int, respondents: int) -> dict[str, Any]:
    import pure_ldp.frequency_oracles as oracles

    kinds: dict[str, tuple[Any, Any, dict[str, Any]]] = {
        "GRR": (oracles.DEClient, oracles.DEServer, {}),
        "OUE": (oracles.UEClient, oracles.UEServer, {"use_oue": True}),
        "OLH": (oracles.LHClient, oracles.LHServer, {"use_olh": True}),
    }
    client_kind, server_kind, more = kinds[name]
    client, server = client_kind(epsilon=1, d=labels, **more), server_kind(epsilon=1, d=labels, **more)
    answers = (_answers(labels, some) + 1).tolist()
    start = time.perf_counter()
    reports = [client.privatise(answer) for answer in answers]
    middle = time.perf_counter()
    server.aggregate_all(reports)
    server.estimate_all(range(1, labels + 1))
    return _scaled(start, middle, some, respondents)


def _multi_freq(name: str, labels: int, some: int, respondents: int) -> dict[str, Any]:
    from multi_freq_ldpy.pure_frequency_oracles.GRR import GRR_Aggregator_MI, GRR_Client
    from multi_freq_ldpy.pure_frequency_oracles.LH import LH_Aggregator_MI, LH_Client
    from multi_freq_ldpy.pure_frequency_oracles.UE import UE_Aggregator_MI, UE_Client

    calls: dict[str, tuple[Callable[[int], Any], Callable[[list[Any]], Any]]] = {
        "GRR": (lambda v: GRR_Client(v, labels, 1), lambda r: GRR_Aggregator_MI(r, labels, 1)),
        "OUE": (lambda v: UE_Client(v, labels, 1, True), lambda r: UE_Aggregator_MI(r, 1, True)),
        "OLH": (lambda v: LH_Client(v, labels, 1, True), lambda r: LH_Aggregator_MI(r, labels, 1, True)),
    }
    perturb, aggregate = calls[name]
    answers = _answers(labels, some).tolist()
    perturb(answers[0])  # compiles, where it does
    start = time.perf_counter()
    reports = [perturb(answer) for answer in answers]
    middle = time.perf_counter()
    aggregate(reports)
    return _scaled(start, middle, some, respondents)


def _scaled(start: float, middle: float, some: int, respondents: int) -> dict[str, Any]:
    end, factor = time.perf_counter(), respondents / some
    return {"client": (middle - start) * factor, "server": (end - middle) * factor, "of": some}


if __name__ == "__main__":
    main()
