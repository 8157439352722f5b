"""The compose file and the units are valid, start what exists, and name settings that exist."""

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.core.management import get_commands

from tests.deploy import ways
from tests.deploy.ways import UNITS, text_of, variables_of_compose
from tests.support.stack import CHECKOUT

compose_spec = pytest.importorskip("compose_spec", reason="compose-spec has no wheel for this machine")

SETTING = re.compile(r"^\| `([A-Z_]+)`", re.M)
EXAMPLE = re.compile(r"^(?:# )?([A-Z_]+)=", re.M)
# Of the compose file alone.
OF_COMPOSE = {"DATABASE_PASSWORD", "POSTGRES_PASSWORD", "MNEMOSCOPE_IMAGE", "BIND"}
# Read by others than the program.
OF_OTHERS = {"DJANGO_SETTINGS_MODULE", "OPENBLAS_NUM_THREADS", "PATH", "PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED"}


def settings() -> set[str]:
    return set(SETTING.findall(text_of("docs/settings.md")))


def compose() -> Any:
    return ways.compose({name: "secret" for name, kind in variables_of_compose().items() if kind == "?"})


def test_the_compose_file_is_valid() -> None:
    read = compose_spec.PyCompose.from_yaml(yaml.safe_dump(compose()))
    read.validate()
    assert set(read.service_names()) == {"postgres", "valkey", "migrate", "web", "worker", "beat"}
    used = {volume.split(":")[0] for service in compose()["services"].values() for volume in service["volumes"]}
    assert {name for name in used if not name.startswith(".")} == set(compose()["volumes"])
    assert all((CHECKOUT / name).exists() for name in used if name.startswith("."))


def test_what_env_has_to_name_is_in_its_example() -> None:
    example = set(EXAMPLE.findall(text_of(".env.example")))
    named = variables_of_compose()
    assert {name for name, kind in named.items() if kind == "?"} <= example
    assert named.keys() - settings() == OF_COMPOSE
    assert example - settings() - OF_COMPOSE == set()
    assert "Set SECRET_KEY" in text_of("compose.yaml")


@pytest.mark.parametrize("name", ["migrate", "web", "worker", "beat"])
def test_a_service_starts_what_there_is(name: str) -> None:
    service = compose()["services"][name]
    assert {name for name, value in service["environment"].items() if value} <= settings()
    assert service["environment"]["POSTGRES_PASSWORD"] == ""
    assert (service["read_only"], service["cap_drop"]) == (True, ["ALL"])
    command = " ".join(service.get("command", ["daphne"]))
    commands = set(re.findall(r"manage\.py (\w+)", command))
    assert commands <= get_commands().keys()
    assert commands or re.match(r"daphne|celery -A memoryapp\.celery (worker|beat)", command)
    if name != "web":
        assert service["healthcheck"] == {"disable": True}


def test_the_image_names_settings_and_folders_that_exist() -> None:
    dockerfile = text_of("Dockerfile")
    named = set(re.findall(r"\b([A-Z_]{4,})=", dockerfile.rpartition("\nFROM ")[2]))
    assert named <= settings() | OF_OTHERS
    sent = set(re.findall(r"^!(\S+)", text_of(".dockerignore"), re.M))
    copied = {each for line in re.findall(r"^COPY (?!--)(.+) \S+$", dockerfile, re.M) for each in line.split()}
    assert sent == copied
    assert all((CHECKOUT / each).exists() for each in copied)


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_a_unit_names_what_there_is(unit: Path) -> None:
    text = unit.read_text(encoding="utf-8")
    assert set(re.findall(r"\b([A-Z_]{4,})=", text)) <= settings() | OF_OTHERS
    started = re.findall(r"^ExecStart=/opt/mnemoscope/bin/(\w+) (.+)$", text, re.M)
    assert started or unit.suffix == ".target"
    for program, arguments in started:
        if program == "mnemoscope":
            assert arguments.split()[0] in get_commands()
        else:
            assert "rerankui.asgi:application" in arguments or arguments.startswith("-A memoryapp.celery ")
    named = {
        each
        for line in re.findall(r"^(?:Wants|Requires|PartOf)=(.*mnemoscope.*)$", text, re.M)
        for each in line.split()
    }
    there = {each.name for each in UNITS}
    assert {re.sub(r"@\w+\.", "@.", each) for each in named} <= there


def test_systemd_takes_the_units(tmp_path: Path) -> None:
    if not shutil.which("systemd-analyze"):
        pytest.skip("systemd-analyze is not installed")
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("mnemoscope", "daphne", "celery"):
        (programs / name).symlink_to("/bin/true")
    for unit in UNITS:
        text = unit.read_text(encoding="utf-8").replace("/opt/mnemoscope/bin", str(programs))
        (tmp_path / unit.name).write_text(text, encoding="utf-8")
    command = ["systemd-analyze", "verify", *(str(tmp_path / unit.name) for unit in UNITS)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.returncode, [line for line in done.stderr.splitlines() if "mnemoscope" in line]) == (0, [])
