"""The slow truth about the Trie and the drafter: plain lists of windows, no order, no sampling."""

from collections.abc import Collection, Sequence

from lookahead.agreement import HISTORY, OWN, PAIR, TOKEN
from lookahead.calibration import Calibration
from lookahead.candidates import MATCH_LENGTHS, MAX_MATCH_LENGTH
from lookahead.successors import NUM_SUCCESSORS
from tests.lookahead.weighing import weigh

Place = tuple[int, int]  # sequence id, offset
Found = dict[Place, tuple[int, tuple[int, ...]]]  # match length, continuation


def matches(tokens: Sequence[int], offset: int, context: Sequence[int]) -> int:
    """How many tokens before `offset` agree with the end of the context."""
    length = 0
    while (
        length < min(offset, len(context), MAX_MATCH_LENGTH)
        and tokens[offset - 1 - length] == context[-1 - length]
    ):
        length += 1
    return length


def found_in(
    sequences: dict[int, Sequence[int]],
    context: Sequence[int],
    depth: int,
    masked: Collection[int] = (),
) -> Found:
    """Every place that follows the end of the context in a sequence, ended windows cut short."""
    return {
        (sequence_id, offset): (length, tuple(tokens[offset : offset + depth]))
        for sequence_id, tokens in sequences.items()
        if sequence_id not in masked
        for offset in range(1, len(tokens))
        if (length := matches(tokens, offset, context))
    }


def found_in_request(request: Sequence[int], depth: int) -> Found:
    """The same in the request itself, whose windows go round at its end."""
    windows = {}
    for offset in range(1, len(request)):
        if length := matches(request, offset, request):
            again = list(request[offset:])
            while len(again) < depth:
                again += request[offset:]
            windows[(0, offset)] = (length, tuple(again[:depth]))
    return windows


def probabilities(
    own: Found,
    other: Found,
    rows: dict[tuple[int, ...], list[int]],
    context: Sequence[int],
    depth: int,
    floor: float,
) -> dict[tuple[int, ...], float]:
    """Every path that is drafted when width is no limit, with the probability of its end.

    `rows` are the likely successors of one token, or of two in a row.
    """
    cells = Calibration()
    result: dict[tuple[int, ...], float] = {}

    def visit(path: tuple[int, ...], probability: float) -> None:
        if len(path) == depth:
            return
        rest, shares, kinds, longest = probability, dict[int, float](), dict[int, int](), 0
        for length in reversed(MATCH_LENGTHS):
            for found, is_own in ((own, True), (other, False)):
                following = [
                    window[len(path)]
                    for match_length, window in found.values()
                    if length == _level(match_length) and _goes_on(window, path)
                ]
                if following:
                    longest = longest or length + len(path)
                    cell = cells.match_cell(
                        is_own, length + len(path), len(following), len(set(following))
                    )
                    believed = rest * cells.shares[cell]
                    for token in following:
                        shares[token] = shares.get(token, 0.0) + believed / len(following)
                        kinds[token] = kinds.get(token, 0) | (OWN if is_own else HISTORY)
                    rest -= believed
        if rest >= floor:
            whole = (*context, *path)
            pair, single = rows.get(whole[-2:], []), rows.get(whole[-1:], [])
            if len(whole) > 1 and pair:
                rest = take(pair, cells.pair_cell(longest), context, rest, shares)
                kinds |= {token: kinds.get(token, 0) | PAIR for token in pair}
            cell = cells.token_cell(has_matches=longest > 0, has_pair=len(whole) > 1 and bool(pair))
            take(single, cell, context, rest, shares)
            kinds |= {token: kinds.get(token, 0) | TOKEN for token in single}
        given = [share / probability for share in shares.values()]
        weighed = weigh(cells.agreement, given, [kinds[token] for token in shares])
        for token, believed in zip(shares, weighed, strict=True):
            share = probability * believed
            if share >= floor:
                result[(*path, token)] = share
                visit((*path, token), share)

    visit((), 1.0)
    return result


def take(
    row: list[int], first_cell: int, context: Sequence[int], rest: float, shares: dict[int, float]
) -> float:
    """Give a row's tokens their shares of the rest; what is left of it."""
    cells = Calibration()
    by_rank = [
        cells.shares[first_cell + rank + (NUM_SUCCESSORS if token in context else 0)]
        for rank, token in enumerate(row)
    ]
    scale = min(1.0, 0.95 / sum(by_rank)) if row else 0.0
    for token, share in zip(row, by_rank, strict=True):
        shares[token] = shares.get(token, 0.0) + rest * share * scale
    return rest - rest * sum(by_rank) * scale


def _level(match_length: int) -> int:
    return max(known for known in MATCH_LENGTHS if known <= match_length)


def _goes_on(window: tuple[int, ...], path: tuple[int, ...]) -> bool:
    return window[: len(path)] == path and len(window) > len(path)
