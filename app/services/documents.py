"""The imports: one at a time, in a thread of its own, once the tokenizer is there.

Knows the worker and the database, no page. Made by the chat service; its page may ask it directly.
"""

import contextlib
import logging
import shutil
import threading
from collections.abc import Callable, Iterable

from app.importing import FoundFile, UnreadableError, file_sha256
from app.services.errors import BusyError, EngineNotReadyError, ServiceClosedError
from app.services.import_requests import ImportMemory, ImportRequest
from app.services.import_work import ImportWork
from app.services.jobs import ImportJob
from app.services.workbench import Workbench
from app.services.worker import Worker, explain
from storage import Database

__all__ = ["DocumentImports"]

logger = logging.getLogger(__name__)

_POLL_SECONDS = 0.1


class DocumentImports:
    """Starts imports, remembers the one that runs and the one that was not finished.

    Args:
        keep_time: to be told when documents were deleted, which can be undone for some time.
    """

    def __init__(
        self,
        database: Database,
        worker: Worker[Workbench],
        keep_time: Callable[[], None],
    ) -> None:
        self._database = database
        self._worker = worker
        self._keep_time = keep_time
        self._memory = ImportMemory(database)
        self._job: ImportJob | None = None
        self._thread: threading.Thread | None = None
        self._unfinished_upload: ImportRequest | None = None
        self._is_closed = False
        self._lock = threading.Lock()

    def start(self, request: ImportRequest) -> ImportJob:
        """Take the files in, in the background; what was not finished before is given up.

        Raises:
            BusyError: another import runs.
            ServiceClosedError: the program is closing.
        """
        with self._lock:
            if self._is_closed:
                raise ServiceClosedError("The program is closing. Start it again for imports.")
            if self.running() is not None:
                raise BusyError("An import is running. Wait for it, or cancel it.")
            if self._unfinished_upload != request:
                self._discard_upload()
            self._unfinished_upload = request if request.is_upload else None
            self._memory.begun(request)
            self._job = ImportJob()
            self._thread = threading.Thread(
                target=self._run, args=(self._job, request), name="import", daemon=True
            )
            self._thread.start()
            return self._job

    def running(self) -> ImportJob | None:
        """The import that is running."""
        job = self._job
        return job if job is not None and not job.snapshot().is_over else None

    def unfinished(self) -> ImportRequest | None:
        """The import that was cancelled, failed, or was broken off when its program ended."""
        if self.running() is not None:
            return None
        return self._unfinished_upload or self._memory.unfinished()

    def resume(self) -> ImportJob:
        """Go on with it: what was taken in before is found unchanged and passed over.

        Raises as `start`, and BusyError where there is nothing to go on with.
        """
        request = self.unfinished()
        if request is None:
            raise BusyError("There is no import to go on with: it runs, or has come to its end.")
        return self.start(request)

    def dismiss(self) -> None:
        """Give up what was not finished; what was taken in stays."""
        with self._lock:
            if self.running() is None:
                self._discard_upload()
                self._memory.ended()

    def folders(self) -> list[str]:
        """The URIs of the folders that were imported."""
        return self._memory.folders()

    def remove_folder(self, uri: str) -> None:
        """A folder's documents were deleted; once they are purged, it was never imported."""
        self._memory.remove_folder(uri)

    def forget_copies(self, source_ids: Iterable[int]) -> None:
        """Documents are to be deleted: an unfinished upload may hold copies of their files.

        Going on with it would bring them back. Undo does not need them. Raises RecordNotFoundError.
        """
        upload = self._unfinished_upload
        if upload is None:
            return
        sources = map(self._database.sources.get, source_ids)
        deleted = {source.uri: source.sha256 for source in sources}
        for found in upload.files():
            if isinstance(found, FoundFile) and found.uri in deleted:
                with contextlib.suppress(OSError, UnreadableError):  # gone
                    if file_sha256(found.path, found.num_bytes) == deleted[found.uri]:
                        found.path.unlink()

    def close(self, timeout: float) -> None:
        """Break the running import off, and wait for that; it can be gone on with next time."""
        with self._lock:
            self._is_closed = True
        if self._job is not None and self._thread is not None:
            self._job.cancel()
            self._thread.join(timeout)

    def _discard_upload(self) -> None:
        upload, self._unfinished_upload = self._unfinished_upload, None
        if upload is not None:
            shutil.rmtree(upload.paths[0], ignore_errors=True)

    def _run(self, job: ImportJob, request: ImportRequest) -> None:
        try:
            while self._worker.wait_until_ready(_POLL_SECONDS).status not in ("ready", "failed"):
                if job.is_cancelled:
                    job.show(status="cancelled")
                    return
            bench = self._worker.bench
            if bench is None:
                raise EngineNotReadyError(self._worker.state.detail)
            work = ImportWork(
                *(self._database, bench.keeper, bench.import_tokenizer, job, request),
                keep_time=self._keep_time,
            )
            if work.run():
                self._discard_upload()
                self._memory.ended()
            job.show(status="cancelled" if job.is_cancelled else "complete")
        except Exception as error:  # the thread's boundary: logged, shown in a sentence
            logger.exception("an import failed")
            job.show(status="failed", error=explain(error, "The import failed"))
        finally:
            self._worker.request_idle_work()
