"""The task of answering one request of `/v1`: nothing is saved, and no word is learned.

Knows the workbench. Run by the worker, waited for by the chat service.
"""

import threading
from collections.abc import Callable, Mapping, Sequence

from app.prompting import PromptMessage
from app.services.errors import AnswerFailedError, ServiceClosedError, ServiceError
from app.services.views import AnswerOptions, Completion
from app.services.workbench import Workbench
from lookahead.errors import LookaheadError

__all__ = ["CompletionTask"]

_SESSION_KEY = "/v1"


class CompletionTask:
    """Answers a list of messages.

    Args:
        messages: role and content of each.
        is_cancelled: asked between steps, whether nobody waits for the answer any more.
    """

    def __init__(
        self,
        messages: Sequence[Mapping[str, str]],
        options: AnswerOptions,
        is_cancelled: Callable[[], bool] | None,
    ) -> None:
        self._messages = [PromptMessage(m["role"], m["content"]) for m in messages]
        self._options = options
        self._is_cancelled = is_cancelled or (lambda: False)
        self._stop = threading.Event()
        self._over = threading.Event()
        self._completion: Completion | None = None
        self._error: ServiceError | LookaheadError | None = None

    def result(self) -> Completion:
        """Wait for the answer.

        Raises:
            LookaheadError: the request cannot be answered as it is.
            ServiceError: the engine failed, or the program is closing.
        """
        self._over.wait()
        if self._error is not None:
            raise self._error
        assert self._completion is not None, "a task that is over has a completion or an error"
        return self._completion

    def stop(self) -> None:
        """End within one step."""
        self._stop.set()

    def abandon(self) -> None:
        """The program is closing."""
        self._error = ServiceClosedError("The program is closing. Start it again and ask again.")
        self._over.set()

    def fail(self, sentence: str) -> None:
        """The engine failed."""
        self._error = AnswerFailedError(sentence)
        self._over.set()

    def run(self, bench: Workbench) -> None:
        """Answer; a request that cannot be answered is told so, other errors are the worker's."""
        try:
            prompt = bench.prompts.build(self._messages)
            transcript = bench.transcript(prompt, self._options)
            for event in bench.generate(
                prompt,
                self._options,
                session_key=_SESSION_KEY,
                stop=transcript.stop,
                is_remembered=False,
                is_cancelled=lambda: self._stop.is_set() or self._is_cancelled(),
            ):
                transcript.take(event)
        except LookaheadError as error:
            self._error = error
            self._over.set()
            return
        transcript.finish()
        self._completion = Completion(
            text=transcript.text,
            prompt_length=len(prompt.token_ids),
            num_tokens=len(transcript.token_ids),
            reason=transcript.reason.value,
            model=bench.ready_state.model,
            numbers=transcript.numbers,
        )
        self._over.set()
