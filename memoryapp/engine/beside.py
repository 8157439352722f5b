"""Word lists and prompts, which stand in a file beside the module that reads them and has their meaning."""

import tomllib
from pathlib import Path
from typing import Any


def table_beside(module: str) -> dict[str, Any]:
    """What is in the TOML file with the name of this module, which says ``__file__``."""
    return tomllib.loads(Path(module).with_suffix(".toml").read_text(encoding="utf-8"))
