"""Write a software bill of materials (CycloneDX 1.6, JSON) of every lock: what each way to install Auricle brings.

    python tools/sbom.py [FOLDER]

cyclonedx-py (the extra `dev`) reads the locks and validates what it writes; the same locks give the same bytes. What is
installed in an environment, with licences: `cyclonedx-py environment FOLDER-OF-IT`.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "core"))

from auricle import __version__  # noqa: E402 - of this checkout

FOLDERS = ("edge/requirements", "deploy/requirements", "fleet/requirements")


def locks() -> list[Path]:
    """Every lock, each of one part for one Python on one machine."""
    return sorted(path for folder in FOLDERS for path in (ROOT / folder).glob("*.txt"))


def name_of(lock: Path) -> str:
    """What its bill is called, e.g. `edge-aarch64-cp313.cdx.json`."""
    return f"{lock.relative_to(ROOT).parts[0]}-{lock.stem}.cdx.json"


def bill(lock: Path) -> dict[str, Any]:
    """The bill of a lock, with us as what it is of."""
    command = [sys.executable, "-W", "ignore", "-m", "cyclonedx_py", "requirements", "--output-reproducible"]
    command += ["--pyproject", str(ROOT / "pyproject.toml"), "--mc-type", "application", str(lock)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"sbom: {lock.relative_to(ROOT)}: {done.stderr.strip()[-300:]}")
    made: dict[str, Any] = json.loads(done.stdout)
    ours = made["metadata"]["component"]
    ours |= {"version": __version__, "purl": f"pkg:pypi/auricle@{__version__}"}
    parts = sorted(component["bom-ref"] for component in made.get("components", []))
    made["dependencies"] = [{"ref": ours["bom-ref"], "dependsOn": parts}, *({"ref": part} for part in parts)]
    return made


def main(arguments: list[str]) -> int:
    """Write all of them."""
    folder = Path(arguments[0]) if arguments else ROOT / "out" / "sbom"
    folder.mkdir(parents=True, exist_ok=True)
    for lock in locks():
        made = bill(lock)
        (folder / name_of(lock)).write_text(json.dumps(made, indent=1, sort_keys=True) + "\n")
        print(f"{folder / name_of(lock)}: {len(made['components'])} packages")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
