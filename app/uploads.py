"""Files that come through the browser: received one by one into a folder of their own.

Knows no page and no import; the routes are beside the page's. The page first names what it has, and
is told what of it is wanted, so that nobody waits for ten gigabytes of photographs to be refused.
"""

import asyncio
import contextlib
import errno
import json
import logging
import os
import secrets
import shutil
import threading
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fastapi import APIRouter, Request
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse, Response

from app.importing import ReadingLimits, SkippedFile, displayable_name
from app.importing.files import reason_against_upload
from app.importing.kinds import kind_of_name
from app.importing.limits import too_large

__all__ = ["UploadError", "Uploads", "upload_router"]

logger = logging.getLogger(__name__)

_MAX_FILES = 100_000
_MAX_LIST_BYTES = 32 * 1024 * 1024
_MAX_BATCHES = 8  # that wait to be imported; the oldest makes room
_MAX_NAME_BYTES = 255  # of a part of a path, on the usual disks
_MAX_PATH_LENGTH = 1024
_FREE_BYTES = 1024**3  # of the disk, that stay free
_ACTIVE_SECONDS = 60.0  # after the last that came; then a page may have been closed
_IS_WINDOWS = os.name == "nt"
_WINDOWS_CHARACTERS = frozenset('<>:"|?*\\')
_WINDOWS_DEVICES = {"CON", "PRN", "AUX", "NUL", "CONIN$", "CONOUT$"} | {
    f"{name}{number}" for name in ("COM", "LPT") for number in "123456789¹²³"
}  # whatever follows behind a dot
_NO_NAME = "has a name that cannot be used here"


class UploadError(Exception):
    """An upload cannot be taken. The message says why and what to do."""


@dataclass(slots=True)
class _Batch:
    folder: Path
    files: list[tuple[str, int]]  # name and size of each, as the page listed them
    skipped: list[SkippedFile] = field(default_factory=list)
    num_promised: int = 0  # bytes that are still to come
    active_at: float = field(default_factory=time.monotonic)


class Uploads:
    """The files being received. Usable from any thread.

    Args:
        folder: where they are put; private to this user.
        limits: how large a file may be.
        is_importing: whether an import runs, so that what came could not be imported.
    """

    def __init__(
        self,
        folder: Path,
        limits: ReadingLimits | None = None,
        *,
        is_importing: Callable[[], bool] = lambda: False,
    ) -> None:
        self._folder = folder
        self._limits = limits or ReadingLimits()
        self._is_importing = is_importing
        self._batches: OrderedDict[str, _Batch] = OrderedDict()
        self._lock = threading.Lock()

    def begin(self, files: list[tuple[str, int]]) -> tuple[str, list[int]]:
        """A new batch: its id, and the indexes of the files that are wanted.

        Raises:
            UploadError: there are too many, the disk is too small, or an import runs.
        """
        if self._is_importing():
            raise UploadError("An import is running. Wait for it, or cancel it.")
        if len(files) > _MAX_FILES:
            raise UploadError(
                f"These are {len(files):,} files; at most {_MAX_FILES:,} can be uploaded at once. "
                "Import the folder by its path instead."
            )
        batch_id = secrets.token_hex(16)
        batch = _Batch(self._folder / batch_id, files)
        wanted = []
        for index, (name, num_bytes) in enumerate(files):
            reason = self._reason_against(name, num_bytes)
            if reason is None:
                wanted.append(index)
            else:
                batch.skipped.append(SkippedFile(Path(displayable_name(name)), reason))
        batch.num_promised = sum(files[index][1] for index in wanted)
        with self._lock:
            self._make_room(batch)
            self._batches[batch_id] = batch
            num_old = max(0, len(self._batches) - _MAX_BATCHES)
            old_ids = list(self._batches)[:num_old]
        for old_id in old_ids:
            with contextlib.suppress(UploadError):  # taken meanwhile
                self.discard(old_id)
        return batch_id, wanted

    def _make_room(self, batch: _Batch) -> None:
        """Make its folder, if what is promised to all fits on the disk. Raises UploadError."""
        since = time.monotonic() - _ACTIVE_SECONDS
        others = [one for one in self._batches.values() if one.active_at > since]
        num_bytes = batch.num_promised + sum(one.num_promised for one in others)
        try:
            batch.folder.mkdir(parents=True, mode=0o700)
            if num_bytes + _FREE_BYTES <= shutil.disk_usage(batch.folder).free:
                return
            batch.folder.rmdir()
        except OSError as error:
            logger.warning("no folder for an upload could be made: %s", error.strerror)
            raise UploadError(f"Nothing can be uploaded: {error.strerror}.") from error
        raise UploadError(
            f"There is no room on the disk for {batch.num_promised:,} bytes. Free some, or import "
            "the folder by its path instead."
        )

    def _reason_against(self, name: str, num_bytes: int) -> str | None:
        parts = name.split("/")
        if len(name) > _MAX_PATH_LENGTH or not all(map(_is_usable, parts)):
            return _NO_NAME
        most = self._limits.most_bytes(kind_of_name(parts[-1]))
        return reason_against_upload(name) or (
            too_large(num_bytes, most) if num_bytes > most else None
        )

    async def receive(self, batch_id: str, index: int, chunks: AsyncIterator[bytes]) -> None:
        """Put a file where it belongs. Raises UploadError."""
        batch = self._batch(batch_id)
        if not 0 <= index < len(batch.files):
            raise UploadError("There is no such file in this upload.")
        name, num_bytes = batch.files[index]
        reason = self._reason_against(name, num_bytes)
        if reason is not None:
            raise UploadError(f"{name}: {reason}")
        path = batch.folder.joinpath(*name.split("/"))
        try:
            await asyncio.to_thread(_make_parent, path, batch.folder)
            file = await asyncio.to_thread(path.open, "xb")
        except OSError as error:
            raise _not_written(name, error) from error
        num_left = num_bytes
        is_whole = False
        try:
            with file:
                async for chunk in chunks:
                    if len(chunk) > num_left:
                        raise UploadError(f"{name} is larger than was said.")
                    await asyncio.to_thread(file.write, chunk)
                    num_left -= len(chunk)
                    batch.num_promised -= len(chunk)
                    batch.active_at = time.monotonic()
            if num_left:
                raise UploadError(f"{name} did not come to its end. Upload it again.")
            is_whole = True
        except OSError as error:
            raise _not_written(name, error) from error
        finally:
            if not is_whole:  # also where nobody sends any more; it was made here
                batch.num_promised += num_bytes - num_left
                path.unlink(missing_ok=True)

    def take(self, batch_id: str) -> tuple[Path, list[SkippedFile]]:
        """The batch's folder, from now on the caller's, and what was not wanted of it."""
        with self._lock:
            batch = self._batch(batch_id)
            del self._batches[batch_id]
        return batch.folder, batch.skipped

    def discard(self, batch_id: str) -> None:
        """Throw away what has come. Raises UploadError."""
        shutil.rmtree(self.take(batch_id)[0], ignore_errors=True)

    def _batch(self, batch_id: str) -> _Batch:
        batch = self._batches.get(batch_id)
        if batch is None:
            raise UploadError("This upload is there no more. Choose the files again.")
        return batch


def _make_parent(path: Path, folder: Path) -> None:
    """The folder that a file is put in. Raises OSError where it would lie elsewhere."""
    if path.resolve() != folder.resolve() / path.relative_to(folder):
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)


def _not_written(name: str, error: OSError) -> UploadError:
    logger.warning("an upload could not be written: %s", error.strerror)
    return UploadError(f"{name} could not be written: {error.strerror}.")


def _is_usable(part: str) -> bool:
    """Whether a file or folder can have this name, and leads nowhere else."""
    try:
        num_bytes = len(part.encode("utf-8"))
    except UnicodeEncodeError:  # half of a surrogate pair
        return False
    if part in ("", ".", "..") or "\0" in part or num_bytes > _MAX_NAME_BYTES:
        return False
    if not _IS_WINDOWS:
        return True
    is_device = part.split(".")[0].rstrip(" ").upper() in _WINDOWS_DEVICES
    is_cut = part.endswith((" ", "."))  # it would be another name
    return not is_device and not is_cut and not _WINDOWS_CHARACTERS.intersection(part)


def upload_router(uploads: Uploads) -> APIRouter:
    """`POST` a list of names and sizes, `PUT` each wanted file, `DELETE` to give up."""
    router = APIRouter(prefix="/documents/uploads")

    @router.post("")
    async def begin(request: Request) -> Response:
        body = bytearray()
        try:
            async for chunk in request.stream():
                body += chunk
                if len(body) > _MAX_LIST_BYTES:
                    raise UploadError("The list of files is too long.")
            # in a thread: what takes a moment there would hold up everybody's answers
            batch_id, wanted = await asyncio.to_thread(lambda: uploads.begin(_listed(body)))
        except (UploadError, ClientDisconnect) as error:
            return _refused(error)
        return JSONResponse({"batch": batch_id, "wanted": wanted})

    @router.put("/{batch_id}/{index}")
    async def receive(batch_id: str, index: int, request: Request) -> Response:
        try:
            await uploads.receive(batch_id, index, request.stream())
        except (UploadError, ClientDisconnect) as error:
            return _refused(error)
        return Response(status_code=204)

    @router.delete("/{batch_id}")
    def discard(batch_id: str) -> Response:
        try:
            uploads.discard(batch_id)
        except UploadError as error:
            return _refused(error)
        return Response(status_code=204)

    return router


def _listed(body: bytes | bytearray) -> list[tuple[str, int]]:
    """The names and sizes that the page sends. Raises UploadError."""
    try:
        files = json.loads(body)["files"]
        listed = [(entry["name"], entry["size"]) for entry in files]
    except (ValueError, TypeError, KeyError, RecursionError):
        listed = [("", -1)]
    if all(map(_is_file, listed)):
        return listed
    raise UploadError("The page sent something unexpected; reload it.")


def _is_file(entry: tuple[Any, Any]) -> bool:
    name, size = entry
    return isinstance(name, str) and type(size) is int and size >= 0


def _refused(error: UploadError | ClientDisconnect) -> Response:
    return JSONResponse({"error": displayable_name(str(error))}, status_code=400)
