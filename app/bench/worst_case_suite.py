"""The suite `worst-case`: what drafting costs where it cannot help, against our own plain loop.

Random prompts sampled at a high temperature, where nothing is worth drafting, and a hostile Trie,
which knows every token of the answers and, behind it, only what never follows it there. All arms
answer a prompt at once, forward by forward: a few percent are looked for. Called by `app.bench`.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any

from app.bench.arms import BenchRequest, SteppedArm
from app.bench.engine_arms import ColdArm, HistoryArm, PlainArm, WarmedArm, rehearse
from app.bench.interleaving import Comparison, answer_in_turns
from app.bench.live_suite import measure
from app.bench.options import BenchOptions
from app.bench.prompt_sets import BenchPrompt
from app.bench.report_files import ReportFiles
from app.bench.reports import Figure, SuiteReport
from app.bench.workload import Workload, judge_for, load_workload
from lookahead.draft import TokenSource
from lookahead.learned import Learned
from lookahead.trie import Trie

__all__ = ["hostile_sequences", "run_worst_case_suite"]

_RANDOM_LENGTH = 64
_TEMPERATURE = 2.0
_SEED = 11
_HOSTILE_LENGTH = 16  # tokens of a wrong continuation
_HOSTILE_COPIES = 4  # so that it was not seen once only
_LONG_MATCH = 8  # tokens of context
_LONG_MATCH_EVERY = 24  # tokens of the answer
_TARGET_RATIO = 0.97

Report = Callable[[str], None]
KeepRows = Callable[[list[dict[str, Any]]], None]


def run_worst_case_suite(options: BenchOptions, report: Report) -> SuiteReport:
    """Measure both; raises KeyboardInterrupt where nothing was measured yet."""
    workload = load_workload(options, report)
    found = SuiteReport("worst-case", {**workload.describe(), "temperature": _TEMPERATURE})
    found.options["max_new_tokens"] = options.answer_length
    files = ReportFiles(options)

    def keep_rows(rows: list[dict[str, Any]]) -> None:
        files.keep_rows([*found.rows, *rows])

    random_part = _random_part(options, workload, report, keep_rows)
    _add(found, random_part, "Random prompts, high temperature")
    if not found.is_interrupted:
        try:
            hostile_part = _hostile_part(options, workload, report, keep_rows)
            _add(found, hostile_part, "Hostile Trie, greedy")
        except KeyboardInterrupt:  # what was measured stays
            found.is_complete, found.is_interrupted = False, True
            found.notes.append("The run was interrupted before the hostile Trie was measured.")
    found.notes.append(
        "The arms answered each prompt at the same time, forward by forward, and each was timed by "
        "its own forwards alone."
    )
    found.notes += workload.notes
    return found


def _random_part(
    options: BenchOptions, workload: Workload, report: Report, keep_rows: KeepRows
) -> SuiteReport:
    runner = workload.runner(options.answer_length, _TEMPERATURE)

    def new_arms() -> list[SteppedArm]:
        return [PlainArm(runner), ColdArm(runner), HistoryArm(runner)]

    verdict = "difference" if workload.strict else "not compared bit for bit"
    comparison = Comparison("plain", frozenset({"cold", "history"}), lambda *_: verdict)
    unmeasured, *requests = _random_requests(workload)
    rehearse(new_arms(), unmeasured, report)
    return measure(
        *(requests, new_arms(), [comparison]),
        answer=answer_in_turns,
        prefix="worst_case.random",
        report=report,
        keep_rows=keep_rows,
    )


def _hostile_part(
    options: BenchOptions, workload: Workload, report: Report, keep_rows: KeepRows
) -> SuiteReport:
    runner = workload.runner(options.answer_length)
    requests = workload.requests(workload.prompts)

    def hostile_arm(trie: Trie) -> WarmedArm:
        return WarmedArm(
            *(runner, trie, Learned.empty(runner.vocab_size)),
            name="hostile",
            title="lookahead, hostile Trie",
        )

    plain = PlainArm(runner)
    rehearse([plain, hostile_arm(Trie())], workload.rehearsal(), report)
    trie = Trie()
    for number, request in enumerate(requests, start=1):
        report(f"Answering to make the Trie hostile: {number} of {len(requests)}")
        answer_ids = plain.run(request).token_ids
        wrong = hostile_sequences(request.prompt_ids, answer_ids, runner.vocab_size)
        trie.add_many((None, TokenSource.HISTORY, ids) for ids in wrong)
    trie.seal()
    comparison = Comparison("plain", frozenset({"hostile"}), judge_for(workload))
    arms: list[SteppedArm] = [plain, hostile_arm(trie)]
    return measure(
        *(requests, arms, [comparison]),
        answer=answer_in_turns,
        prefix="worst_case.hostile",
        report=report,
        keep_rows=keep_rows,
    )


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
    """Prompts of random tokens, control tokens left out: one more than there are prompts."""
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
        for seed in range(1 + len(workload.prompts.prompts))
    ]


def hostile_sequences(
    prompt_ids: Sequence[int], answer_ids: Sequence[int], vocab_size: int
) -> Iterator[list[int]]:
    """What stands before places of the answer, then what follows it nowhere in prompt and answer.

    Before every place it is one token, no more: two would hold a transition that is right, and at
    every place that would be the whole answer. Now and then it is a long match, which convinces
    though it was seen once.
    """
    chance = random.Random(_SEED)
    ids = [*prompt_ids, *answer_ids]
    transitions = set(pairwise(ids))
    begin = len(prompt_ids)
    contexts = [[token_id] for token_id in sorted(set(ids[begin - 1 : -1]))]
    places = range(begin + _LONG_MATCH, len(ids), _LONG_MATCH_EVERY)
    contexts += [ids[place - _LONG_MATCH : place] for place in places]
    for context in contexts:
        wrong = list(context)
        while len(wrong) < len(context) + _HOSTILE_LENGTH:
            candidate = chance.randrange(vocab_size)
            if (wrong[-1], candidate) not in transitions:
                wrong.append(candidate)
        for _ in range(_HOSTILE_COPIES if len(context) == 1 else 1):
            yield wrong
