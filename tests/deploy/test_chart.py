"""The chart makes objects that Kubernetes takes, in every version it may be installed on, with few rights."""

import tomllib
from typing import Any

import pytest

from tests.deploy import ways
from tests.support.stack import CHECKOUT

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
