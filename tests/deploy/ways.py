"""The ways of deployment, as the files say them: which commands start with which environment. Each returns its
processes by name, in the order of their starts: first those that end by themselves."""

import json
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from tests.support.stack import CHECKOUT

CHART = CHECKOUT / "deploy" / "helm" / "mnemoscope"
UNITS = sorted((CHECKOUT / "deploy/systemd").iterdir())
# The values without which the chart is refused.
NEEDED = {"host": "memory.example.com", "secret": "settings"}

_VARIABLE = re.compile(r"\$\{(\w+)(?::([-?])([^}]*))?\}")
_EXPANDED = re.compile(r"\$\((\w+)\)")


@dataclass(frozen=True, slots=True)
class Start:
    """A command with its whole environment."""

    name: str
    command: tuple[str, ...]
    environment: Mapping[str, str]


def text_of(name: str) -> str:
    return (CHECKOUT / name).read_text(encoding="utf-8")


def variables_of_compose() -> dict[str, str]:
    """The variables that the compose file takes from `.env`: ``?`` for those it has to have, else empty or ``-``."""
    return {found[1]: found[2] or "" for found in _VARIABLE.finditer(text_of("compose.yaml"))}


def compose(named: Mapping[str, str]) -> Any:
    """The compose file with its anchors resolved, and what `.env` names."""
    text = _VARIABLE.sub(
        lambda found: named.get(found[1], found[3] if found[2] == "-" else ""), text_of("compose.yaml")
    )
    return yaml.safe_load(text)


def of_units(named: Mapping[str, str]) -> list[Start]:
    """The units of systemd, the web on port 8000, with this environment file, which goes before the unit's own."""
    starts = []
    for name in ("migrate", "web@", "worker", "beat"):
        text = text_of(f"deploy/systemd/mnemoscope-{name}.service").replace("%i", "8000")
        [own] = re.findall(r"^Environment=(.+)$", text, re.M)
        environment = dict(pair.split("=", 1) for pair in shlex.split(own)) | dict(named)
        for line in re.findall(r"^ExecStart=(.+)$", text, re.M):
            starts.append(Start(name.rstrip("@"), tuple(shlex.split(line)), environment))
    return starts


def of_compose(named: Mapping[str, str]) -> list[Start]:
    """The services of the program, with this `.env`, behind which the service's own environment goes."""
    services, (variables, usual) = compose(named)["services"], _image()
    return [
        Start(name, tuple(services[name].get("command", usual)), variables | named | services[name]["environment"])
        for name in ("migrate", "web", "worker", "beat")
    ]


def of_chart(values: Mapping[str, Any], secret: Mapping[str, str]) -> list[Start]:
    """The containers of the chart, with a Secret that has these keys."""
    found = {each["metadata"]["labels"]["app.kubernetes.io/component"]: each for each in pods(rendered(values))}
    starts = []
    for name in ("migrate", "web", "worker", "beat"):
        pod = found[name]["spec"]["template"]["spec"]
        starts += [_of_container(each, secret) for each in (*pod.get("initContainers", ()), *pod["containers"])]
    return starts


def rendered(values: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The objects that Helm makes of the chart with these values."""
    # Its packages are large, and only the tests of the chart need them.
    import helm_python  # noqa: PLC0415

    with helm_python.Chart.load(CHART) as chart:
        files = chart.render(dict(values), name="demo", namespace="memory")
    texts = [text for name, text in files.items() if name.endswith(".yaml")]
    return [made for text in texts for made in yaml.safe_load_all(text) if made]


def pods(objects: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [each for each in objects if each["kind"] in ("Job", "Deployment")]


def _of_container(container: Mapping[str, Any], secret: Mapping[str, str]) -> Start:
    variables, usual = _image()
    own: dict[str, str] = {}
    for each in container["env"]:
        text = secret[each["valueFrom"]["secretKeyRef"]["key"]] if "valueFrom" in each else each["value"]
        # As in a cluster: what is named must stand before it.
        own[each["name"]] = _EXPANDED.sub(lambda found: own.get(found[1], found[0]), text)
    return Start(container["name"], tuple(container.get("command", usual)), variables | dict(secret) | own)


def _image() -> tuple[dict[str, str], list[str]]:
    """The environment of the image, and its command."""
    text = text_of("Dockerfile").rpartition("\nFROM ")[2].replace("\\\n", " ")
    [variables] = re.findall(r"^ENV (.+)$", text, re.M)
    [command] = re.findall(r"^CMD (\[.+\])$", text, re.M)
    return dict(pair.split("=", 1) for pair in variables.split()), json.loads(command)
