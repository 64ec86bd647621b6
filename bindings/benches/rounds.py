"""Measuring beside others: everybody takes turns, many times over, and the ratio is taken turn by turn.

A busy machine makes all of a turn slower; the ratios within it stay. What is shown is the median of the
turns, and in brackets the lower and upper quartile of the ratios.
"""

from __future__ import annotations

import gc
import statistics
from collections.abc import Callable

# Seconds that one turn of one contender takes, by any clock.
Turn = Callable[[], float]


def compare(title: str, unit: str, contenders: dict[str, Turn], rounds: int) -> None:
    """Runs and prints one table. The first contender is the one that the others are compared with."""
    first = next(iter(contenders))
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for turn in contenders.values():
        turn()  # Warm up.
    for _ in range(rounds):
        for name, turn in contenders.items():
            gc.collect()
            times[name].append(turn())
    print(f"\n{title}  ({rounds} rounds)\n")
    width = max(map(len, contenders))
    print(f"| {'':{width}} | {unit:>10} | ratio | quartiles     |")
    print(f"|{'-' * (width + 2)}|{'-' * 11}:|{'-' * 6}:|{'-' * 15}|")
    for name in contenders:
        ratios = [time / base for time, base in zip(times[name], times[first], strict=True)]
        low, middle, high = statistics.quantiles(ratios, n=4)
        shown = statistics.median(times[name]) * (1e3 if unit.startswith("ms") else 1e6)
        print(f"| {name:{width}} | {shown:10.1f} | {middle:5.2f} | {low:5.2f} - {high:5.2f} |")
