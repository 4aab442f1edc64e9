"""Drafters by name: this project's own and the published ones it is measured against.

Each file is one method and names its publication. Used by the benchmark; the decode loop knows
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
from lookahead.drafters.trie import TrieLearner
from lookahead.successors import SuccessorTable
from lookahead.trie import Trie

__all__ = ["Learner", "make", "names"]


@dataclass(frozen=True, slots=True)
class _Stores:
    """What a drafter may be made from."""

    vocab_size: int
    trie: Trie | None
    successors: SuccessorTable | None
    masked_sequence_ids: Collection[int]


def _make_trie(stores: _Stores) -> Learner:
    trie = Trie() if stores.trie is None else stores.trie
    successors = stores.successors
    if successors is None:
        successors = SuccessorTable(stores.vocab_size)
    return TrieLearner(trie, successors, stores.masked_sequence_ids)


_MAKERS: dict[str, Callable[[_Stores], Learner]] = {
    "none": lambda _: NoneDrafter(),
    "prompt-lookup": lambda _: PromptLookupDrafter(),
    "llma": lambda _: LLMADrafter(),
    "anpd": lambda _: ANPDDrafter(),
    "hierarchical-trie": lambda _: HierarchicalTrieDrafter(),
    "token-recycling": lambda stores: TokenRecyclingDrafter(stores.vocab_size),
    "suffix": lambda _: SuffixDrafter(),
    "trie": _make_trie,
}


def names() -> list[str]:
    """Names that `make` knows."""
    return list(_MAKERS)


def make(
    name: str,
    *,
    vocab_size: int,
    trie: Trie | None = None,
    successors: SuccessorTable | None = None,
    masked_sequence_ids: Collection[int] = frozenset(),
) -> Learner:
    """A fresh drafter that has learned nothing yet.

    Args:
        name: one of `names()`.
        vocab_size: rows of a table per token.
        trie: for `trie`: where its history is and goes; None: an empty one.
        successors: for `trie`: its table; None: an empty one.
        masked_sequence_ids: for `trie`: sequences not to draft from.

    Raises:
        ValueError: there is no drafter of this name.
    """
    if name not in _MAKERS:
        raise ValueError(f"There is no drafter {name!r}. Choose one of: {', '.join(names())}.")
    return _MAKERS[name](_Stores(vocab_size, trie, successors, masked_sequence_ids))
