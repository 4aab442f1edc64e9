"""`trie stats | show PREFIX | forget SOURCE | export FILE | import FILE`: the Trie on the terminal.

Knows the chat service, which opens the Trie without the model's weights, and no page. Called by the
command line.
"""

import argparse
import dataclasses
import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from app import paths
from app.numbers import counted
from app.plain_text import displayable
from app.services.errors import EngineNotReadyError, NothingToAnswerError, ServiceError
from app.services.forgetting import UNDO_SECONDS
from app.settings import Settings
from app.terminal import Terminal
from app.trie_numbers import percent, shown_text, statistics_lines

if TYPE_CHECKING:
    from app.services import ChatService

__all__ = ["add_trie_options", "run_trie_command"]

_KINDS = {"document": "document", "history": "chat"}


class _SourceError(ServiceError):
    """What is to be forgotten was not found, or could be several things."""


def add_trie_options(parser: argparse.ArgumentParser) -> list[argparse.ArgumentParser]:
    """Add the commands; returns their parsers, for the options that all commands have."""
    commands = parser.add_subparsers(dest="trie_command", required=True, metavar="COMMAND")
    stats = commands.add_parser("stats", help="what the Trie holds, and what came of it")
    show = commands.add_parser("show", help="what follows a text, how often, and from where")
    show.add_argument("prefix", metavar="PREFIX", help='a text; "" for the most frequent tokens')
    forget = commands.add_parser("forget", help="delete a document or a chat with all its tokens")
    forget.add_argument(
        "source",
        metavar="SOURCE",
        help="a document's name or path, a chat's title, document:3 or chat:3",
    )
    export = commands.add_parser("export", help="write all it was made from to a file")
    export.add_argument("file", metavar="FILE", help="a file to write, for instance trie.jsonl.gz")
    take_in = commands.add_parser("import", help="take in what was exported, as documents")
    take_in.add_argument("file", metavar="FILE", help="a file that `trie export` wrote")
    parsers = [stats, show, forget, export, take_in]
    for command in parsers:
        command.add_argument("--json", action="store_true", help="print the result as JSON")
    return parsers


def run_trie_command(settings: Settings, options: Mapping[str, Any], terminal: Terminal) -> int:
    """Open the Trie, run one command, close it. Returns the exit status."""
    from app.services import ChatService, ServiceConfig

    service = ChatService(ServiceConfig(**settings.service_values(), can_answer=False))
    try:
        service.start()
        state = service.wait_until_ready()
        if not state.is_ready:
            raise EngineNotReadyError(state.detail)
        result, lines = _COMMANDS[options["trie_command"]](service, options, terminal)
    finally:
        service.close()
    if options["json"]:
        terminal.result(json.dumps(_json(result)))
    else:
        for line in lines:
            terminal.result(line)
    return 0


Result = tuple[dict[str, Any], list[str]]  # for --json, and for people


def _stats(service: "ChatService", _: Mapping[str, Any], __: Terminal) -> Result:
    overview = service.trie.overview()
    result = dataclasses.asdict(overview) | {"hit_rate": overview.hit_rate}
    return result, [f"{name}: {value}" for name, value, _ in statistics_lines(overview)]


def _show(service: "ChatService", options: Mapping[str, Any], _: Terminal) -> Result:
    walked = service.trie.walk(options["prefix"])
    path = "".join(text for _, text in walked.steps)
    lines = [f"{shown_text(path) or 'The root'}: {counted(walked.count, 'time')}"]
    if walked.num_left_out:
        lines = ["The whole text does not occur; its longest end that does:", *lines]
    if not walked.count or (walked.num_left_out and not walked.steps):
        return dataclasses.asdict(walked), ["Nothing of this text is in the Trie."]
    for branch in walked.branches:
        sources = ", ".join(
            f"{source.name} {percent(source.share)}" for source in branch.sources
        ) + (f", {branch.num_more_sources} more" if branch.num_more_sources else "")
        lines.append(
            f"{branch.count:>9,}  {percent(branch.count / walked.count):>6}"
            f"  {shown_text(branch.text)}  [{sources}]"
        )
    if walked.num_branches > len(walked.branches):
        lines.append(f"and {walked.num_branches - len(walked.branches):,} more")
    return dataclasses.asdict(walked), lines


def _forget(service: "ChatService", options: Mapping[str, Any], _: Terminal) -> Result:
    named = options["source"]
    if not named.strip():
        raise NothingToAnswerError("Name a document or a chat.")
    found = service.trie.find_sources(named)
    if not found:
        raise _SourceError(
            f"There is no document and no chat {named}. Give a name as the page shows it, a path, "
            "document:3 or chat:3."
        )
    if len(found) > 1:
        several = ", ".join(f"{_KINDS[source.kind]}:{source.id}" for source in found[:20])
        raise _SourceError(f"{named} may be {several}: name one of these.")
    (source,) = found
    if source.kind == "document":
        service.delete_document(source.id)
    else:
        service.delete_conversation(source.id)
    result = {"kind": _KINDS[source.kind], "id": source.id, "name": source.name}
    minutes = round(UNDO_SECONDS / 60)
    return result, [
        f"Forgotten: {_KINDS[source.kind]} {source.name}. The page can undo this for {minutes} "
        "minutes; then the next run takes it out of every file."
    ]


def _export(service: "ChatService", options: Mapping[str, Any], terminal: Terminal) -> Result:
    path = paths.expanded(options["file"]).absolute()
    written = service.export_trie(path, terminal.progress)
    lines = [f"{name} is damaged on the disk and was left out." for name in written.left_out]
    lines.append(f"Exported {written.num_sources:,} documents and chats to {path}.")
    return {"file": str(path), **dataclasses.asdict(written)}, lines


def _import(service: "ChatService", options: Mapping[str, Any], terminal: Terminal) -> Result:
    path = paths.expanded(options["file"]).absolute()
    taken = service.import_trie(path, terminal.progress)
    lines = [f"{name} is there already." for name in taken.already_there]
    taken_in = f"{counted(taken.num_documents, 'document')}, {counted(taken.num_tokens, 'token')}"
    return dataclasses.asdict(taken), [*lines, f"Imported {taken_in}."]


_COMMANDS: dict[str, Callable[["ChatService", Mapping[str, Any], Terminal], Result]] = {
    "stats": _stats,
    "show": _show,
    "forget": _forget,
    "export": _export,
    "import": _import,
}


def _json(value: Any) -> Any:
    """With texts that can be written as UTF-8."""
    if isinstance(value, str):
        return displayable(value)
    if isinstance(value, Mapping):
        return {str(key): _json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_json(item) for item in value]
    return value
