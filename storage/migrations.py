"""The schema, as numbered steps that are only ever added to, never changed.

Each step is a function on a `sqlite_utils.Database`, recorded by its name once it has run. Knows
nothing of what the rows mean; `upgrade.py` runs the steps.

Row ids of conversations, messages, sources and sequences are never used twice (AUTOINCREMENT): a
cache or a recorded draft may still name one that is gone.
"""

import json
import uuid
from collections.abc import Callable

from sqlite_utils import Database as Connection

__all__ = ["MIGRATIONS", "MIGRATION_SET", "Migration"]

Migration = Callable[[Connection], None]

MIGRATION_SET = "lookahead-chat"

FIRST_TABLES = (
    """
    CREATE TABLE settings (
        key TEXT PRIMARY KEY,
        value TEXT NOT NULL  -- JSON
    )
    """,
    """
    CREATE TABLE tokenizers (
        id INTEGER PRIMARY KEY,
        fingerprint TEXT NOT NULL UNIQUE,
        name TEXT NOT NULL,
        created_at TEXT NOT NULL
    )
    """,
    """
    CREATE TABLE conversations (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        title TEXT NOT NULL,
        current_message_id INTEGER REFERENCES messages(id) ON DELETE SET NULL,
        created_at TEXT NOT NULL,
        updated_at TEXT NOT NULL
    )
    """,
    # The parent does not cascade: SQLite stops at 1,000 nested deletions, a long chat is deeper.
    """
    CREATE TABLE messages (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        conversation_id INTEGER NOT NULL REFERENCES conversations(id) ON DELETE CASCADE,
        parent_id INTEGER,
        role TEXT NOT NULL CHECK (role IN ('user', 'assistant')),
        status TEXT NOT NULL CHECK (status IN ('streaming', 'complete', 'stopped', 'failed')),
        text TEXT NOT NULL,
        token_ids BLOB NOT NULL CHECK (length(token_ids) % 4 = 0),
        tokenizer_id INTEGER REFERENCES tokenizers(id),
        error TEXT NOT NULL DEFAULT '',
        created_at TEXT NOT NULL,
        updated_at TEXT NOT NULL,
        UNIQUE (id, conversation_id),
        FOREIGN KEY (parent_id, conversation_id) REFERENCES messages(id, conversation_id)
            DEFERRABLE INITIALLY DEFERRED
    )
    """,
    """
    CREATE TABLE sources (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        kind TEXT NOT NULL CHECK (kind IN ('history', 'document')),
        conversation_id INTEGER UNIQUE REFERENCES conversations(id) ON DELETE CASCADE,
        name TEXT NOT NULL,
        uri TEXT NOT NULL,
        sha256 TEXT UNIQUE,
        num_characters INTEGER NOT NULL,
        pinned INTEGER NOT NULL DEFAULT 0,
        created_at TEXT NOT NULL,
        CHECK ((kind = 'history') = (conversation_id IS NOT NULL)),
        CHECK ((kind = 'document') = (sha256 IS NOT NULL))
    )
    """,
    """
    CREATE TABLE document_texts (
        source_id INTEGER PRIMARY KEY REFERENCES sources(id) ON DELETE CASCADE,
        text TEXT NOT NULL
    )
    """,
    """
    CREATE VIRTUAL TABLE document_texts_fts USING fts5 (
        text, content='document_texts', content_rowid='source_id'
    )
    """,
    """
    CREATE TRIGGER document_texts_inserted AFTER INSERT ON document_texts BEGIN
        INSERT INTO document_texts_fts (rowid, text) VALUES (new.source_id, new.text);
    END
    """,
    """
    CREATE TRIGGER document_texts_deleted AFTER DELETE ON document_texts BEGIN
        INSERT INTO document_texts_fts (document_texts_fts, rowid, text)
            VALUES ('delete', old.source_id, old.text);
    END
    """,
    """
    CREATE TRIGGER document_texts_updated AFTER UPDATE ON document_texts BEGIN
        INSERT INTO document_texts_fts (document_texts_fts, rowid, text)
            VALUES ('delete', old.source_id, old.text);
        INSERT INTO document_texts_fts (rowid, text) VALUES (new.source_id, new.text);
    END
    """,
    """
    CREATE TABLE sequences (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        source_id INTEGER NOT NULL REFERENCES sources(id) ON DELETE CASCADE,
        tokenizer_id INTEGER NOT NULL REFERENCES tokenizers(id),
        message_id INTEGER REFERENCES messages(id) ON DELETE CASCADE,  -- history: the answer
        num_tokens INTEGER NOT NULL,
        token_ids BLOB NOT NULL CHECK (length(token_ids) = 4 * num_tokens),
        created_at TEXT NOT NULL
    )
    """,
    """
    CREATE TABLE generations (
        id INTEGER PRIMARY KEY,
        message_id INTEGER NOT NULL UNIQUE REFERENCES messages(id) ON DELETE CASCADE,
        reason TEXT NOT NULL,
        model TEXT NOT NULL,
        mode TEXT NOT NULL,
        dtype TEXT NOT NULL,
        device TEXT NOT NULL,
        seed TEXT,  -- decimal: 64 bits unsigned do not fit into an INTEGER
        temperature REAL NOT NULL,
        prompt_length INTEGER NOT NULL,
        reused_length INTEGER NOT NULL,
        prefilled_length INTEGER NOT NULL,
        num_prefill_chunks INTEGER NOT NULL,
        num_steps INTEGER NOT NULL,
        num_tokens INTEGER NOT NULL,
        num_end_tokens INTEGER NOT NULL,
        num_cut_tokens INTEGER NOT NULL,
        num_drafted_tokens INTEGER NOT NULL,
        num_accepted_tokens INTEGER NOT NULL,
        accepted_by_source TEXT NOT NULL,  -- JSON
        prefill_seconds REAL NOT NULL,
        decode_seconds REAL NOT NULL,
        draft_seconds REAL NOT NULL
    )
    """,
    """
    CREATE TABLE steps (
        generation_id INTEGER NOT NULL REFERENCES generations(id) ON DELETE CASCADE,
        step_index INTEGER NOT NULL,
        width INTEGER NOT NULL,
        rows INTEGER NOT NULL,
        accepted_length INTEGER NOT NULL,
        match_length INTEGER NOT NULL,
        token_ids BLOB NOT NULL CHECK (length(token_ids) % 4 = 0),
        accepted_nodes TEXT NOT NULL,  -- JSON
        draft TEXT NOT NULL,  -- JSON
        seconds REAL NOT NULL,
        draft_seconds REAL NOT NULL,
        PRIMARY KEY (generation_id, step_index)
    )
    """,
    """
    CREATE TABLE successors (
        model_fingerprint TEXT PRIMARY KEY,
        data BLOB NOT NULL,
        updated_at TEXT NOT NULL
    )
    """,
    """
    CREATE TABLE facts (
        model_fingerprint TEXT NOT NULL,
        key TEXT NOT NULL,
        value TEXT NOT NULL,
        updated_at TEXT NOT NULL,
        PRIMARY KEY (model_fingerprint, key)
    )
    """,
    "CREATE INDEX conversations_by_update ON conversations (updated_at)",
    "CREATE INDEX conversations_by_current_message ON conversations (current_message_id)",
    "CREATE INDEX messages_by_conversation ON messages (conversation_id)",
    "CREATE INDEX messages_by_parent ON messages (parent_id, conversation_id)",
    "CREATE INDEX messages_by_status ON messages (status) WHERE status = 'streaming'",
    "CREATE INDEX sources_by_uri ON sources (uri) WHERE kind = 'document'",
    "CREATE INDEX sequences_by_source ON sequences (source_id)",
    "CREATE INDEX sequences_by_tokenizer ON sequences (tokenizer_id, id)",
    "CREATE INDEX sequences_by_message ON sequences (message_id)",
)


def m0001_first_tables(connection: Connection) -> None:
    """Chats, documents, sequences, generations, what was learned about models, settings."""
    for statement in FIRST_TABLES:
        connection.execute(statement)
    connection.execute(
        "INSERT INTO settings (key, value) VALUES ('database_id', ?)",
        [json.dumps(uuid.uuid4().hex)],
    )


def m0002_text_lengths(connection: Connection) -> None:
    """The characters that each token of a step completed; not known of earlier steps."""
    connection.execute("ALTER TABLE steps ADD COLUMN text_lengths TEXT")  # JSON


def m0003_draft_policy(connection: Connection) -> None:
    """What drafting learned and is to read, how tokens were chosen, which steps paused."""
    for table in ("calibration", "step_costs"):
        connection.execute(
            f"CREATE TABLE {table} (model_fingerprint TEXT PRIMARY KEY, data BLOB NOT NULL,"
            " updated_at TEXT NOT NULL)"
        )
    for column in (  # earlier answers were made without these, and these are their values then
        "top_k INTEGER NOT NULL DEFAULT 0",
        "top_p REAL NOT NULL DEFAULT 1.0",
        "min_p REAL NOT NULL DEFAULT 0.0",
        "repetition_penalty REAL NOT NULL DEFAULT 1.0",
    ):
        connection.execute(f"ALTER TABLE generations ADD COLUMN {column}")
    connection.execute(
        "CREATE TABLE deeper_documents (source_id INTEGER PRIMARY KEY"
        " REFERENCES sources(id) ON DELETE CASCADE)"
    )
    connection.execute(
        "CREATE TABLE deeper_readings ("
        " source_id INTEGER NOT NULL REFERENCES deeper_documents(source_id) ON DELETE CASCADE,"
        " model_fingerprint TEXT NOT NULL,"
        " num_read INTEGER NOT NULL,"
        " PRIMARY KEY (source_id, model_fingerprint))"
    )
    connection.execute("ALTER TABLE steps ADD COLUMN paused INTEGER NOT NULL DEFAULT 0")


FORGETTING = (
    "ALTER TABLE conversations ADD COLUMN uses_documents INTEGER NOT NULL DEFAULT 0",
    # what was quoted for an answer, as JSON: [source, first character, end] of each passage
    "ALTER TABLE messages ADD COLUMN passages TEXT NOT NULL DEFAULT '[]'",
    # hidden since then, and gone for good once the time for undoing has passed
    "ALTER TABLE conversations ADD COLUMN deleted_at TEXT",
    "ALTER TABLE sources ADD COLUMN deleted_at TEXT",
    # CRC-32 of what a row holds; NULL of earlier rows
    "ALTER TABLE messages ADD COLUMN checksum INTEGER",
    "ALTER TABLE document_texts ADD COLUMN checksum INTEGER",
    "ALTER TABLE sequences ADD COLUMN checksum INTEGER",
    # purged rows of which something may still stand elsewhere: in copies, recorded drafts, caches
    """
    CREATE TABLE erasures (
        kind TEXT NOT NULL CHECK (kind IN ('conversation', 'source', 'sequence', 'words')),
        row_id INTEGER NOT NULL,  -- 0 of words: those of the search index
        tokenizer_id INTEGER,  -- of a sequence
        PRIMARY KEY (kind, row_id)
    )
    """,
    "CREATE INDEX conversations_deleted ON conversations (deleted_at) WHERE deleted_at IS NOT NULL",
    "CREATE INDEX sources_deleted ON sources (deleted_at) WHERE deleted_at IS NOT NULL",
    # what is read by everything but undoing and purging
    "CREATE VIEW shown_conversations AS SELECT * FROM conversations WHERE deleted_at IS NULL",
    "CREATE VIEW shown_sources AS SELECT * FROM sources WHERE deleted_at IS NULL",
    """
    CREATE VIEW shown_messages AS SELECT messages.* FROM messages
        JOIN conversations ON conversations.id = conversation_id WHERE deleted_at IS NULL
    """,
    """
    CREATE VIEW shown_sequences AS SELECT sequences.* FROM sequences
        JOIN sources ON sources.id = source_id WHERE deleted_at IS NULL
    """,
)


def m0004_forgetting(connection: Connection) -> None:
    """Deletion with a time for undoing it, checksums, and chats that use documents."""
    for statement in FORGETTING:
        connection.execute(statement)


def m0005_no_facts(connection: Connection) -> None:
    """What was measured on a machine does not belong to a folder; it is kept in a file beside."""
    connection.execute("DROP TABLE facts")


MIGRATIONS: tuple[Migration, ...] = (
    m0001_first_tables,
    m0002_text_lengths,
    m0003_draft_policy,
    m0004_forgetting,
    m0005_no_facts,
)
