"""Chat files on their way from a browser into the data folder.

A file is far larger than a form, and daphne would pass it on in memory. So the server accepts a large body only with a
ticket, which the page of imports gives to operators who may import. It writes the body to a file and names that file to
the view in a signed header. The view extracts the chat file, from disk to disk.

The ticket also replaces the CSRF token, which would be inside the body: nobody else can know the ticket."""

import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import IO, Any

from django.conf import settings
from django.core import signing
from django.core.files.uploadhandler import FileUploadHandler, StopUpload
from django.http import HttpRequest
from django.http.multipartparser import MultiPartParser, MultiPartParserError

from memoryapp.platform.storage import check_space

HEADER = "X-Received-Body"
# What a form adds to its file.
FORM_BYTES = 100_000
# How many bytes are written between two looks at the free space.
LOOK_BYTES = 8_000_000
# A page that was open for longer has to be loaded again.
LASTS = timedelta(hours=12)

_SALT = "mnemoscope.upload"
_ADDRESS = re.compile(rb"/memory/(\d{1,19})/(?:imports|artifacts)/upload/([\w:-]{1,200}+)/")


def ticket(owner_id: int, user: int) -> str:
    """Admits a file for this chat user from this person."""
    return signing.dumps([owner_id, user], salt=_SALT)


def admits(given: str, owner_id: int, user: int) -> bool:
    return bool(_of(given) == [owner_id, user])


def _of(given: str) -> Any:
    try:
        return signing.loads(given, salt=_SALT, max_age=LASTS)
    except signing.BadSignature:
        return None


def is_upload(address: bytes) -> bool:
    """Whether a request to this address may have the body of an upload; the view looks closer."""
    found = _ADDRESS.fullmatch(address)
    admitted = _of(found[2].decode()) if found else None
    return bool(found and admitted and str(admitted[0]).encode() == found[1])


def new_file(prefix: str) -> IO[bytes]:
    """A new file in the folder of imports, which stays until somebody removes it."""
    settings.IMPORT_DIR.mkdir(mode=0o700, parents=True, exist_ok=True)
    number, path = tempfile.mkstemp(dir=settings.IMPORT_DIR, prefix=prefix)
    os.close(number)
    return Path(path).open("wb")


def check_disk(coming: int) -> None:
    """Raises NoSpace if so many bytes would leave too little of the disk free."""
    check_space(settings.IMPORT_DIR, coming)


def body_name(body: IO[bytes]) -> str:
    """The value of the header that names this body."""
    return signing.Signer(salt=_SALT).sign(Path(body.name).name)


class Untaken:
    """Passes requests on to ``application``, and removes afterwards a body that no view took. A ticket is valid after
    the end of its login session: somebody who was signed out meanwhile could fill the disk."""

    def __init__(self, application: Any) -> None:
        self._application = application

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        try:
            await self._application(scope, receive, send)
        finally:
            signed = dict(scope["headers"]).get(HEADER.lower().encode())
            if path := _path(signed.decode("latin-1") if signed else ""):
                path.unlink(missing_ok=True)


def _path(signed: str) -> Path | None:
    """Returns the path of the body with this signed name; None if the signature is invalid."""
    try:
        return Path(settings.IMPORT_DIR / signing.Signer(salt=_SALT).unsign(signed))
    except signing.BadSignature:
        return None


@dataclass(frozen=True, slots=True)
class Received:
    """A received file, with the name that the browser gives it; its content is at ``path``."""

    path: Path
    name: str
    size: int


@contextmanager
def receive(request: HttpRequest) -> Iterator[list[Received]]:
    """The files that came with a request; those that nobody moved are removed afterwards. Raises NoSpace."""
    to_disk = _ToDisk(request)
    request.upload_handlers = [to_disk]
    try:
        _read(request)
        yield to_disk.files
    finally:
        to_disk.remove()


def _read(request: HttpRequest) -> None:
    """Makes the handlers see the files of the body, wherever it is stored."""
    signed = request.headers.get(HEADER)
    if signed is None:
        # Its first use reads the body.
        request.FILES.keys()
        return
    path = _path(signed)
    if path is None:
        return
    try:
        with path.open("rb") as body:
            MultiPartParser(request.META, body, request.upload_handlers, request.encoding or "utf-8").parse()
    except (MultiPartParserError, FileNotFoundError):
        return
    finally:
        path.unlink(missing_ok=True)


class _ToDisk(FileUploadHandler):
    """Writes each file into the folder where it is kept, so that it need not be copied again."""

    def __init__(self, request: HttpRequest) -> None:
        super().__init__(request)
        self.files: list[Received] = []
        self._file: IO[bytes] | None = None
        self._paths: list[Path] = []

    def new_file(self, *arguments: Any, **named: Any) -> None:
        super().new_file(*arguments, **named)
        self._file = new_file("file-")
        self._paths.append(Path(self._file.name))

    def receive_data_chunk(self, raw_data: bytes, start: int) -> None:
        assert self._file
        if start + len(raw_data) > settings.IMPORT_MAX_BYTES:
            raise StopUpload(connection_reset=True)
        if start // LOOK_BYTES != (start - len(raw_data)) // LOOK_BYTES:
            check_disk(len(raw_data))
        self._file.write(raw_data)

    def file_complete(self, file_size: int) -> None:
        assert self._file
        self._file.close()
        self.files.append(Received(self._paths[-1], self.file_name or "", file_size))

    def remove(self) -> None:
        """The files nobody took over."""
        if self._file:
            self._file.close()
        for path in self._paths:
            path.unlink(missing_ok=True)
