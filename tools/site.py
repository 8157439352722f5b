"""The documents as a site: ``python3 -m tools.site FOLDER``, with what ``requirements-docs.lock`` names installed."""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[1]
# In their places, so that links between them are right as they are.
PAGES = (
    *("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "LICENSE", "docs", "client/README.md"),
    *("static/vendor/VENDOR.md", "static/mark.svg"),
)


def build(target: Path) -> None:
    """Makes the site at ``target``. Raises CalledProcessError, after a sentence on stderr, for a link to nowhere."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        shutil.copy(CHECKOUT / "tools" / "site.toml", folder / "zensical.toml")
        for page in PAGES:
            place = folder / "pages" / page
            place.parent.mkdir(parents=True, exist_ok=True)
            (shutil.copytree if (CHECKOUT / page).is_dir() else shutil.copy)(CHECKOUT / page, place)
        subprocess.run([sys.executable, "-m", "zensical", "build", "--strict"], cwd=folder, check=True)
        shutil.copytree(folder / "site", target, dirs_exist_ok=True)


if __name__ == "__main__":
    build(Path(sys.argv[1]))
