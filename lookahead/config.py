"""What a caller can choose about decoding and sampling, with every default in one place."""

from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

from lookahead.errors import InvalidRequestError

__all__ = ["SAMPLING_RANGES", "DecodingConfig", "SamplingConfig"]

_SMALLEST_TEMPERATURE = 1e-6
# Of everything that chooses a token, both ends included.
SAMPLING_RANGES: dict[str, tuple[float, float]] = {
    "temperature": (0, 100),
    "top_k": (0, 10_000_000),
    "top_p": (0, 1),
    "min_p": (0, 1),
    "repetition_penalty": (0.01, 100),
}
# What the library takes where a model that is to be sampled says nothing.
_LIBRARY_DEFAULTS: dict[str, Any] = {"temperature": 1.0, "top_k": 50}


@dataclass(frozen=True, slots=True)
class DecodingConfig:
    """How to decode. The text depends on where it ends and the mode's numerics, on nothing else.

    Args:
        max_new_tokens: tokens to emit at most.
        strict: True: bit for bit the text of plain decoding. False: any width, equal up to
            numerical ties. None: what the model was loaded with.
        max_rows: rows of one verifying forward at most, root included. None: 32, the most that
            the self-test compares; each draft is as wide as pays.
        max_draft_depth: tokens on one drafted branch at most; 31 fill the default rows, as where
            a passage is copied.
        prefill_chunk_length: prompt tokens per prefill forward, the same with drafting on or off.
            Between two the answer can be cancelled. A model that can only be decoded plainly takes
            its prompt in one piece.
        adaptive: verify of each draft what pays by what steps cost here, nothing where nothing
            pays. False: verify all of it.
        probe_interval: while looking for drafts costs more than it gives, look every so many
            steps only. Looking takes up to a hundredth of a step, so 8 costs next to nothing, and
            drafting is back within twice as many steps where it pays again.
        stop_ids: tokens that end the answer besides the model's own, and are left out of it.
    """

    max_new_tokens: int = 256
    strict: bool | None = None
    max_rows: int | None = None
    max_draft_depth: int = 31
    prefill_chunk_length: int = 2048
    adaptive: bool = True
    probe_interval: int = 8
    stop_ids: frozenset[int] = frozenset()

    def __post_init__(self) -> None:
        for name in ("max_new_tokens", "max_draft_depth", "prefill_chunk_length", "probe_interval"):
            if getattr(self, name) < 1:
                raise InvalidRequestError(f"{name} must be at least 1, not {getattr(self, name)}.")
        if self.max_rows is not None and self.max_rows < 1:
            raise InvalidRequestError(f"max_rows must be at least 1, not {self.max_rows}.")


@dataclass(frozen=True, slots=True)
class SamplingConfig:
    """How the next token is chosen; what is kept is set before the noise is added.

    Args:
        temperature: 0 is greedy, and so is less than a millionth; otherwise logits are divided by
            it and noise is added.
        top_k: only so many of the likeliest tokens; 0: all.
        top_p: only the likeliest that together have this probability; 1: all.
        min_p: only those with this fraction of the likeliest one's probability; 0: all.
        repetition_penalty: logits of tokens that occurred in prompt or answer are divided by it,
            or multiplied where negative (Keskar et al. 2019, CTRL); 1: none. Greedy obeys it, too.
        seed: 64-bit seed of the position-keyed noise. None: one is drawn and reported.
    """

    temperature: float = 0.0
    seed: int | None = None
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0

    @classmethod
    def from_generation_config(cls, config: object, **asked: Any) -> "SamplingConfig":
        """What is asked for, and for the rest a model's own defaults; greedy where it has none.

        A model that is to be sampled has the distribution of the library's `generate()`.

        Args:
            config: the model's `generation_config`, or None.
            asked: settings by name; of one that is given, what the model says does not matter.

        Raises InvalidRequestError where what results is out of range.
        """

        def said(name: str) -> Any:
            return getattr(config, name, None)

        own = dict(_LIBRARY_DEFAULTS) if said("do_sample") else {}
        names = SAMPLING_RANGES if own else ("repetition_penalty",)
        own |= {name: said(name) for name in names if said(name) is not None}
        return cls(**{**own, **asked})

    @property
    def settings(self) -> dict[str, Any]:
        """All but the seed, by name."""
        return {name: getattr(self, name) for name in SAMPLING_RANGES}

    @property
    def is_greedy(self) -> bool:
        """Whether the likeliest token is taken; a smaller temperature would overflow the logits."""
        return self.temperature < _SMALLEST_TEMPERATURE

    @property
    def has_choice(self) -> bool:
        """Whether noise decides anything: not where greedy, or where one token alone is kept."""
        return not self.is_greedy and self.top_k != 1 and self.top_p > 0.0 and self.min_p < 1.0

    @property
    def is_filtered(self) -> bool:
        """Whether top-k, top-p or min-p leave tokens out."""
        return self.top_k > 0 or self.top_p < 1.0 or self.min_p > 0.0

    def __post_init__(self) -> None:
        for name, (low, high) in SAMPLING_RANGES.items():
            value = getattr(self, name)
            is_number = isinstance(value, Real) and not isinstance(value, bool)
            if not is_number or not low <= value <= high:
                raise InvalidRequestError(
                    f"{name} must be a number between {low:,} and {high:,}, not {value!r}."
                )
        if not isinstance(self.top_k, Integral):
            raise InvalidRequestError(f"top_k must be a whole number, not {self.top_k}.")
        if self.seed is not None and not (isinstance(self.seed, int) and 0 <= self.seed < 2**64):
            raise InvalidRequestError(
                f"seed must be a whole number between 0 and 2**64 - 1, not {self.seed}."
            )
