"""What the forge runs for us: with no more rights than it needs, and releases attested before they are out."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

yaml = pytest.importorskip("yaml")
WORKFLOWS = Path(__file__).parents[2] / ".github" / "workflows"
RIGHTS = {
    "attest": {"id-token": "write", "attestations": "write"},
    "publish": {"id-token": "write"},
    "page": {"contents": "write"},
}


def workflow(name: str) -> dict[Any, Any]:
    read: dict[Any, Any] = yaml.safe_load((WORKFLOWS / name).read_text())
    return read


@pytest.fixture(scope="module")
def jobs() -> dict[str, Any]:
    """Those of a release."""
    found: dict[str, Any] = workflow("release.yml")["jobs"]
    return found


def actions(job: dict[str, Any]) -> list[str]:
    return [step["uses"].partition("@")[0] for step in job["steps"] if "uses" in step]


def before(name: str, jobs: dict[str, Any]) -> set[str]:
    """All jobs that have to be green before this one begins."""
    needs = jobs[name].get("needs", [])
    needs = [needs] if isinstance(needs, str) else needs
    return set(needs).union(*(before(each, jobs) for each in needs))


@pytest.mark.slow
def test_they_are_what_the_forge_takes() -> None:
    pytest.importorskip("check_jsonschema", reason="check-jsonschema is not installed")
    files = sorted(WORKFLOWS.glob("*.yml"))
    check = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.github-workflows"]
    done = subprocess.run([*check, *map(str, files)], capture_output=True, text=True, check=False)
    assert [path.name for path in files] == ["checks.yml", "nightly.yml", "release.yml"]
    assert done.returncode == 0, done.stdout


def test_each_may_read_and_no_more_and_three_jobs_of_a_release_one_thing_each(jobs: dict[str, Any]) -> None:
    for path in WORKFLOWS.glob("*.yml"):
        assert workflow(path.name)["permissions"] == {"contents": "read"}, path.name
    rights = {
        name: job["permissions"]
        for path in WORKFLOWS.glob("*.yml")
        for name, job in workflow(path.name)["jobs"].items()
        if "permissions" in job
    }
    assert rights == RIGHTS
    assert {name for name, job in jobs.items() if "environment" in job} == {"publish"}


def test_strangers_changes_run_without_rights_and_only_a_tag_releases() -> None:
    asked = {path.name: set(workflow(path.name)[True]) for path in WORKFLOWS.glob("*.yml")}  # YAML reads `on` as true
    assert asked["checks.yml"] == {"push", "pull_request"}
    assert not any("pull_request_target" in on or "workflow_run" in on for on in asked.values())
    assert workflow("release.yml")[True] == {"push": {"tags": ["v*"]}}
    assert "secrets." not in "".join(path.read_text() for path in WORKFLOWS.glob("*.yml"))


def test_no_text_of_the_forge_becomes_part_of_a_command() -> None:
    """What stands in `${{ }}` is put in before a shell reads the line; a tag or a title may hold anything."""
    for path in WORKFLOWS.glob("*.yml"):
        for job in workflow(path.name)["jobs"].values():
            lines = [step["run"] for step in job.get("steps", []) if "${{" in step.get("run", "")]
            assert [line for line in lines if line.replace("${{ matrix.", "").count("${{")] == []


def test_who_may_speak_for_us_runs_no_code_of_ours(jobs: dict[str, Any]) -> None:
    for name in RIGHTS:
        assert "actions/checkout" not in actions(jobs[name])
        assert before(name, jobs) >= {"dist", "wheel", "pins", "nightly"}
    runs = [step["run"] for name in RIGHTS for step in jobs[name]["steps"] if "run" in step]
    assert [run.split()[:3] for run in runs] == [["gh", "release", "create"]]


def test_what_is_published_was_built_and_attested_before(jobs: dict[str, Any]) -> None:
    built = {step["with"]["name"] for step in jobs["dist"]["steps"] if "upload-artifact" in step.get("uses", "")}
    attest = jobs["attest"]["steps"][-1]
    published = jobs["publish"]["steps"][-1]

    assert built == {"dist", "sbom"}
    assert {"run": "make sbom"} in jobs["dist"]["steps"]
    assert actions(jobs["attest"]) == ["actions/download-artifact"] * 2 + ["actions/attest-build-provenance"]
    assert attest["with"]["subject-path"].split() == ["dist/*", "sbom/*"]
    assert before("publish", jobs) >= {"dist", "attest"} <= before("page", jobs)
    assert published["uses"].startswith("pypa/gh-action-pypi-publish@")
    assert published["with"] == {"attestations": True}  # and no password: PyPI trusts this workflow


def test_a_release_asks_for_its_pins_again(jobs: dict[str, Any]) -> None:
    runs = [step["run"] for step in jobs["pins"]["steps"] if "run" in step]
    assert runs == ["python tools/image_digests.py --check", "python tools/action_pins.py"]
