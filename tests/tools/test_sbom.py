"""The bills of materials: one for each lock, with every package of it and its hash."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from tools import sbom

from auricle import __version__

LINE = re.compile(r"^([a-z0-9][a-z0-9.-]*)==(\S+) --hash=sha256:([0-9a-f]{64})$")


@pytest.mark.parametrize("lock", sbom.locks(), ids=sbom.name_of)
def test_each_lock_has_every_package_with_its_hash(lock: Path) -> None:
    """Nothing is installed from a lock whose bytes it does not name."""
    lines = [line for line in lock.read_text().splitlines() if not line.startswith("#")]
    assert lines
    assert [line for line in lines if LINE.match(line) is None] == []


def test_every_way_to_install_has_a_lock() -> None:
    names = {path.relative_to(sbom.ROOT).as_posix() for path in sbom.locks()}
    for machine in ("x86_64", "aarch64"):
        assert {f"edge/requirements/{machine}-cp3{minor}.txt" for minor in (10, 11, 12, 13)} <= names
        assert {f"fleet/requirements/{machine}-cp3{minor}.txt" for minor in (11, 12, 13)} <= names
        assert {f"deploy/requirements/coordinator-{machine}{tag}.txt" for tag in ("", "-cp312", "-cp311")} <= names


@pytest.mark.slow
@pytest.mark.nightly
def test_a_bill_names_us_and_every_package_with_its_hash(tmp_path: Path) -> None:
    pytest.importorskip("cyclonedx_py", reason="cyclonedx-bom is not installed")

    assert sbom.main([str(tmp_path)]) == 0

    for lock in sbom.locks():
        made = json.loads((tmp_path / sbom.name_of(lock)).read_text())
        assert (made["bomFormat"], made["specVersion"]) == ("CycloneDX", "1.6")
        ours = made["metadata"]["component"]
        assert (ours["name"], ours["version"]) == ("auricle", __version__)
        hashes = [each["externalReferences"][0]["hashes"][0]["content"] for each in made["components"]]
        found = {
            (each["name"], each["version"], digest) for each, digest in zip(made["components"], hashes, strict=True)
        }
        wanted = {match.groups() for line in lock.read_text().splitlines() if (match := LINE.match(line))}
        assert found == wanted
        (own,) = [each for each in made["dependencies"] if each["ref"] == ours["bom-ref"]]
        assert len(own["dependsOn"]) == len(wanted)
