"""Where things lie on this machine. Importing it touches nothing."""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import Any

CHECKOUT = Path(__file__).resolve().parents[2]
DATABASE = ROLE = "mnemoscope"


def data_dir() -> Path:
    """``DATA_DIR``, or ``.data`` in the checkout."""
    return Path(os.environ.get("DATA_DIR") or CHECKOUT / ".data").expanduser().resolve()


def secret_key(folder: Path) -> str:
    """The key of this data folder, made on the first use."""
    path = folder / "secret_key"
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with open(path, "x", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
            file.write(secrets.token_urlsafe(50))
    except FileExistsError:
        pass
    return path.read_text()


def embedded_database(folder: Path) -> dict[str, Any]:
    """Django's address of the embedded server: a socket in the data folder, no port."""
    return {"NAME": DATABASE, "USER": ROLE, "PASSWORD": "", "HOST": str(folder / "postgres"), "PORT": ""}
