"""Vendored files have the checksums that were recorded when they were copied."""

from __future__ import annotations

import hashlib
import re

from django.conf import settings

FOLDER = settings.BASE_DIR / "static" / "vendor"
PAPERS = {"VENDOR.md", "LICENSES.txt"}


def test_every_vendored_file_has_its_sum_and_no_other_is_there() -> None:
    named = re.findall(r"^([0-9a-f]{64})  (\S+)$", (FOLDER / "VENDOR.md").read_text(encoding="utf-8"), re.M)
    found = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in FOLDER.iterdir()}
    assert {name: value for value, name in named} == {n: v for n, v in found.items() if n not in PAPERS}


def test_styles_refer_only_to_what_is_there() -> None:
    for sheet in (FOLDER / "tabler.min.css", settings.BASE_DIR / "static" / "css" / "app.css"):
        for target in re.findall(r"url\([\"']?([^\"')]+)", sheet.read_text(encoding="utf-8")):
            assert target.startswith(("data:", "#")) or (sheet.parent / target).exists(), f"{sheet.name}: {target}"
