"""The rows of a live run, asked for what tables, figures and charts need.

Ratios are taken prompt by prompt between two arms and never between two averages, so that a long
answer or a slow minute does not decide. Knows rows; no model. Called by the live reports.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from app.bench.arms import ArmResult
from app.bench.interleaving import Row
from app.bench.statistics import Estimate, estimate_median

__all__ = ["ArmTotals", "Measurements", "decode_rate", "rolling_median", "total_rate"]

Rate = Callable[[ArmResult], float | None]
Key = TypeVar("Key")


def decode_rate(result: ArmResult) -> float | None:
    """Tokens per second of decode steps."""
    return result.decode_rate


def total_rate(result: ArmResult) -> float | None:
    """Tokens per second of the whole call."""
    return result.total_rate


@dataclass(frozen=True, slots=True)
class ArmTotals:
    """Sums over the answers of one arm. What an arm does not tell is None."""

    num_answers: int
    num_tokens: int
    decode_rate: float | None
    total_rate: float | None
    first_token_seconds: Estimate
    tokens_per_step: float | None
    mean_width: float | None
    mean_rows: float | None
    drafting_share: float | None
    accepted_lengths: Counter[int]
    drafted_by_source: Counter[str]
    accepted_by_source: Counter[str]
    num_different: int
    remember_seconds: Estimate
    least_known_length: int

    @property
    def acceptance_rate(self) -> float | None:
        """Accepted of drafted tokens."""
        return _quotient(self.accepted_by_source.total(), self.drafted_by_source.total())

    def acceptance_of(self, source: str) -> float | None:
        """Accepted of the tokens drafted from one source."""
        return _quotient(self.accepted_by_source[source], self.drafted_by_source[source])


class Measurements:
    """Rows by arm and prompt, in the order of the run."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self.rows = list(rows)
        self._results: dict[str, dict[tuple[str, int], Row]] = {}
        for row in self.rows:
            self._results.setdefault(row.arm, {})[row.prompt_id, row.turn] = row

    @property
    def arms(self) -> list[str]:
        """Names of the arms, in the order in which they are listed."""
        return list(self._results)

    @property
    def categories(self) -> list[str]:
        """Categories in the order of their first prompt."""
        return list(dict.fromkeys(row.category for row in self.rows))

    def of(self, arm: str, keep: Callable[[Row], bool] = lambda _: True) -> list[Row]:
        """The rows of one arm."""
        return [row for row in self._results.get(arm, {}).values() if keep(row)]

    def ratios(
        self,
        arm: str,
        base: str,
        rate: Rate,
        keep: Callable[[Row], bool] = lambda _: True,
        *,
        same_text: bool = False,
    ) -> list[float]:
        """Rate of `arm` over that of `base`, for every prompt at which both have one.

        Args:
            keep: asked of the row of `base`.
            same_text: leave out pairs whose answers differ.
        """
        ratios = []
        for base_row, row in self.pairs(arm, base):
            if not keep(base_row) or (same_text and not _is_same_text(base_row, row)):
                continue
            ours, theirs = rate(row.result), rate(base_row.result)
            if ours is not None and theirs is not None:
                ratios.append(ours / theirs)
        return ratios

    def speedup(
        self,
        arm: str,
        base: str,
        rate: Rate = decode_rate,
        keep: Callable[[Row], bool] = lambda _: True,
        *,
        same_text: bool = False,
    ) -> Estimate:
        """Median of the ratios, with its interval."""
        return estimate_median(self.ratios(arm, base, rate, keep, same_text=same_text))

    def pairs(self, arm: str, base: str) -> list[tuple[Row, Row]]:
        """Rows of `base` and `arm` that answer the very same prompt."""
        others = self._results.get(arm, {})
        return [
            (row, others[key])
            for key, row in self._results.get(base, {}).items()
            if key in others and others[key].prompt_sha256 == row.prompt_sha256
        ]

    def num_different_texts(self, arm: str, base: str) -> int:
        """Pairs whose answers are not the same."""
        return sum(not _is_same_text(row, other) for row, other in self.pairs(arm, base))

    def totals(self, arm: str, keep: Callable[[Row], bool] = lambda _: True) -> ArmTotals:
        """Sums over the answers of one arm."""
        rows = self.of(arm, keep)
        results = [row.result for row in rows]
        num_steps = sum(result.num_steps for result in results)
        num_nodes = sum(result.num_nodes for result in results)
        num_rows = sum(result.num_rows for result in results)
        decode_seconds = sum(result.decode_seconds for result in results)
        lengths = _sum_of(result.accepted_lengths for result in results)
        num_accepted = sum(length * count for length, count in lengths.items())
        return ArmTotals(
            num_answers=len(results),
            num_tokens=sum(len(result.token_ids) for result in results),
            decode_rate=_quotient(sum(r.num_decoded for r in results), decode_seconds),
            total_rate=_quotient(
                sum(len(r.token_ids) for r in results), sum(r.total_seconds for r in results)
            ),
            first_token_seconds=estimate_median([r.prefill_seconds for r in results]),
            tokens_per_step=1 + num_accepted / num_steps if num_steps else None,
            mean_width=_quotient(num_nodes, num_steps) if num_nodes else None,
            mean_rows=_quotient(num_rows, num_steps) if num_rows else None,
            drafting_share=(
                _quotient(sum(r.draft_seconds for r in results), decode_seconds)
                if num_nodes
                else None
            ),
            accepted_lengths=lengths,
            drafted_by_source=_sum_of(result.drafted_by_source for result in results),
            accepted_by_source=_sum_of(result.accepted_by_source for result in results),
            num_different=sum(row.difference is not None for row in rows),
            remember_seconds=estimate_median(
                [r.remember_seconds for r in results if r.remember_seconds is not None]
            ),
            least_known_length=min((r.known_length for r in results), default=0),
        )

    def loop_share(self, arm: str) -> float | None:
        """Share of the tokens of an arm's answers that stand in exact loops at their ends."""
        rows = self.of(arm)
        return _quotient(
            sum(row.loop_length for row in rows), sum(len(row.result.token_ids) for row in rows)
        )


def _is_same_text(one: Row, other: Row) -> bool:
    return one.result.token_ids == other.result.token_ids


def _sum_of(counters: Iterable[Counter[Key]]) -> Counter[Key]:
    total: Counter[Key] = Counter()
    for counter in counters:
        total.update(counter)
    return total


def _quotient(dividend: float, divisor: float) -> float | None:
    return dividend / divisor if divisor else None


def rolling_median(values: Sequence[float], width: int) -> list[float]:
    """At each place, the median of the last `width` values up to there."""
    return [
        sorted(values[max(0, at + 1 - width) : at + 1])[min(at, width - 1) // 2]
        for at in range(len(values))
    ]
