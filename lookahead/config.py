"""What a caller can choose about decoding and sampling, with every default in one place."""

from dataclasses import dataclass

from lookahead.errors import InvalidRequestError

__all__ = ["DecodingConfig", "SamplingConfig"]

_SMALLEST_TEMPERATURE = 1e-6


@dataclass(frozen=True, slots=True)
class DecodingConfig:
    """How to decode. The text depends on `max_new_tokens` and the mode's numerics, on nothing else.

    Args:
        max_new_tokens: tokens to emit at most.
        strict: True: bit for bit the text of plain decoding. False: any width, equal up to
            numerical ties. None: what the model was loaded with.
        max_rows: rows of one verifying forward at most, root included. None: 16 where rows are
            nearly free (strict bf16 and GPUs), 8 in fp32 on a CPU (see docs/lab-log.md).
        max_draft_depth: tokens on one drafted branch at most.
        prefill_chunk_length: prompt tokens per prefill forward, the same with drafting on or off.
            Between two the answer can be cancelled. A model that can only be decoded plainly takes
            its prompt in one piece.
    """

    max_new_tokens: int = 256
    strict: bool | None = None
    max_rows: int | None = None
    max_draft_depth: int = 15
    prefill_chunk_length: int = 2048

    def __post_init__(self) -> None:
        for name in ("max_new_tokens", "max_draft_depth", "prefill_chunk_length"):
            if getattr(self, name) < 1:
                raise InvalidRequestError(f"{name} must be at least 1, not {getattr(self, name)}.")
        if self.max_rows is not None and self.max_rows < 1:
            raise InvalidRequestError(f"max_rows must be at least 1, not {self.max_rows}.")


@dataclass(frozen=True, slots=True)
class SamplingConfig:
    """How the next token is chosen.

    Args:
        temperature: 0 is greedy, and so is less than a millionth; otherwise logits are divided by
            it and noise is added.
        seed: 64-bit seed of the position-keyed noise. None: one is drawn and reported.
    """

    temperature: float = 0.0
    seed: int | None = None

    @property
    def is_greedy(self) -> bool:
        """Whether the likeliest token is taken; a smaller temperature would overflow the logits."""
        return self.temperature < _SMALLEST_TEMPERATURE

    def __post_init__(self) -> None:
        if not 0.0 <= self.temperature <= 100.0:
            raise InvalidRequestError(
                f"temperature must lie between 0 and 100, not {self.temperature}."
            )
        if self.seed is not None and not (isinstance(self.seed, int) and 0 <= self.seed < 2**64):
            raise InvalidRequestError(
                f"seed must be a whole number between 0 and 2**64 - 1, not {self.seed}."
            )
