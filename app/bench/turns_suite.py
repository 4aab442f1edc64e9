"""The suite `turns`: whole conversations, with the session kept and with a fresh one every turn.

A kept session has the keys and values of all earlier turns, so that a follow-up question waits for
its own tokens only. Called by `app.bench`.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from app.bench.arms import ArmResult, BenchRequest, finish, watch_events
from app.bench.engine_arms import Runner
from app.bench.errors import BenchError
from app.bench.interleaving import Comparison, Row, arm_order
from app.bench.measurements import Measurements
from app.bench.options import BenchOptions
from app.bench.prompt_sets import BenchPrompt
from app.bench.report_files import ReportFiles
from app.bench.reports import Figure, SuiteReport, Table, format_estimate, format_number
from app.bench.statistics import Estimate, estimate_median
from app.bench.workload import judge_for, load_workload
from app.prompting import Prompt, Turn
from lookahead.learned import Learned
from lookahead.trie import Trie

if TYPE_CHECKING:
    from lookahead import Session

__all__ = ["ConversationArm", "measure_conversations", "run_turns_suite"]

Report = Callable[[str], None]
_KEPT = {"plain": "plain-session", "history": "history-session"}  # fresh → kept


class Builder(Protocol):
    """Makes the prompt of a conversation; see `PromptBuilder`."""

    def build_chat(self, turns: Sequence[Turn]) -> Prompt:
        """The prompt that asks for the answer to the last turn."""
        ...


class ConversationArm:
    """Goes through conversations turn by turn.

    Args:
        new_session: makes a session to be kept; None: every turn has a fresh one.
        drafts: whether to draft, with earlier conversations as history.
    """

    def __init__(
        self,
        runner: Runner,
        builder: Builder,
        new_session: "Callable[[], Session] | None",
        *,
        drafts: bool,
    ) -> None:
        self.name = ("history" if drafts else "plain") + ("-session" if new_session else "")
        self.title = ("lookahead" if drafts else "plain") + (
            ", session kept" if new_session else ", fresh session"
        )
        self._runner = runner
        self._builder = builder
        self._new_session = new_session
        self._session: Session | None = None
        self._trie = Trie() if drafts else None
        self._learned = Learned.empty(runner.vocab_size) if drafts else None
        self._turns: list[Turn] = []
        self.request = BenchRequest(BenchPrompt("", "", ()), ())

    def begin(self) -> None:
        """A new conversation."""
        self._turns = []
        self._session = self._new_session() if self._new_session else None

    def run(self, request: BenchRequest) -> ArmResult:
        """Answer the next turn, `request.prompt.turns[0]`; `self.request` is then what was asked.

        Raises:
            MessageTooLongError: it does not fit into the context.
        """
        self._turns.append(Turn(request.prompt.turns[0]))
        ids = self._builder.build_chat(self._turns).token_ids
        self.request = BenchRequest(request.prompt, ids)
        answering = watch_events(
            lambda: self._runner.generate(
                self.request,
                trie=self._trie,
                learned=self._learned,
                session=self._session,
            ),
            self._runner.clock,
        )
        result = finish(answering)
        self._turns[-1] = Turn(request.prompt.turns[0], result.token_ids)
        return result

    def end(self) -> None:
        """The conversation becomes history; memory of keys and values is given back."""
        if self._trie is not None and self._turns:
            self._trie.add([*self.request.prompt_ids, *(self._turns[-1].answer_ids or ())])
            if self._trie.needs_sealing:
                self._trie.seal()
        if self._session is not None:
            self._session.close()


def run_turns_suite(options: BenchOptions, report: Report) -> SuiteReport:
    """Measure; raises KeyboardInterrupt where nothing was measured yet."""
    workload = load_workload(options, report)
    runner = workload.runner(options.answer_length)

    def new_arms() -> list[ConversationArm]:
        return [
            ConversationArm(runner, workload.builder, new_session, drafts=drafts)
            for drafts in (False, True)
            for new_session in (None, workload.new_session)
        ]

    report("Warming up")
    unmeasured = workload.rehearsal().prompt.turns[0]
    _converse(BenchPrompt("", "", (unmeasured, unmeasured)), new_arms(), ())
    comparisons = [
        Comparison(plain, frozenset({drafted}), judge_for(workload))
        for plain, drafted in (("plain", "history"), ("plain-session", "history-session"))
    ]
    found = measure_conversations(
        workload.prompts.prompts,
        new_arms(),
        comparisons,
        skip=workload.notes.append,
        report=report,
        keep_rows=ReportFiles(options).keep_rows,
    )
    found.options = {**workload.describe(), "max_new_tokens": options.answer_length}
    found.notes += [*workload.notes, workload.model.mode_reason]
    return found


def measure_conversations(
    prompts: Sequence[BenchPrompt],
    arms: Sequence[ConversationArm],
    comparisons: Sequence[Comparison],
    *,
    skip: Callable[[str], None] = lambda _: None,
    report: Report = lambda _: None,
    keep_rows: Callable[[list[dict[str, Any]]], None] = lambda _: None,
) -> SuiteReport:
    """Run the arms through the conversations, turn by turn in balanced order.

    Args:
        skip: told of a conversation that does not fit into the context.
        keep_rows: given all rows as JSON after each conversation.

    Raises:
        BenchError: no conversation fits into the context.
        KeyboardInterrupt: it came before the first one was over.
    """
    from app.prompting import MessageTooLongError

    rows: list[Row] = []
    is_interrupted = False
    try:
        for number, prompt in enumerate(prompts):
            report(f"Conversation {number + 1} of {len(prompts)}: {prompt.id}")
            try:
                rows += _converse(prompt, arm_order(arms, number), comparisons)
                keep_rows([row.as_json() for row in rows])
            except MessageTooLongError as error:
                skip(f"Conversation {prompt.id} was left out: {error}")
    except KeyboardInterrupt:
        if not rows:
            raise
        is_interrupted = True
    if not rows:
        raise BenchError(
            "No conversation fits into the context. Use a larger --context-length, or fewer "
            "--max-new-tokens."
        )
    return _report(rows, {arm.name: arm.title for arm in arms}, is_interrupted=is_interrupted)


def _converse(
    prompt: BenchPrompt, order: Sequence[ConversationArm], comparisons: Sequence[Comparison]
) -> list[Row]:
    """One conversation with every arm; texts are compared up to the first that differs."""
    rows: list[Row] = []
    still_equal = list(comparisons)
    for arm in order:
        arm.begin()
    for turn, text in enumerate(prompt.turns):
        request = BenchRequest(BenchPrompt(prompt.id, prompt.category, (text,)), ())
        results = {arm.name: arm.run(request) for arm in order}
        asked = {arm.name: arm.request for arm in order}
        found = {}
        for comparison in list(still_equal):
            [bound] = comparison.must_match
            pair = {name: results[name] for name in (comparison.reference, bound)}
            for difference in comparison.check(asked[bound], pair):
                found[difference.arm] = difference
                still_equal.remove(comparison)
        for position, arm in enumerate(order):
            name = arm.name
            rows.append(
                Row.of(
                    *(asked[name], name, position, results[name]),
                    turn=turn,
                    difference=found.get(name),
                )
            )
    for arm in order:
        arm.end()
    return rows


def _report(rows: list[Row], titles: Mapping[str, str], *, is_interrupted: bool) -> SuiteReport:
    measured = Measurements(rows)
    differences = [row.difference for row in rows if row.difference is not None]
    last_turn = max((row.turn for row in rows), default=0)
    found = SuiteReport(
        suite="turns",
        rows=[row.as_json() for row in rows],
        notes=[str(difference) for difference in differences if not difference.is_failure],
        failures=[str(difference) for difference in differences if difference.is_failure],
        is_complete=not is_interrupted,
        is_interrupted=is_interrupted,
    )
    found.tables = [
        Table(
            f"Turn {turn + 1}",
            (
                *("arm", "answers", "prompt tokens", "reused", "prefilled"),
                *("first token ms", "decode tokens/s", "tokens per step"),
            ),
            tuple(_turn_row(measured, arm, titles[arm], turn) for arm in titles),
        )
        for turn in range(last_turn + 1)
    ]
    for turn in range(last_turn + 1):
        found.figures += _turn_figures(measured, titles, turn)
    waits = {fresh: _wait_ratio(measured, fresh, kept) for fresh, kept in _KEPT.items()}
    found.figures += [
        Figure.of(f"turns.{fresh}.follow_up_wait_ratio", estimate, "ratio")
        for fresh, estimate in waits.items()
    ]
    cells = tuple((titles[fresh], format_estimate(waits[fresh])) for fresh in waits)
    title = "Wait for the first token of a follow-up: fresh session over session kept"
    found.tables.append(Table(title, ("arm", "ratio"), cells))
    return found


def _turn_row(measured: Measurements, arm: str, title: str, turn: int) -> tuple[str, ...]:
    rows = measured.of(arm, lambda row: row.turn == turn)
    totals = measured.totals(arm, lambda row: row.turn == turn)
    sums = (
        sum(row.prompt_length for row in rows),
        sum(row.result.reused_length for row in rows),
        sum(row.result.prefilled_length for row in rows),
    )
    return (
        title,
        str(len(rows)),
        *(f"{total:,}" for total in sums),
        format_number(totals.first_token_seconds.value * 1000, 0),
        format_number(totals.decode_rate, 1),
        format_number(totals.tokens_per_step),
    )


def _turn_figures(measured: Measurements, arms: Mapping[str, str], turn: int) -> list[Figure]:
    figures = []
    for arm in arms:
        rows = measured.of(arm, lambda row: row.turn == turn)
        totals = measured.totals(arm, lambda row: row.turn == turn)
        name = f"turns.{arm}.turn_{turn + 1}"
        asked = sum(row.prompt_length for row in rows)
        reused = sum(row.result.reused_length for row in rows)
        share = reused / asked if asked else None
        figures += [
            Figure.of(f"{name}.first_token_seconds", totals.first_token_seconds, "s"),
            Figure(f"{name}.reused_share", share, "share"),
            Figure(f"{name}.decode_tokens_per_second", totals.decode_rate, "tokens/s"),
            Figure(f"{name}.tokens_per_step", totals.tokens_per_step, "tokens"),
        ]
        base = arm.replace("history", "plain")
        if arm != base:
            speedup = measured.speedup(arm, base, keep=lambda row: row.turn == turn)
            figures.append(Figure.of(f"{name}.decode_ratio_over_plain", speedup, "ratio"))
    return figures


def _wait_ratio(measured: Measurements, fresh: str, kept: str) -> Estimate:
    """Time to the first token of follow-ups, without the session over with it, pair by pair."""
    ratios = [
        row.result.prefill_seconds / base.result.prefill_seconds
        for base, row in measured.pairs(fresh, kept)
        if row.turn and base.result.prefill_seconds
    ]
    return estimate_median(ratios)
