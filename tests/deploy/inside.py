"""Run by `unshare`: makes a container's root from mounts, becomes its user, and is replaced by its command.

Reads a JSON object: `root` (an empty folder), `tmpfs`, `binds` ([source, target, writable]), `files` (text by path),
`links` (target by path), `read_only`, `uid`, `gid`, `groups`, `environment`, `command`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any


def mount(*arguments: str) -> None:
    subprocess.run(["/usr/bin/mount", *arguments], check=True)


def bind(source: str, target: Path, *, writable: bool) -> None:
    if Path(source).is_dir():
        target.mkdir(parents=True, exist_ok=True)
    else:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.touch()
    mount("--rbind", source, str(target))
    if not writable:
        mount("-o", "remount,bind,ro", str(target))


def make_root(spec: dict[str, Any]) -> Path:
    root = Path(spec["root"])
    mount("-t", "tmpfs", "-o", "mode=755", "container", str(root))
    for path in spec["tmpfs"]:
        place = root / path.lstrip("/")
        place.mkdir(parents=True)
        mount("-t", "tmpfs", "-o", "mode=1777", "tmpfs", str(place))
    for source, target, writable in spec["binds"]:
        bind(source, root / target.lstrip("/"), writable=writable)
    for name, text in spec["files"].items():
        file = root / name.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        file.chmod(0o755 if text.startswith("#!") else 0o644)
    for name, target in spec["links"].items():
        link = root / name.lstrip("/")
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(target)
    for name in ("null", "zero", "full", "random", "urandom"):
        bind(f"/dev/{name}", root / "dev" / name, writable=True)
    (root / "dev/shm").mkdir()
    mount("-t", "tmpfs", "-o", "mode=1777", "shm", str(root / "dev/shm"))
    (root / "proc").mkdir()
    mount("-t", "proc", "proc", str(root / "proc"))
    if spec["read_only"]:
        mount("-o", "remount,ro", str(root))
    return root


def main() -> None:
    spec = json.loads(sys.argv[1])
    root = make_root(spec)
    os.chroot(root)
    os.chdir("/")
    groups = ["--groups", ",".join(map(str, spec["groups"]))] if spec["groups"] else ["--clear-groups"]
    become = [
        "/usr/bin/setpriv",
        f"--reuid={spec['uid']}",
        f"--regid={spec['gid']}",
        *groups,
        "--inh-caps=-all",
        "--bounding-set=-all",
        "--no-new-privs",
        "--",
    ]
    os.execvpe(become[0], [*become, *spec["command"]], spec["environment"])


if __name__ == "__main__":
    main()
