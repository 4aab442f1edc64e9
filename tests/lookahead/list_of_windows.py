"""The slow truth about the Trie and the drafter: plain lists of windows, no order, no sampling."""

from collections.abc import Collection, Sequence

from lookahead.calibration import FixedPriors
from lookahead.candidates import MATCH_LENGTHS, MAX_MATCH_LENGTH

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
    own: Found, other: Found, successors: dict[int, list[int]], last: int, depth: int, floor: float
) -> dict[tuple[int, ...], float]:
    """Every path that is drafted when width is no limit, with the probability of its end."""
    priors = FixedPriors()
    result: dict[tuple[int, ...], float] = {}

    def visit(path: tuple[int, ...], probability: float) -> None:
        if len(path) == depth:
            return
        rest, shares = probability, dict[int, float]()
        for length in reversed(MATCH_LENGTHS):
            for found, is_own in ((own, True), (other, False)):
                following = [
                    window[len(path)]
                    for match_length, window in found.values()
                    if length == max(known for known in MATCH_LENGTHS if known <= match_length)
                    and window[: len(path)] == path
                    and len(window) > len(path)
                ]
                if following:
                    believed = rest * priors.confidence(
                        is_own, length + len(path), len(following), len(set(following))
                    )
                    for token in following:
                        shares[token] = shares.get(token, 0.0) + believed / len(following)
                    rest -= believed
        for rank, token in enumerate(successors.get(path[-1] if path else last, [])):
            shares[token] = shares.get(token, 0.0) + rest * priors.rank_share(rank)
        for token, share in shares.items():
            if share >= floor:
                result[(*path, token)] = share
                visit((*path, token), share)

    visit((), 1.0)
    return result
