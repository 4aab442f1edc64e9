"""The prompt of one answer: the chat up to its question, earlier answers as they were generated.

Knows the database and the workbench's tokenizer and retrieval, no job. Used by the task of an
answer.
"""

from collections.abc import Sequence
from dataclasses import replace

from app.prompting import Prompt, Turn, encode_text
from app.services.text_stream import TextStream
from app.services.workbench import Workbench
from storage import Database, DocumentPassage

__all__ = ["ChatPrompt", "full_notice"]


class ChatPrompt:
    """What an answer replies to, read once.

    Args:
        message_id: the answer; the branch that ends before it is its prompt.
    """

    def __init__(self, database: Database, conversation_id: int, message_id: int) -> None:
        self._database = database
        self._conversation_id = conversation_id
        parent_id = database.messages.get(message_id).parent_id
        self._branch = [] if parent_id is None else database.messages.until(parent_id)

    def find_passages(self, bench: Workbench) -> tuple[DocumentPassage, ...]:
        """What documents have to say on the question."""
        asked = (message.text for message in self._branch if message.role == "user")
        previous, question = ["", *asked][-2:]
        max_length = bench.prompts.longest_quotes(question)
        return bench.retrieval.find(question, previous, max_length)

    def build(self, bench: Workbench, passages: Sequence[DocumentPassage]) -> Prompt:
        """The prompt, with these passages quoted for the question."""
        tokenizer_ids = self._tokenizer_ids()
        answer_ids = [message.id for message in self._branch if message.role != "user"]
        quoted = self._database.passages.quoted(answer_ids)
        turns: list[Turn] = []
        for message in self._branch:
            if message.role == "user":
                if turns and turns[-1].answer_ids is None:
                    turns.pop()  # it was never answered: templates want question and answer in turn
                turns.append(Turn(message.text))
            elif message.token_ids or message.text:
                is_known = tokenizer_ids.get(message.id) == bench.tokenizer_id
                ids = message.token_ids if is_known else ()  # others mean nothing here
                ids = _with_text(ids, message.text, bench)
                quotes = bench.retrieval.quotes(quoted.get(message.id, ()))
                turns[-1] = Turn(turns[-1].text, ids, quotes)
        turns[-1] = replace(turns[-1], quotes=bench.retrieval.quotes(passages))
        return bench.prompts.build_chat(turns)

    def _tokenizer_ids(self) -> dict[int, int]:
        """Which tokenizer each answer's ids belong to.

        An answer begun while the model was loading does not say so itself; its history does.
        """
        branch = self._branch
        known = {m.id: m.tokenizer_id for m in branch if m.tokenizer_id is not None}
        if all(m.id in known or not m.token_ids for m in branch):
            return known
        for sequence_id in self._database.sequences.for_conversation(self._conversation_id):
            sequence = self._database.sequences.get(sequence_id)
            if sequence.message_id is not None:
                known.setdefault(sequence.message_id, sequence.tokenizer_id)
        return known


def full_notice(prompt: Prompt) -> str:
    """What is said where the context has no room for all turns; else ""."""
    number = prompt.num_dropped_turns
    if not number:
        return ""
    what = "question with its answer" if number == 1 else f"{number} questions with their answers"
    return f"The context is full: the oldest {what} could not be read any more."


def _with_text(token_ids: tuple[int, ...], text: str, bench: Workbench) -> tuple[int, ...]:
    """The ids of an answer as it was generated, and those of what its text has beyond them.

    That is all of it where there are no ids, and the part of a token before a stop string.
    """
    tokenizer = bench.model.tokenizer
    known = TextStream(tokenizer).decode(token_ids)
    if not text.startswith(known) or len(text) == len(known):
        return token_ids
    return (*token_ids, *encode_text(tokenizer, text[len(known) :]))
