"""What Grafana's dashboard and the alert rules ask Prometheus."""

from __future__ import annotations

import json
import re
from typing import Any

import yaml

from tests.deploy.composition import DEPLOY

FILE = DEPLOY / "grafana" / "dashboards" / "auricle.json"


def dashboard() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(FILE.read_text())
    return found


def expressions() -> dict[str, str]:
    """Every panel's queries, by title and letter."""
    panels = [panel for panel in dashboard()["panels"] if panel["type"] != "row"]
    return {f"{p['title']} {t['refId']}": t["expr"] for p in panels for t in p["targets"]}


def alerts() -> dict[str, str]:
    """Every alert's expression, by name."""
    groups = yaml.safe_load((DEPLOY / "prometheus" / "rules.yml").read_text())["groups"]
    return {rule["alert"]: rule["expr"] for group in groups for rule in group["rules"]}


def filled(expression: str) -> str:
    """An expression with Grafana's variables as it would fill them in."""
    return expression.replace("$__rate_interval", "1m").replace("$__range", "1h")


def metric_names(expression: str) -> set[str]:
    """The metrics of this project that an expression names."""
    return set(re.findall(r"\bauricle_\w+", expression))
