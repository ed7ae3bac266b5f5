"""Every command of README.md and docs/ is run, or a reason stands why not; mistakes of the pages are named.

    python tools/run_docs.py                      the table: page, commands, run, only parsed, why
    python tools/run_docs.py --run docs/fleet.md  run the commands of pages, in their order, in a folder of their own
    python tools/run_docs.py --check              mistakes alone; exit code 1 where there is one
    python tools/run_docs.py --words              words of each page by hand and made by tools, most by hand first

A page is run as one script of bash, in a folder that looks like a checkout. What is made there is thrown away; what a
page shows as output is not compared. A command that serves runs in the background until the page ends.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).parents[1]))

from tools.doc_checks import mistakes
from tools.doc_pages import ROOT, Command, blocks, commands, pages, words

NOT_RUN: tuple[tuple[str, str], ...] = (
    (r"(^|\s)/(etc|opt|usr|media|boot)/", "reads or writes the system's own folders"),
    (r"\b(sudo|apt|systemctl|systemd-analyze|systemd-sysusers)\b", "changes the system"),
    (r"\b(docker|compose|kubectl)\b", "needs a container engine"),
    (r"\b(pip install|git clone)\b|-m venv\b", "installs: the tests run in what it makes"),
    (r"\bpytest\b", "is a test of the suite"),
    (
        r"^make (test|slow|check|arm64|boards|first-boot|mutants|bench|bench-step|sbom|dist|dist-arm64)\b",
        "is a job of its own",
    ),
    (r"^python (-m )?(bench[/.]|tests\.)", "measures, for minutes"),
    (r"\bexport wakeword\b", "trains for minutes"),
    (r"\bexport pretrain\b|\bbuild home\b", "trains for hours, on recordings"),
    (r"\bflash (bundle|image|write|push|verify|disks)\b", "needs wheels from the network, an image, a card or a board"),
    (r"\bmosquitto -c home/|--config home/", "needs a host hub.lan"),
    (r"--config coordinator.toml", "needs the broker that the file names"),
    (r"\brounds (watch|why 3 kitchen-1)$|\brollouts watch$", "needs devices"),
    (r"--install-completion", "changes the shell of who calls it"),
    (r"(?<![\w/.-])(\.\.\.|[A-Z][A-Z_]{2,})(?![\w=])|=(DIR|DATA|KEY)\b", "has a placeholder"),
)
"""Commands that are not run, and why; the first that matches counts. A note beside a block counts before them."""
PAGES: dict[str, str] = {
    "docs/clips.md": "needs a device that listens",
    "docs/deploy.md": "needs a server of its own, as in tests/deploy",
    "docs/detection.md": "needs recordings",
    "docs/hearing-reports.md": "needs a fleet that reports",
    "docs/hearing.md": "needs recordings",
    "docs/home.md": "needs three boards; tests/system/test_home_hub.py does the like",
    "docs/identity.md": "needs a host hub.lan; tests/system/test_tls_identity.py does the like",
    "docs/quick-start-board.md": "needs a board with a microphone",
    "docs/pretrain.md": "needs recordings",
    "docs/releases.md": "needs releases and devices; tests/system/test_rollout.py does the like",
    "docs/service.md": "needs a device that listens",
    "docs/training-data.md": "needs recordings",
    "docs/wake-word.md": "needs a device that listens",
}
"""Pages of which nothing is run, and why."""
SERVES = re.compile(r"^(auricle (cloud serve|edge run|fleet broker)|(/usr/sbin/)?mosquitto)\b")
SHORT = "--words yes,no --devices 4 --unseen 2 --takes 3 --min-clips 4 --rounds 2 --local crnn-lite"
"""What a `make fleet` without options is given here."""
DEADLINE = 240.0
"""Seconds that a page may take."""


def why_not(command: Command, page: Path) -> str:
    """Why a command of a page is not run; empty where it is."""
    if command.not_run:
        return command.not_run
    bare = " ".join(shlex.split(command.text, comments=True))
    reason = next((why for pattern, why in NOT_RUN if re.search(pattern, bare)), "")
    return reason or PAGES.get(str(page.relative_to(ROOT)), "")


def script(path: Path) -> str:
    """The commands of a page that are run, as a script of bash; empty where none is."""
    page = path.read_text(encoding="utf-8")
    run = [command for command in commands(page) if not why_not(command, path)]
    if not run:
        return ""
    lines = ["set -euo pipefail", "trap 'kill $(jobs -p) 2>/dev/null || true' EXIT"]
    for block in blocks(page):
        if block.file:
            lines.append(f"cat > {shlex.quote(block.file)} <<'END OF FILE'\n{block.text}\nEND OF FILE")
    for command in run:
        lines.append(f"echo {shlex.quote(f'line {command.line}: {command.text}')} >&2")
        text = command.text.replace("/var/lib/", "$PWD/var/lib/")
        lines.append(_served(text, command.line) if SERVES.match(text) else text)
    return "\n".join(lines) + "\n"


def _served(text: str, line: int) -> str:
    """Start it and go on when it has said something, or stop where it ended instead."""
    log = f"served-{line}.txt"
    bare = shlex.join(shlex.split(text, comments=True)).replace("'$PWD/", '"$PWD"\'/')
    return (
        f"{bare} > {log} 2>&1 &\n"
        f"for _ in $(seq 300); do [ -s {log} ] && break; kill -0 $! || break; sleep 0.2; done\n"
        f"kill -0 $! || {{ cat {log} >&2; exit 1; }}"
    )


def checkout(folder: Path) -> None:
    """Let a folder look like a checkout whose `make fleet` has been installed."""
    for entry in ROOT.iterdir():
        if not entry.name.startswith(".") and entry.name not in ("runs", "out"):
            (folder / entry.name).symlink_to(entry)
    environment = folder / ".venv"
    environment.mkdir()
    (environment / "bin").symlink_to(Path(sys.executable).parent)
    (environment / ".ready").touch()


def run_page(path: Path, folder: Path, deadline: float = DEADLINE) -> subprocess.CompletedProcess[str]:
    """Run a page's commands in a folder; its exit code, and what was said after the line of each command.

    Raises
    ------
    subprocess.TimeoutExpired
        It took longer.
    """
    checkout(folder)
    (folder / "home").mkdir()
    environment = {name: value for name, value in os.environ.items() if not name.startswith("AURICLE_")}
    environment |= {"HOME": str(folder / "home"), "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    environment["ARGS"] = SHORT
    environment["XDG_CONFIG_HOME"] = str(folder / "home/.config")
    process = subprocess.Popen(
        ["bash", "-c", script(path)],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        said, _ = process.communicate(timeout=deadline)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
    return subprocess.CompletedProcess(process.args, process.returncode, said)


def table() -> list[str]:
    """A row for each page that has commands."""
    rows = [f"{'page':36} {'commands':>8} {'run':>4} {'parsed':>6}  why"]
    total: Counter[str] = Counter()
    for path in pages():
        found = commands(path.read_text(encoding="utf-8"))
        reasons = Counter(filter(None, (why_not(command, path) for command in found)))
        only = sum(reasons.values())
        total.update(commands=len(found), run=len(found) - only, parsed=only)
        if found:
            why = "; ".join(f"{reason} ({count})" for reason, count in reasons.most_common())
            name = str(path.relative_to(ROOT))
            rows.append(f"{name:36} {len(found):8} {len(found) - only:4} {only:6}  {why}".rstrip())
    rows.append(f"{'all':36} {total['commands']:8} {total['run']:4} {total['parsed']:6}")
    return rows


def word_table() -> list[str]:
    """Return a row of words for each page, most by hand first, and their sum."""
    found = sorted(words().items(), key=lambda each: (-each[1][0], -each[1][1]))
    rows = [(str(path.relative_to(ROOT)), *counts) for path, counts in found]
    rows.append(("all", sum(row[1] for row in rows), sum(row[2] for row in rows)))
    return [f"{'page':36} {'by hand':>8} {'made':>8}", *(f"{name:36} {hand:8} {made:8}" for name, hand, made in rows)]


def main(arguments: list[str] | None = None) -> int:
    """Print the table and the mistakes, or run pages."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="mistakes alone; exit 1 where there is one")
    parser.add_argument("--run", nargs="*", type=Path, metavar="PAGE", help="run these pages, or all that can be")
    parser.add_argument("--words", action="store_true", help="words of each page, by hand and made by tools")
    given = parser.parse_args(arguments)
    if given.words:
        print(*word_table(), sep="\n")
        return 0
    if given.run is not None:
        return _run([path.resolve() for path in given.run] or pages())
    if not given.check:
        print(*table(), sep="\n")
    found = [(path, mistake) for path in pages() for mistake in mistakes(path)]
    for path, mistake in found:
        print(f"{path.relative_to(ROOT)}:{mistake.line}: {mistake.said}")
    return 1 if found else 0


def _run(chosen: list[Path]) -> int:
    failed = 0
    for path in chosen:
        if not script(path):
            continue
        with tempfile.TemporaryDirectory() as folder:
            done = run_page(path, Path(folder))
        failed += done.returncode != 0
        print(f"{path.relative_to(ROOT)}: {'ran' if done.returncode == 0 else f'failed ({done.returncode})'}")
        if done.returncode:
            print(done.stdout)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
