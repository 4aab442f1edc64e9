"""The suite `worst-case`: what drafting costs where it cannot help, against our own plain loop.

Random prompts sampled at a high temperature, where nothing is worth drafting, and a hostile Trie,
which knows every token of the answers and, behind it, only what never follows it there. Called by
`app.bench`.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

from app.bench.arms import Arm, BenchRequest
from app.bench.engine_arms import ColdArm, HistoryArm, PlainArm, Runner, WarmedArm
from app.bench.interleaving import Comparison
from app.bench.live_suite import measure
from app.bench.options import BenchOptions
from app.bench.prompt_sets import BenchPrompt
from app.bench.reports import Figure, SuiteReport
from app.bench.workload import Workload, judge_for, load_workload
from lookahead.draft import TokenSource
from lookahead.events import Finished
from lookahead.successors import SuccessorTable
from lookahead.trie import Trie

__all__ = ["hostile_sequences", "run_worst_case_suite"]

_RANDOM_LENGTH = 64
_TEMPERATURE = 2.0
_SEED = 11
_HOSTILE_LENGTH = 16  # tokens of a wrong continuation
_HOSTILE_COPIES = 4  # so that it was not seen once only
_TARGET_RATIO = 0.97

Report = Callable[[str], None]


def run_worst_case_suite(options: BenchOptions, report: Report) -> SuiteReport:
    """Measure both; raises KeyboardInterrupt where nothing was measured yet."""
    workload = load_workload(options, report)
    found = SuiteReport("worst-case", {**workload.describe(), "temperature": _TEMPERATURE})
    found.options["max_new_tokens"] = options.answer_length
    _add(found, _random_part(options, workload, report), "Random prompts, high temperature")
    if not found.is_interrupted:
        _add(found, _hostile_part(options, workload, report), "Hostile Trie, greedy")
    found.notes += workload.notes
    return found


def _random_part(options: BenchOptions, workload: Workload, report: Report) -> SuiteReport:
    runner = workload.runner(options.answer_length, _TEMPERATURE)
    arms: list[Arm] = [PlainArm(runner), ColdArm(runner), HistoryArm(runner)]
    verdict = "difference" if workload.strict else "not compared bit for bit"
    comparison = Comparison("plain", frozenset({"cold", "history"}), lambda *_: verdict)
    requests = _random_requests(workload)
    arms[0].run(requests[0])  # what a first call sets up is not measured
    return measure(requests, arms, comparison, prefix="worst_case.random", report=report)


def _hostile_part(options: BenchOptions, workload: Workload, report: Report) -> SuiteReport:
    runner = workload.runner(options.answer_length)
    requests = workload.requests(workload.prompts)
    trie = Trie()
    for number, request in enumerate(requests, start=1):
        report(f"Answering to make the Trie hostile: {number} of {len(requests)}")
        answer_ids = _answer(runner, request)
        wrong = hostile_sequences(request.prompt_ids, answer_ids, runner.vocab_size)
        trie.add_many((None, TokenSource.HISTORY, ids) for ids in wrong)
    trie.seal()
    hostile = WarmedArm(
        *(runner, trie, SuccessorTable(runner.vocab_size)),
        name="hostile",
        title="lookahead, hostile Trie",
    )
    comparison = Comparison("plain", frozenset({"hostile"}), judge_for(workload))
    arms: list[Arm] = [PlainArm(runner), hostile]
    return measure(requests, arms, comparison, prefix="worst_case.hostile", report=report)


def _add(found: SuiteReport, part: SuiteReport, title: str) -> None:
    """Take a part into the report, with the figure that the suite is about."""
    found.tables += [table.titled(f"{title}: {table.title}") for table in part.tables]
    found.figures += part.figures
    for figure in part.figures:
        if figure.name.endswith(".decode_ratio_over_plain"):
            name = f"{figure.name}_at_least"  # the lower end of the interval
            found.figures.append(Figure(name, figure.low, "ratio", _TARGET_RATIO))
    found.rows += [{"part": title, **row} for row in part.rows]
    found.notes += [f"{title}: {note}" for note in part.notes]
    found.failures += part.failures
    found.is_complete &= part.is_complete
    found.is_interrupted |= part.is_interrupted


def _random_requests(workload: Workload) -> list[BenchRequest]:
    """As many prompts of random tokens, control tokens left out, as there are prompts."""
    chance = random.Random(_SEED)
    tokenizer = workload.model.tokenizer
    control_ids = {*workload.model.end_token_ids, *getattr(tokenizer, "all_special_ids", ())}
    plain_ids = [i for i in range(workload.model.vocab_size) if i not in control_ids]
    return [
        BenchRequest(
            BenchPrompt(f"random-{seed}", "random", ("",)),
            tuple(chance.choices(plain_ids, k=_RANDOM_LENGTH)),
            seed,
        )
        for seed in range(1, 1 + len(workload.prompts.prompts))
    ]


def _answer(runner: Runner, request: BenchRequest) -> tuple[int, ...]:
    """The plain answer, not measured."""
    for event in runner.generate(request):
        if isinstance(event, Finished):
            return event.token_ids
    raise AssertionError("a generation that nobody cancels finishes")


def hostile_sequences(
    prompt_ids: Sequence[int], answer_ids: Sequence[int], vocab_size: int
) -> Iterator[list[int]]:
    """Each token before a place of the answer, then what follows it nowhere in prompt and answer.

    One token of context, no more: two would hold a transition that is right.
    """
    chance = random.Random(_SEED)
    ids = [*prompt_ids, *answer_ids]
    transitions = set(pairwise(ids))
    for token_id in sorted(set(ids[len(prompt_ids) - 1 : -1])):
        wrong = [token_id]
        while len(wrong) <= _HOSTILE_LENGTH:
            candidate = chance.randrange(vocab_size)
            if (wrong[-1], candidate) not in transitions:
                wrong.append(candidate)
        for _ in range(_HOSTILE_COPIES):
            yield wrong
