"""The Trie as a file: all it was made from, to be carried to another machine.

gzip of JSON lines: one that says what it is, one for each document or chat with its text and its
token ids, and one with their number and the SHA-256 of all before it. A file is checked to its end
before anything of it is taken in; what it holds becomes documents. Never pickle. Knows the
database, the workbench's Trie and tokenizer. Used by the command line's service.
"""

import base64
import contextlib
import gzip
import hashlib
import json
import os
import re
import tempfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from app.importing import displayable_name
from app.prompting import find_control_ids
from app.services.document_tokens import encode_batches, joined
from app.services.errors import TrieFileError
from app.services.text_stream import TextStream
from app.services.views import UNTITLED
from app.services.workbench import Workbench
from storage import (
    Conversation,
    Database,
    RecordDamagedError,
    RecordExistsError,
    RecordNotFoundError,
    Source,
)

__all__ = ["TRIE_FILE_SCHEME", "TakenIn", "Written", "export_trie", "import_trie"]

Entry = dict[str, Any]
Progress = Callable[[str], None]

TRIE_FILE_SCHEME = "lookahead-trie"  # of the URIs of what came from one
_FORMAT = "lookahead-trie"
_VERSION = 1
_MAX_LINE_BYTES = 1 << 30  # of one document with its token ids
# A line as `_line` writes it: a few texts and numbers, so that no small file becomes a large one.
_FLAT = re.compile(rb'\{(?:"[a-z0-9_]+":(?:"[^"\\]*+(?:\\.[^"\\]*+)*+"|\d{1,18}),?){1,16}\}\n')
_ENTRY = {"kind": str, "name": str, "uri": str, "sha256": str, "text": str, "token_ids": str}
_MAX_NAME_LENGTH = 1_000
_KINDS = ("document", "history")
_SHA256 = re.compile("[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Written:
    """What an export wrote: documents and chats, and the names of those damaged on the disk."""

    num_sources: int
    left_out: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TakenIn:
    """What became of a Trie file: documents made, and the names of those there already."""

    num_documents: int
    num_tokens: int
    already_there: tuple[str, ...]


def export_trie(database: Database, bench: Workbench, path: Path, report: Progress) -> Written:
    """Write what the Trie was made from to a file; what is damaged on the disk is left out.

    Args:
        path: appears whole or not at all, readable for its owner alone; what was there is replaced.
        report: told in a sentence how far it is.

    Raises TrieFileError where the file cannot be written.
    """
    header = {
        "format": _FORMAT,
        "version": _VERSION,
        "tokenizer": bench.model.tokenizer_fingerprint,
    }
    digest = hashlib.sha256()
    num_written = 0
    left_out: list[str] = []
    try:
        with _new_file(path) as file:
            for value in _with_header(header, _entries(database, bench, left_out)):
                line = _line(value)
                digest.update(line)
                file.write(line)
                if value is not header:
                    num_written += 1
                    report(f"Written: {num_written}")
            file.write(_line({"num_sources": num_written, "sha256": digest.hexdigest()}))
    except OSError as error:
        raise TrieFileError(f"{path} cannot be written: {error.strerror or error}.") from error
    return Written(num_written, tuple(left_out))


def import_trie(database: Database, bench: Workbench, path: Path, report: Progress) -> TakenIn:
    """Take in what a file holds, once it has been checked as a whole.

    Token ids are used where they are those of this tokenizer and say the text, else the text is
    tokenized anew.

    Raises TrieFileError where the file cannot be read, is damaged, or is of another kind.
    """
    report(f"Checking {path.name} …")
    num_entries = sum(1 for _ in _checked(path, bench))
    control_ids = find_control_ids(bench.import_tokenizer)
    stream = TextStream(bench.import_tokenizer)
    num_documents = num_tokens = 0
    already_there = []
    for number, (entry, own_ids) in enumerate(_checked(path, bench), 1):
        report(f"Taking in {number} of {num_entries}")
        token_ids = own_ids
        if not len(own_ids) or stream.decode(own_ids.tolist()) != entry["text"]:
            batches = encode_batches(bench.import_tokenizer, entry["text"], control_ids)
            token_ids = joined(batches)
        try:
            _, sequence_ids = database.sources.add_document(
                name=displayable_name(entry["name"])[:_MAX_NAME_LENGTH] or UNTITLED,
                uri=f"{TRIE_FILE_SCHEME}:{entry['sha256']}",
                sha256=entry["sha256"],
                text=entry["text"].replace("\0", ""),  # which no page takes
                token_ids=token_ids,
                tokenizer_id=bench.tokenizer_id,
            )
        except RecordExistsError:
            already_there.append(entry["name"])
            continue
        num_documents += 1
        num_tokens += len(token_ids) if sequence_ids else 0
        bench.keeper.expect(len(token_ids))
    bench.keeper.reconcile()
    return TakenIn(num_documents, num_tokens, tuple(already_there))


def _with_header(header: Entry, entries: Iterator[Entry]) -> Iterator[Entry]:
    yield header
    yield from entries


def _entries(database: Database, bench: Workbench, left_out: list[str]) -> Iterator[Entry]:
    """Every document, then every chat that has been answered; one deleted meanwhile is left out."""
    stream = TextStream(bench.import_tokenizer)
    sources: list[Source | Conversation] = [*database.sources.list()]
    for source in [*sources, *database.conversations.list()]:
        try:
            if isinstance(source, Source):
                yield _document(database, bench, source)
            elif (chat := _chat(database, bench, source, stream)) is not None:
                yield chat
        except RecordNotFoundError:
            continue
        except RecordDamagedError:
            left_out.append(source.name if isinstance(source, Source) else source.title or UNTITLED)


def _document(database: Database, bench: Workbench, source: Source) -> Entry:
    """Without token ids where they are damaged: the text gives them again."""
    sequences = database.passages.sequences_of(source.id, bench.tokenizer_id)
    token_ids = joined([])
    with contextlib.suppress(RecordDamagedError):
        token_ids = _joined(database, [sequence_id for sequence_id, _ in sequences])
    text = database.sources.text(source.id)
    return _entry(("document", source.name, source.uri), source.sha256 or "", text, token_ids)


def _chat(
    database: Database, bench: Workbench, chat: Conversation, stream: TextStream
) -> Entry | None:
    """None where nothing was answered with this tokenizer."""
    sequences = map(database.sequences.get, database.sequences.for_conversation(chat.id))
    own = [record.id for record in sequences if record.tokenizer_id == bench.tokenizer_id]
    token_ids = _joined(database, own)
    if not len(token_ids):
        return None
    sha256 = _history_digest(token_ids)
    text = stream.decode(token_ids.tolist())
    return _entry(("history", chat.title or UNTITLED, ""), sha256, text, token_ids)


def _history_digest(token_ids: NDArray[np.int32]) -> str:
    """What stands for a chat, which is no file."""
    return hashlib.sha256(b"history" + token_ids.astype("<i4").tobytes()).hexdigest()


def _joined(database: Database, sequence_ids: Sequence[int]) -> NDArray[np.int32]:
    return joined(map(database.sequences.token_ids, sequence_ids))


def _entry(
    names: tuple[str, str, str], sha256: str, text: str, token_ids: NDArray[np.int32]
) -> Entry:
    kind, name, uri = names
    data = base64.b64encode(token_ids.astype("<i4").tobytes()).decode("ascii")
    return {
        "kind": kind,
        "name": name,
        "uri": uri,
        "sha256": sha256,
        "text": text,
        "token_ids": data,
    }


def _line(value: Entry) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode("ascii") + b"\n"


@contextlib.contextmanager
def _new_file(path: Path) -> Iterator[IO[bytes]]:
    """A gzip file that takes the place of `path` when all went well."""
    number, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(number, "wb") as raw:
            with gzip.GzipFile("", "wb", fileobj=raw, mtime=0) as file:
                yield file  # type: ignore[misc]
            raw.flush()
            os.fsync(raw.fileno())
        os.replace(name, path)
    finally:
        Path(name).unlink(missing_ok=True)


def _checked(path: Path, bench: Workbench) -> Iterator[tuple[Entry, NDArray[np.int32]]]:
    """Each entry of a file with its token ids; an error where it is not what `export_trie` wrote.

    Without token ids where they are of another tokenizer than the workbench's.
    """
    assert bench.import_tokenizer is not None, "a model that was loaded has a tokenizer"
    vocab_size = max(bench.model.vocab_size, len(bench.import_tokenizer))
    digest = hashlib.sha256()
    num_entries = 0
    header: Entry | None = None
    is_over = False
    for line in _lines(path):
        if is_over:
            raise TrieFileError(f"{path} goes on behind its end. Export it again.")
        value = _parsed(path, line)
        if header is None:
            header = value
            _check_header(path, header)
        elif "sha256" in value and "kind" not in value:
            is_over = True
            if value != {"num_sources": num_entries, "sha256": digest.hexdigest()}:
                raise TrieFileError(f"{path} is damaged: its checksum does not match.")
        else:
            num_entries += 1
            is_own = header["tokenizer"] == bench.model.tokenizer_fingerprint
            token_ids = _token_ids(path, value, vocab_size if is_own else 2**31)
            yield value, token_ids if is_own else token_ids[:0]
        digest.update(line)
    if not is_over:
        raise TrieFileError(f"{path} ends too early. Copy or export it again.")


def _lines(path: Path) -> Iterator[bytes]:
    try:
        with gzip.open(path) as file:
            while line := file.readline(_MAX_LINE_BYTES + 1):
                if len(line) > _MAX_LINE_BYTES:
                    raise TrieFileError(f"{path} has a line that is too long; it is no Trie file.")
                yield line
    except gzip.BadGzipFile as error:
        raise _no_trie_file(path) from error
    except (EOFError, zlib.error) as error:
        raise TrieFileError(f"{path} is damaged or ends too early. Copy it again.") from error
    except OSError as error:
        raise TrieFileError(f"{path} cannot be read: {error.strerror or error}.") from error


def _parsed(path: Path, line: bytes) -> Entry:
    if not _FLAT.fullmatch(line):
        raise _no_trie_file(path)
    try:
        value: Entry = json.loads(line)
    except ValueError as error:
        raise _no_trie_file(path) from error
    except MemoryError as error:
        raise TrieFileError(
            f"{path} holds a document of {len(line):,} bytes, for which there is no memory."
        ) from error
    return value


def _check_header(path: Path, header: Entry) -> None:
    if header.get("format") != _FORMAT or not isinstance(header.get("tokenizer"), str):
        raise _no_trie_file(path)
    if header.get("version") != _VERSION:
        raise TrieFileError(
            f"{path} is of version {header.get('version')!r}, and this program reads version "
            f"{_VERSION}. Export it with this version, or update the program."
        )


def _token_ids(path: Path, entry: Entry, vocab_size: int) -> NDArray[np.int32]:
    is_whole = entry.keys() == _ENTRY.keys() and all(
        isinstance(entry[name], kind) for name, kind in _ENTRY.items()
    )
    if is_whole and entry["kind"] in _KINDS and _SHA256.fullmatch(entry["sha256"]):
        with contextlib.suppress(ValueError):  # of half a surrogate pair too
            for name in _ENTRY:
                entry[name].encode()
            data = base64.b64decode(entry["token_ids"], validate=True)
            token_ids = np.frombuffer(data, "<i4").astype(np.int32)
            is_known = token_ids.min(initial=0) >= 0 and token_ids.max(initial=0) < vocab_size
            is_itself = entry["kind"] == "document" or entry["sha256"] == _history_digest(token_ids)
            if is_known and is_itself and (entry["text"] or len(token_ids)):
                return token_ids
    raise TrieFileError(f"{path} holds an entry that is not as it should be. Export it again.")


def _no_trie_file(path: Path) -> TrieFileError:
    return TrieFileError(f"{path} is no file that `trie export` wrote.")
