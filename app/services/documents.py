"""The imports: one at a time, in a thread of its own, once the tokenizer is there.

Knows the worker and the database, no page. Used by the chat service, under its lock.
"""

import logging
import threading
from collections.abc import Iterable

from app.importing import FoundFile, SkippedFile
from app.services.errors import BusyError, EngineNotReadyError
from app.services.import_work import ImportWork
from app.services.jobs import ImportJob
from app.services.workbench import Workbench
from app.services.worker import Worker, explain
from storage import Database

__all__ = ["DocumentImports"]

logger = logging.getLogger(__name__)

_POLL_SECONDS = 0.1


class DocumentImports:
    """Starts imports and remembers the one that runs."""

    def __init__(self, database: Database, worker: Worker[Workbench]) -> None:
        self._database = database
        self._worker = worker
        self._job: ImportJob | None = None
        self._thread: threading.Thread | None = None

    def start(
        self, files: Iterable[FoundFile | SkippedFile], *, is_deeper: bool = False
    ) -> ImportJob:
        """Take the files in, in the background; see `ImportWork`.

        Raises BusyError while another import runs.
        """
        if self.running() is not None:
            raise BusyError("An import is running. Wait for it, or cancel it.")
        self._job = ImportJob()
        self._thread = threading.Thread(
            target=self._run, args=(self._job, files, is_deeper), name="import", daemon=True
        )
        self._thread.start()
        return self._job

    def running(self) -> ImportJob | None:
        """The import that is running."""
        job = self._job
        return job if job is not None and not job.snapshot().is_over else None

    def close(self, timeout: float) -> None:
        """End the import after the file it is reading, and wait for that."""
        if self._job is not None and self._thread is not None:
            self._job.cancel()
            self._thread.join(timeout)

    def _run(
        self, job: ImportJob, files: Iterable[FoundFile | SkippedFile], is_deeper: bool
    ) -> None:
        try:
            while self._worker.wait_until_ready(_POLL_SECONDS).status not in ("ready", "failed"):
                if job.is_cancelled:
                    job.show(status="cancelled")
                    return
            bench = self._worker.bench
            if bench is None:
                raise EngineNotReadyError(self._worker.state.detail)
            keeper, tokenizer = bench.keeper, bench.import_tokenizer
            ImportWork(self._database, keeper, tokenizer, job, is_deeper).run(files)
        except Exception as error:  # the thread's boundary: logged, shown in a sentence
            logger.exception("an import failed")
            job.show(status="failed", error=explain(error, "The import failed"))
        finally:
            self._worker.request_idle_work()
