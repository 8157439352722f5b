"""Pictures for README and docs, taken by tests while they walk: ``STORY_PICTURES=docs/pictures`` says where to. A
picture is a WebP that the browser itself encodes, a fifth of the bytes of a PNG. A moving one is put together of such
pictures as the container of the format says (https://developers.google.com/speed/webp/docs/riff_container)."""

import base64
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

from playwright.sync_api import Page

FOLDER = os.environ.get("STORY_PICTURES", "")
STILL, MOVING = 0.85, 0.6
# Milliseconds between two pictures of a film, and how long its last one is shown.
PAUSE, LAST = 250, 4_000
_AS_WEBP = """async ([png, quality]) => {
  const image = Object.assign(new Image(), { src: png });
  await image.decode();
  const canvas = Object.assign(document.createElement("canvas"), { width: image.width, height: image.height });
  canvas.getContext("2d", { alpha: false }).drawImage(image, 0, 0);
  return canvas.toDataURL("image/webp", quality);
}"""
_ANIMATED = 0x02


def picture(page: Page, name: str) -> None:
    """Takes the page as it is, if pictures are asked for."""
    if FOLDER:
        page.evaluate("document.activeElement?.blur()")
        page.wait_for_load_state("networkidle")
        (Path(FOLDER) / f"{name}.webp").write_bytes(encoded(page, [page.screenshot()], STILL)[0])


@contextmanager
def filmed(page: Page, name: str) -> Iterator[Callable[[], None]]:
    """Yields what takes a picture of the page, or waits as long; each is shown until the next one was taken."""
    shots: list[tuple[float, bytes]] = []

    def shoot() -> None:
        page.wait_for_timeout(PAUSE)
        if FOLDER:
            shots.append((time.monotonic(), page.screenshot()))

    yield shoot
    if FOLDER:
        shoot()
        times, size = [at for at, _png in shots], page.viewport_size
        assert size
        lasting = [round(1000 * (after - at)) for at, after in pairwise(times)]
        frames = encoded(page, [png for _at, png in shots], MOVING)
        made = animated(frames, [*lasting, LAST], size["width"], size["height"])
        (Path(FOLDER) / f"{name}.webp").write_bytes(made)


def encoded(page: Page, shots: Sequence[bytes], quality: float) -> list[bytes]:
    """The PNG pictures as WebP, encoded on a page of their own."""
    blank = page.context.new_page()
    urls = [f"data:image/png;base64,{base64.b64encode(shot).decode()}" for shot in shots]
    found = [str(blank.evaluate(_AS_WEBP, [url, quality])) for url in urls]
    blank.close()
    return [base64.b64decode(each.partition(",")[2]) for each in found]


def animated(frames: Sequence[bytes], milliseconds: Sequence[int], width: int, height: int) -> bytes:
    """One WebP of several, shown again and again."""
    size = _three(width - 1) + _three(height - 1)
    chunks = [_chunk(b"VP8X", bytes([_ANIMATED, 0, 0, 0]) + size), _chunk(b"ANIM", bytes(6))]
    chunks += [
        _chunk(b"ANMF", _three(0) + _three(0) + size + _three(lasts) + b"\x02" + _picture_in(frame))
        for frame, lasts in zip(frames, milliseconds, strict=True)
    ]
    body = b"WEBP" + b"".join(chunks)
    return b"RIFF" + len(body).to_bytes(4, "little") + body


def _picture_in(frame: bytes) -> bytes:
    """The chunk with the compressed picture of a still WebP."""
    place = 12
    while frame[place : place + 4] not in (b"VP8 ", b"VP8L"):
        place += 8 + _even(int.from_bytes(frame[place + 4 : place + 8], "little"))
    size = int.from_bytes(frame[place + 4 : place + 8], "little")
    return frame[place : place + 8 + _even(size)]


def _chunk(name: bytes, content: bytes) -> bytes:
    return name + len(content).to_bytes(4, "little") + content + bytes(_even(len(content)) - len(content))


def _three(number: int) -> bytes:
    return number.to_bytes(3, "little")


def _even(size: int) -> int:
    return size + size % 2
