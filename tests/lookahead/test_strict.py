"""Strict mode is lossless bit for bit, on the embedded model, in bf16 and fp32.

The Trie is full of the answers themselves and of wrong ones that fork off them, in a majority, so
that the right branch is often not the first. `--slow`: sixty prompts of 128 tokens a cell.
"""

import logging
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, DynamicCache

import lookahead
from lookahead import DecodingConfig, DraftTree, SamplingConfig, TokenSource, Trie
from lookahead.adapter import StrictAttention
from lookahead.cascade_attention import CascadeAttention
from lookahead.divergence import find_divergence
from lookahead.loaded_model import LoadedModel
from lookahead.path_attention import PathAttention
from lookahead.self_test import max_tree_error
from tests.lookahead.prompts import PROMPTS

pytestmark = pytest.mark.real

_logger = logging.getLogger(__name__)
SIZES = [
    pytest.param(6, 48, id="6x48"),
    pytest.param(60, 128, id="60x128", marks=pytest.mark.slow),
]
SAMPLINGS = [
    pytest.param(SamplingConfig(), id="greedy"),
    pytest.param(SamplingConfig(temperature=0.8, seed=20), id="sampled"),
]


@pytest.fixture(scope="module", params=["bfloat16", "float32"])
def strict_model(request: pytest.FixtureRequest, embedded_model_path: Path) -> LoadedModel:
    return lookahead.load_model(embedded_model_path, device="cpu", dtype=request.param, strict=True)


def prompt_ids(model: LoadedModel, prompt: str) -> list[int]:
    message = {"role": "user", "content": prompt}
    ids: list[int] = model.tokenizer.apply_chat_template(
        [message], add_generation_prompt=True, return_dict=False
    )
    return ids


def warm_trie(prompts: Sequence[list[int]], answers: Sequence[Sequence[int]]) -> Trie:
    """The answers, and at every twelfth token six times a wrong way to go on."""
    sequences: list[list[int]] = []
    for ids, answer in zip(prompts, answers, strict=True):
        whole = [*ids, *answer]
        sequences.append(whole)
        for at in range(len(ids) + 3, len(whole), 12):
            wrong = [
                *whole[max(0, at - 40) : at],
                (whole[at] + 1) % 40_000,
                *whole[at + 1 : at + 6],
            ]
            sequences += [wrong] * 6
    trie = Trie()
    trie.add_many([(None, TokenSource.HISTORY, sequence) for sequence in sequences])
    return trie


def run(
    model: LoadedModel, ids: list[int], rows: list[torch.Tensor] | None, **choices: object
) -> tuple[list[lookahead.StepDone], lookahead.Finished]:
    """One generation; `rows` receives the logits behind every emitted token."""

    def record(prefix: Sequence[int], logits: torch.Tensor) -> torch.Tensor:
        assert rows is not None
        rows.append(logits.clone())
        return logits

    process = None if rows is None else record
    events = list(lookahead.generate(model, ids, process_logits=process, observe=False, **choices))  # type: ignore[arg-type]
    return [event for event in events if isinstance(event, lookahead.StepDone)], events[-1]  # type: ignore[return-value]


@pytest.mark.parametrize(("num_prompts", "length"), SIZES)
@pytest.mark.parametrize("sampling", SAMPLINGS)
def test_no_bit_depends_on_the_drafts(
    strict_model: LoadedModel, sampling: SamplingConfig, num_prompts: int, length: int
) -> None:
    assert strict_model.mode == "strict"
    decoding = DecodingConfig(max_new_tokens=length, max_rows=16, adaptive=False)
    choices = {"sampling": sampling, "decoding": decoding}
    prompts = [prompt_ids(strict_model, prompt) for prompt in PROMPTS[:num_prompts]]
    plain_rows: list[list[torch.Tensor]] = [[] for _ in prompts]
    plain = [
        run(strict_model, ids, plain_rows[at] if at < 5 else None, **choices)[1]
        for at, ids in enumerate(prompts)
    ]
    trie = warm_trie(prompts, [answer.token_ids for answer in plain])
    steps: list[lookahead.StepDone] = []
    for at, ids in enumerate(prompts):
        rows: list[torch.Tensor] = []
        drafted_steps, drafted = run(
            strict_model, ids, rows if at < 5 else None, trie=trie, **choices
        )
        steps += drafted_steps
        assert drafted.token_ids == plain[at].token_ids, PROMPTS[at]
        assert drafted.reason == plain[at].reason
        if at < 5:
            assert len(rows) >= len(drafted.token_ids)
            assert all(map(torch.equal, rows, plain_rows[at])), PROMPTS[at]
    multi = sum(step.accepted_length >= 2 for step in steps) / len(steps)
    side = sum(
        step.accepted_nodes != tuple(range(1, step.accepted_length + 1)) for step in steps
    ) / len(steps)
    _logger.info(
        "%s %s: %d prompts, %d tokens, %d steps, %.0f %% accept two or more, %.0f %% off the first "
        "branch",
        *(strict_model.dtype, "greedy" if sampling.temperature == 0 else "sampled"),
        *(len(prompts), sum(len(one.token_ids) for one in plain), len(steps)),
        *(100 * multi, 100 * side),
    )
    assert multi >= 0.30, "drafts must be accepted, or nothing was tested"
    assert side >= 0.05, "other branches than the first must be accepted, too"


@pytest.mark.parametrize(
    "attention",
    [PathAttention(), PathAttention(fold_query_group=True), CascadeAttention(torch.bfloat16, 3)],
    ids=["path", "path, folded", "cascade"],
)
def test_no_bit_depends_on_the_drafts_whichever_attention_is_chosen(
    embedded_model_path: Path, attention: StrictAttention
) -> None:
    model = lookahead.load_model(embedded_model_path, device="cpu", dtype="bfloat16", strict=True)
    model.adapter.use(attention)
    choices = {"decoding": DecodingConfig(max_new_tokens=40, adaptive=False)}
    for prompt in PROMPTS[:2]:
        ids = prompt_ids(model, prompt)
        plain_rows: list[torch.Tensor] = []
        plain = run(model, ids, plain_rows, **choices)[1].token_ids
        rows: list[torch.Tensor] = []
        trie = warm_trie([ids], [plain])
        steps, drafted = run(model, ids, rows, trie=trie, **choices)
        assert drafted.token_ids == plain
        assert all(map(torch.equal, rows, plain_rows))
        assert len(steps) < len(plain) / 2


@pytest.mark.parametrize(("num_prompts", "length"), SIZES)
def test_where_one_row_is_in_the_class_the_text_is_that_of_a_stock_model(
    strict_model: LoadedModel, embedded_model_path: Path, num_prompts: int, length: int
) -> None:
    """And everywhere: the model's own `generate()` gives the stock text, packed or not."""
    stock = AutoModelForCausalLM.from_pretrained(embedded_model_path, dtype=strict_model.dtype)
    decoding = DecodingConfig(max_new_tokens=length)
    for at, prompt in enumerate(PROMPTS[:num_prompts]):
        ids = prompt_ids(strict_model, prompt)
        if at >= 2 and not strict_model.is_stock:
            break  # only the stock calls are compared: two prompts tell
        expected = library_text(stock, ids, length)
        ours = library_text(strict_model.hf_model, ids, length)
        divergence = find_divergence(strict_model, ids, ours, expected)
        assert divergence is None or divergence.is_tie, "packing may round otherwise, no more"
        if strict_model.is_stock:
            assert a_step_is_stock(strict_model, stock)
            text = run(strict_model, ids, None, trie=Trie(), decoding=decoding)[1].token_ids
            assert [*text] == [token_id for token_id in expected if token_id != 2]


def a_step_is_stock(model: LoadedModel, stock: torch.nn.Module) -> bool:
    """Whether a plain strict step has the library's bits."""
    session, cache, ids = lookahead.Session(model), DynamicCache(), prompt_ids(model, PROMPTS[0])
    session.run(ids)
    ours = session.verify(DraftTree.root_only(5), model.row_class(strict=True)[0])[0]
    for chunk in (ids, [5]):
        logits = stock(torch.tensor([chunk]), cache=cache, use_cache=True).logits[0, -1]
    return torch.equal(ours, logits)


def test_a_padded_batch_through_our_model_is_the_stock_models(
    strict_model: LoadedModel, embedded_model_path: Path
) -> None:
    stock = AutoModelForCausalLM.from_pretrained(embedded_model_path, dtype=strict_model.dtype)
    strict_model.tokenizer.padding_side = "left"
    batch = strict_model.tokenizer(
        list(PROMPTS[:3]), return_tensors="pt", padding=True, return_token_type_ids=False
    )
    assert not batch["attention_mask"].all()
    with torch.no_grad():
        expected, ours = (
            model(**batch).logits[batch["attention_mask"] == 1]
            for model in (stock, strict_model.hf_model)
        )
    far_off = max_tree_error(strict_model.dtype) * float(expected.abs().max())
    torch.testing.assert_close(ours, expected, rtol=0, atol=far_off)


def library_text(hf_model: torch.nn.Module, ids: list[int], length: int) -> list[int]:
    output = hf_model.generate(
        torch.tensor([ids]),
        attention_mask=torch.ones(1, len(ids), dtype=torch.long),
        max_new_tokens=length,
        do_sample=False,
    )
    new: list[int] = output[0, len(ids) :].tolist()
    return new


@pytest.mark.parametrize(("num_prompts", "length"), SIZES)
def test_flexible_fp32_differs_at_ties_only(
    embedded_model_path: Path, num_prompts: int, length: int
) -> None:
    model = lookahead.load_model(embedded_model_path, device="cpu", dtype="float32")
    assert model.mode == "flexible"
    decoding = DecodingConfig(max_new_tokens=length, max_rows=16, adaptive=False)
    num_ties = 0
    for prompt in PROMPTS[:num_prompts]:
        ids = prompt_ids(model, prompt)
        plain = run(model, ids, None, decoding=decoding)[1].token_ids
        trie = warm_trie([ids], [plain])
        drafted = run(model, ids, None, trie=trie, decoding=decoding)[1].token_ids
        divergence = find_divergence(model, ids, plain, drafted)
        if divergence is not None:
            num_ties += 1
            assert divergence.is_tie, f"a bug, not a tie: {divergence} for {prompt!r}"
    _logger.info("flexible fp32: %d prompts, %d parted at a tie", num_prompts, num_ties)
