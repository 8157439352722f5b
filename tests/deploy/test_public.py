"""What others see and use of a release: the workflows that make it, the site of the documents, board and alerts."""

import json
import re
from pathlib import Path

import pytest
import yaml
from django.test import Client
from prometheus_client import REGISTRY

from memoryapp.models import Rhythm
from tests.support.stack import CHECKOUT
from tools import site

WORKFLOWS = sorted((CHECKOUT / ".github" / "workflows").glob("*.yml"))
BOARD = CHECKOUT / "deploy" / "grafana" / "mnemoscope.json"
RULES = CHECKOUT / "deploy" / "prometheus" / "alerts.yml"
# A metric of this program in an expression, with what is asked of its labels.
ASKED = re.compile(r"(mnemoscope_\w+)(?:\{([^}]*)\})?")
LABELS = re.compile(r"(\w+)\s*(?:=~|!~|!=|=)")
GROUPED = re.compile(r"\bby \(([^)]*)\)")
# Labels that Prometheus adds to every series.
ADDED = {"instance", "job", "le"}


def expressions() -> list[str]:
    panels = json.loads(BOARD.read_text(encoding="utf-8"))["panels"]
    rules = [rule for group in yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"] for rule in group["rules"]]
    return [
        *(target["expr"] for panel in panels for target in panel.get("targets", ())),
        *(rule["expr"] for rule in rules),
    ]


@pytest.mark.django_db
def test_the_board_and_the_alerts_name_what_is_served(client: Client) -> None:
    client.get("/healthz")
    Rhythm.objects.create(watch="disk")
    page = client.get("/metrics", headers={"host": "localhost"}).content.decode()
    served = {name.removesuffix("_total") for name in re.findall(r"^# TYPE (\S+)", page, re.MULTILINE)}
    labels = set(re.findall(r'[{,](\w+)="', page)) | known_labels()
    assert len(expressions()) > 30
    for expression in expressions():
        for name, conditions in ASKED.findall(expression):
            bare = re.sub(r"_(total|bucket|sum|count|info)$", "", name)
            assert {name, bare, f"{bare}_info"} & served, f"{name} of {expression} is not served"
            assert set(LABELS.findall(conditions)) <= labels | ADDED, expression
        for group in GROUPED.findall(expression):
            assert {label.strip() for label in group.split(",")} <= labels | ADDED, expression


def known_labels() -> set[str]:
    """The labels of metrics that have counted nothing yet, and so show none."""
    return {label for metric in REGISTRY._collector_to_names for label in getattr(metric, "_labelnames", ())}


def test_the_workflows_are_ones_that_github_takes() -> None:
    check = pytest.importorskip("check_jsonschema", reason="see requirements-docs.lock")
    with pytest.raises(SystemExit) as ended:
        check.main(["--builtin-schema", "vendor.github-workflows", *map(str, WORKFLOWS)])
    assert len(WORKFLOWS) == 3
    assert ended.value.code == 0


def test_the_site_of_the_documents_has_every_page_and_no_link_that_leads_nowhere(tmp_path: Path) -> None:
    pytest.importorskip("zensical", reason="see requirements-docs.lock")
    site.build(tmp_path)
    pages = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("index.html")}
    documents = {path.stem for path in (CHECKOUT / "docs").glob("*.md")}
    assert {"index.html", "client/index.html", *(f"docs/{name}/index.html" for name in documents)} <= pages
    assert "fonts.googleapis" not in (tmp_path / "index.html").read_text(encoding="utf-8")
