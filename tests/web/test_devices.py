"""A login session is identified by its browser and system, not by a line that only programs read."""

from __future__ import annotations

import pytest

from rerankui.account.account import device_name

WEBKIT = "AppleWebKit/537.36 (KHTML, like Gecko)"


@pytest.mark.parametrize(
    ("user_agent", "name"),
    [
        (f"Mozilla/5.0 (X11; Linux x86_64) {WEBKIT} Chrome/156.0.0.0 Safari/537.36", "Chrome on Linux"),
        (f"Mozilla/5.0 (Windows NT 10.0; Win64; x64) {WEBKIT} Chrome/156.0 Safari/537.36 Edg/156.0", "Edge on Windows"),
        ("Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0", "Firefox on Linux"),
        (
            f"Mozilla/5.0 (iPhone; CPU iPhone OS 19_0 like Mac OS X) {WEBKIT} Version/19.0 Safari/604.1",
            "Safari on iPhone",
        ),
        (f"Mozilla/5.0 (Linux; Android 16; Pixel 9) {WEBKIT} Chrome/156.0 Mobile Safari/537.36", "Chrome on Android"),
        ("curl/8.9.1", "curl/8.9.1"),
        ("x" * 200, "x" * 60),
        ("", ""),
    ],
)
def test_a_device_is_named_in_two_words(user_agent: str, name: str) -> None:
    assert device_name(user_agent) == name
