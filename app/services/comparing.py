"""Comparing: one prompt answered twice in one run, plainly and with lookahead, as a race.

After each forward the arm that has used less model time goes next, so that both texts grow in equal
time and share the machine's moods. Nothing is saved and nothing learned. `Comparisons` is used by
the chat service under its lock, `CompareTask` is run by the worker.
"""

import secrets
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace

from app.looks import look_of
from app.prompting import Prompt, Turn
from app.services.comparison import (
    ArmName,
    ArmRecord,
    ArmSnapshot,
    ComparisonSnapshot,
    Verdict,
    VerdictKind,
    measured_speed_up,
    verdict_of,
)
from app.services.errors import BusyError
from app.services.jobs import CompareJob
from app.services.transcript import Transcript
from app.services.views import AnswerOptions, AnswerStatus
from app.services.workbench import Workbench
from app.services.worker import Worker
from lookahead.config import DecodingConfig
from lookahead.draft import TokenSource
from lookahead.errors import UnsupportedModeError
from lookahead.events import Event, Finished, FinishReason, PrefillDone, StepDone

__all__ = ["CompareTask", "Comparisons"]


class Comparisons:
    """Starts comparisons, one at a time, and remembers the latest."""

    def __init__(self, worker: Worker[Workbench]) -> None:
        self._worker = worker
        self._task: CompareTask | None = None
        self._num_started = 0

    def start(self, prompt: str, options: AnswerOptions) -> CompareJob:
        """Queue a comparison; without a seed one is drawn for both arms.

        Raises:
            BusyError: a comparison is running.
            InvalidRequestError: an option is out of range.
        """
        if self._task is not None and not self._task.job.snapshot().is_over:
            raise BusyError("A comparison is running. Wait for it, or stop it.")
        seed = secrets.randbits(53) if options.seed is None else options.seed
        options = replace(options, seed=seed)
        options.sampling()
        DecodingConfig(max_new_tokens=options.max_new_tokens)
        first: ArmName = "lookahead" if self._num_started % 2 else "plain"
        self._num_started += 1
        job = CompareJob(
            ComparisonSnapshot(0, "queued", prompt, first),
            options,
            on_stop=self._stop_waiting,
        )
        self._task = CompareTask(job)
        self._worker.submit(self._task)
        return job

    def latest(self) -> CompareJob | None:
        """The running comparison, or else the last one."""
        return None if self._task is None else self._task.job

    def _stop_waiting(self, job: CompareJob) -> None:
        """One that has not begun need not wait for its turn to be stopped."""
        task = self._task
        if task is not None and task.job is job and self._worker.withdraw(task):
            task.abandon()


@dataclass
class _Arm:
    """One of the two answers in the making."""

    name: ArmName
    events: Iterator[Event]
    transcript: Transcript
    digests: list[bytes]
    status: AnswerStatus = "queued"
    clock: list[tuple[int, float]] = field(default_factory=list)
    looks: list[str] = field(default_factory=list)  # of each token
    pieces: str = ""  # a line for each token, and
    num_pieces: int = 0  # so many lines

    @property
    def is_over(self) -> bool:
        return self.status in ("complete", "stopped")

    @property
    def used(self) -> tuple[bool, float]:
        """What it has used of the model; both prompts are read before the race begins."""
        return bool(self.clock), self.transcript.stats.decode_seconds

    def go_on(self) -> None:
        """One forward (the prompt may take several), or the end."""
        event = next(self.events)
        self.transcript.take(event)
        stats = self.transcript.stats
        self.clock.append((stats.num_tokens, stats.decode_seconds))
        self.status = "decoding"
        match event:
            case PrefillDone():
                self.looks += [look_of(TokenSource.MODEL)] * len(event.token_ids)
            case StepDone():
                accepted = [event.draft.sources[node] for node in event.accepted_nodes]
                sources = [*accepted, TokenSource.MODEL][: len(event.token_ids)]
                self.looks += [look_of(source) for source in sources]
            case Finished():
                self.transcript.finish()
                self.pieces, self.num_pieces = "", 0  # the last tokens' lengths may have changed
                is_stopped = event.reason is FinishReason.CANCELLED
                self.status = "stopped" if is_stopped else "complete"
        self._add_pieces()

    def _add_pieces(self) -> None:
        lengths = self.transcript.text_lengths
        fresh = zip(lengths[self.num_pieces :], self.looks[self.num_pieces :], strict=False)
        self.pieces += "".join(f"{length} {look}\n" for length, look in fresh)
        self.num_pieces = len(lengths)

    def snapshot(self) -> ArmSnapshot:
        transcript = self.transcript
        return ArmSnapshot(
            self.name,
            self.status,
            transcript.text,
            transcript.numbers if self.clock else None,
            self.pieces,
        )

    def record(self) -> ArmRecord:
        transcript = self.transcript
        return ArmRecord(transcript.token_ids, self.digests, self.clock, transcript.reason)


class CompareTask:
    """Runs one comparison."""

    def __init__(self, job: CompareJob) -> None:
        self.job = job
        self._running: _Arm | None = None

    def stop(self) -> None:
        """End within one step."""
        self.job.stop()

    def abandon(self) -> None:
        """It never began."""
        self.job.show(status="stopped")

    def fail(self, sentence: str) -> None:
        """It was broken off; what both arms had said stays to be seen."""
        if self._running is not None:
            self._running.status = "failed"
            self._show(self._running)
        self.job.show(status="failed", error=sentence)

    def run(self, bench: Workbench) -> None:
        """Race the two arms and judge; errors are the worker's to catch."""
        if self.job.is_stopped:
            self.abandon()
            return
        if bench.model.mode == "plain":
            raise UnsupportedModeError(
                "This model can only be decoded plainly, so there is nothing to compare with: "
                f"{bench.model.mode_reason}"
            )
        snapshot = self.job.snapshot()
        prompt = bench.prompts.build_chat([Turn(snapshot.prompt)])
        is_greedy = bench.sampling(self.job.options).is_greedy
        self.job.show(status="prefill", seed=None if is_greedy else self.job.options.seed)
        second: ArmName = "plain" if snapshot.first == "lookahead" else "lookahead"
        with ExitStack() as sessions:
            arms = [self._arm(bench, prompt, name, sessions) for name in (snapshot.first, second)]
            self._race(arms)
        self._finish(bench, prompt, arms, is_greedy=is_greedy)

    def _arm(self, bench: Workbench, prompt: Prompt, name: ArmName, sessions: ExitStack) -> _Arm:
        digests: list[bytes] = []
        options = replace(self.job.options, lookahead=name == "lookahead")
        transcript = bench.transcript(prompt, options)
        events = bench.generate_apart(
            *(prompt, options),
            stop=transcript.stop,
            take_digest=digests.append,
            is_cancelled=lambda: self.job.is_stopped,
        )
        sessions.enter_context(closing(events))
        return _Arm(name, events, transcript, digests)

    def _race(self, arms: Sequence[_Arm]) -> None:
        """Until both are over: of those that go on, the one that has used least; the first one
        where they are equal."""
        while running := [arm for arm in arms if not arm.is_over]:
            self._running = arm = min(running, key=lambda arm: arm.used)
            if not arm.clock:
                arm.status = "prefill"
                self._show(arm)
            arm.go_on()
            self._show(arm)
        self._running = None

    def _show(self, arm: _Arm) -> None:
        has_begun = arm.status not in ("queued", "prefill")
        status = {"status": "decoding"} if has_begun else {}
        self.job.show(**{arm.name: arm.snapshot()}, **status)

    def _finish(
        self, bench: Workbench, prompt: Prompt, arms: Sequence[_Arm], *, is_greedy: bool
    ) -> None:
        by_name = {arm.name: arm.record() for arm in arms}
        plain, lookahead = by_name["plain"], by_name["lookahead"]
        is_strict = all(arm.transcript.stats.mode == "strict" for arm in arms)
        verdict = verdict_of(plain, lookahead, is_strict=is_strict, is_greedy=is_greedy)
        if verdict is not None and verdict.kind is VerdictKind.BUG and not is_strict:
            penalty = bench.sampling(self.job.options).repetition_penalty
            verdict = _looked_into(
                *(verdict, bench, prompt, plain, lookahead), repetition_penalty=penalty
            )
        are_whole = plain.is_whole and lookahead.is_whole
        self.job.show(
            status="complete" if are_whole else "stopped",
            verdict=verdict,
            speed_up=measured_speed_up(plain, lookahead),
        )


def _looked_into(
    verdict: Verdict,
    bench: Workbench,
    prompt: Prompt,
    plain: ArmRecord,
    lookahead: ArmRecord,
    *,
    repetition_penalty: float,
) -> Verdict:
    """A greedy difference in flexible mode, with the logits where the two part."""
    plain_ids = plain.token_ids
    if plain_ids == lookahead.token_ids:  # what differs is how they end: any other token will do
        plain_ids = (*plain_ids, -1)
    found = bench.find_divergence(
        *(prompt, plain_ids, lookahead.token_ids), repetition_penalty=repetition_penalty
    )
    assert found is not None, "different answers part somewhere"
    kind = VerdictKind.TIE if found.is_tie else VerdictKind.BUG
    return replace(verdict, kind=kind, gap=found.gap, noise=found.noise)
