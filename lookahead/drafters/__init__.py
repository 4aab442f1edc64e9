"""Drafters by name: this project's own and the published ones it is measured against.

Each file is one method and names its publication; where a constant is the whole difference, one
file has two names. Used by the benchmark; the decode loop knows
none of them. Imports no torch.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass

from lookahead.drafters.anpd import ANPDDrafter
from lookahead.drafters.hierarchical_trie import HierarchicalTrieDrafter
from lookahead.drafters.llma import LLMADrafter
from lookahead.drafters.none import NoneDrafter
from lookahead.drafters.prompt_lookup import PromptLookupDrafter
from lookahead.drafters.protocol import Learner
from lookahead.drafters.suffix import SuffixDrafter
from lookahead.drafters.token_recycling import TokenRecyclingDrafter
from lookahead.drafters.trie import OwnContextLearner, TrieLearner
from lookahead.learned import Learned
from lookahead.trie import Trie

__all__ = ["OURS", "Learner", "make", "names", "published_names"]

OURS = ("trie-own-context", "trie")
_BASELINE = "none"


@dataclass(frozen=True, slots=True)
class _Stores:
    """What a drafter may be made from."""

    vocab_size: int
    trie: Trie | None
    learned: Learned | None
    masked_sequence_ids: Collection[int]


def _make_trie(stores: _Stores) -> Learner:
    trie = Trie() if stores.trie is None else stores.trie
    learned = stores.learned or Learned.empty(stores.vocab_size)
    return TrieLearner(trie, learned, stores.masked_sequence_ids)


_MAKERS: dict[str, Callable[[_Stores], Learner]] = {
    _BASELINE: lambda _: NoneDrafter(),
    "prompt-lookup": lambda _: PromptLookupDrafter(),
    "prompt-lookup-3": lambda _: PromptLookupDrafter(max_ngram_length=3),
    "llma": lambda _: LLMADrafter(),
    "anpd": lambda _: ANPDDrafter(),
    "hierarchical-trie": lambda _: HierarchicalTrieDrafter(),
    "token-recycling": lambda stores: TokenRecyclingDrafter(stores.vocab_size),
    "suffix": lambda _: SuffixDrafter(),
    "trie-own-context": lambda _: OwnContextLearner(),
    "trie": _make_trie,
}


def names() -> list[str]:
    """Names that `make` knows."""
    return list(_MAKERS)


def published_names() -> list[str]:
    """Those of other people's methods: not ours, and not plain decoding."""
    return [name for name in _MAKERS if name not in (*OURS, _BASELINE)]


def make(
    name: str,
    *,
    vocab_size: int,
    trie: Trie | None = None,
    learned: Learned | None = None,
    masked_sequence_ids: Collection[int] = frozenset(),
) -> Learner:
    """A fresh drafter that has learned nothing yet.

    Args:
        name: one of `names()`.
        vocab_size: rows of a table per token.
        trie: for `trie`: where its history is and goes; None: an empty one.
        learned: for `trie`: what it drafts by and feeds; None: an empty one.
        masked_sequence_ids: for `trie`: sequences not to draft from.

    Raises:
        ValueError: there is no drafter of this name.
    """
    if name not in _MAKERS:
        raise ValueError(f"There is no drafter {name!r}. Choose one of: {', '.join(names())}.")
    return _MAKERS[name](_Stores(vocab_size, trie, learned, masked_sequence_ids))
