"""The compose file and the units are valid, start what exists, and name settings that exist."""

import re
import shutil
import subprocess
import tomllib
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


# The chart makes objects that Kubernetes takes, in every version it may be installed on, with few rights.


helm = pytest.importorskip("helm_python", reason="see requirements-chart.lock")
kubernetes_validate = pytest.importorskip("kubernetes_validate", reason="see requirements-chart.lock")

OLDEST, NEWEST = "1.25", "1.37"
FULL = {
    **ways.NEEDED,
    "database": {"host": "db.example.com"},
    "redisUrl": "redis://valkey:6379/0",
    "settings": {"ALLOWED_HOSTS": "other.example.com", "RERANKER_TIMEOUT": "60s"},
    "imagePullSecrets": [{"name": "registry"}],
    "persistence": {"accessMode": "ReadWriteMany", "storageClass": "shared"},
    "ingress": {"enabled": True, "className": "nginx", "annotations": {"a/b": "c"}, "tlsSecret": "certificate"},
    "nodeSelector": {"disk": "ssd"},
    "tolerations": [{"key": "memory", "operator": "Exists"}],
}
both = pytest.mark.parametrize("values", [ways.NEEDED, FULL], ids=["needed", "full"])


def variables(container: dict[str, Any]) -> dict[str, str]:
    names = [each["name"] for each in container["env"]]
    assert len(names) == len(set(names))
    return {each["name"]: each.get("value", "") for each in container["env"]}


@both
def test_helm_and_kubernetes_take_it(values: dict[str, Any]) -> None:
    report = helm.lint(ways.CHART, values, strict=True)
    assert [each for each in report["messages"] if each["severity"] > 1] == []
    made = ways.rendered(values)
    for version in (OLDEST, NEWEST):
        for each in made:
            kubernetes_validate.validate(each, version, strict=True)
    kinds = {each["kind"] for each in made}
    assert kinds - {"Ingress"} == {"Deployment", "Job", "PersistentVolumeClaim", "Service"}
    assert ("Ingress" in kinds) == (values is FULL)


@both
def test_a_pod_may_do_nothing_but_its_work(values: dict[str, Any]) -> None:
    for each in ways.pods(ways.rendered(values)):
        pod = each["spec"]["template"]["spec"]
        assert (pod["automountServiceAccountToken"], pod["enableServiceLinks"]) == (False, False)
        assert (pod["securityContext"]["runAsNonRoot"], pod["securityContext"]["runAsUser"]) == (True, 10001)
        for container in (*pod.get("initContainers", ()), *pod["containers"]):
            allowed = container["securityContext"]
            assert (allowed["readOnlyRootFilesystem"], allowed["allowPrivilegeEscalation"]) == (True, False)
            assert allowed["capabilities"] == {"drop": ["ALL"]}
            written = {mount["name"] for mount in container["volumeMounts"]}
            assert written == {volume["name"] for volume in pod["volumes"]}


def test_a_setting_of_ones_own_goes_before_the_charts() -> None:
    for each in ways.pods(ways.rendered(FULL)):
        [container] = each["spec"]["template"]["spec"]["containers"]
        named = variables(container)
        assert named["ALLOWED_HOSTS"] == "other.example.com"
        assert named["DATABASE_URL"] == "postgresql://mnemoscope:$(DATABASE_PASSWORD)@db.example.com:5432/mnemoscope"
        assert named["CSRF_TRUSTED_ORIGINS"] == "https://memory.example.com"


def test_pods_are_on_one_node_if_only_one_may_have_their_files() -> None:
    for values, near in ((ways.NEEDED, 3), (FULL, 0)):
        specs = [each["spec"]["template"]["spec"] for each in ways.pods(ways.rendered(values))]
        assert sum("affinity" in each for each in specs) == near


@pytest.mark.parametrize(
    "wrong",
    [{"host": ""}, {"secret": ""}, {"nothing": 1}, {"settings": {"WEB_CONCURRENCY": 2}}, {"redisUrl": "valkey:6379"}],
    ids=lambda wrong: next(iter(wrong)),
)
def test_wrong_values_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(helm.HelmValuesError, match=next(iter(wrong))):
        ways.rendered({**ways.NEEDED, **wrong})


def test_it_has_the_version_of_the_program() -> None:
    version = tomllib.loads((CHECKOUT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    with helm.Chart.load(ways.CHART) as chart:
        assert (chart.version, chart.metadata["appVersion"]) == (version, version)
