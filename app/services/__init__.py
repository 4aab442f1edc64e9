"""The services: the only place where engine and database meet. No page and no HTTP in here.

service = ChatService(ServiceConfig(data_dir, cache_dir, model="smollm2-135m"))
service.start()                                  # returns at once; a thread loads the model
service.state                      -> EngineState
service.wait_until_ready(timeout)  -> EngineState
service.conversations()            -> list[storage.Conversation], newest first
service.messages(conversation_id)  -> list[ChatMessage], the current branch in order
service.delete_conversation(conversation_id)
service.uses_documents(conversation_id)              -> bool
service.use_documents(conversation_id, is_used)
service.ask(conversation_id | None, text, options, uses_documents=None) -> AnswerJob
service.running_job(conversation_id)                 -> AnswerJob | None
service.saved_answer(message_id)   -> AnswerSnapshot with its steps, needs no model
service.step_details(message_id, step_index)         -> StepDetails
service.origin_labels(sequence_ids)                  -> dict[int, str]
service.complete([{"role", "content"}], options, is_cancelled=None) -> Completion
service.start_demo()               -> DemoJob
service.running_demo()             -> DemoJob | None
service.compare(prompt, options)   -> CompareJob: one prompt, plain and lookahead
service.latest_comparison()        -> CompareJob | None
service.import_paths(paths)        -> ImportJob
service.import_uploads(paths)      -> ImportJob
service.running_import()           -> ImportJob | None
service.documents()                -> list[storage.Source]
service.delete_document(source_id)
service.trie.overview()            -> TrieOverview
service.trie.walk(text, path)      -> PathView: what follows a text
service.trie.find_sources(named)   -> list[NamedSource]
service.export_trie(path, report)  -> Written
service.import_trie(path, report)  -> TakenIn
service.close()

AnswerJob: conversation_id, message_id, stop(), snapshot(), wait_for_change(version, timeout)
CompareJob: stop(), snapshot(), wait_for_change(version, timeout)
ImportJob: cancel(), snapshot(), wait_for_change(version, timeout)
"""

from app.services.chat_service import ChatService
from app.services.errors import ServiceError
from app.services.jobs import AnswerJob, CompareJob, ImportJob
from app.services.views import (
    AnswerNumbers,
    AnswerOptions,
    AnswerSnapshot,
    ChatMessage,
    Completion,
    EngineState,
    ImportSnapshot,
    ServiceConfig,
)

__all__ = [
    "AnswerJob",
    "AnswerNumbers",
    "AnswerOptions",
    "AnswerSnapshot",
    "ChatMessage",
    "ChatService",
    "CompareJob",
    "Completion",
    "EngineState",
    "ImportJob",
    "ImportSnapshot",
    "ServiceConfig",
    "ServiceError",
]
