"""Run a stage of the tests, and say in the last lines what was red.

    python tools/gate.py fast slow          what .ci/run runs
    python tools/gate.py cloud boards       parts of the nightly tests
    python tools/gate.py nightly            all parts, one after the other
    python tools/gate.py --summary fast slow

A test that fails runs once more, alone. If it passes then, it is FLAKY: named at the end and in out/gate/flaky.txt, and
the run stays green. See docs/testing.md.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "out" / "gate"
ALLOWED = ROOT / "tests" / "slow_tests.toml"
FLAKY = ROOT / "tests" / "flaky.txt"
MOST_TRIED_AGAIN = 8
"""Failures of a stage up to which each is tried again: more of them are no chance."""
MOST_NAMED = 40
TRY_SECONDS = 600
ELSEWHERE = "not arm64 and not boards and not firstboot"
GATE = f"slow and not nightly and {ELSEWHERE}"
XDIST = ("-n", "auto", "--dist", "worksteal")


@dataclass(frozen=True)
class Stage:
    """Commands before the tests, arguments of pytest, and seconds that one test may take."""

    tests: tuple[str, ...] = ()
    before: tuple[tuple[str, ...], ...] = ()
    beside: tuple[tuple[str, ...], ...] = ()
    limit: float | None = None


def nightly(*folders: str, parallel: bool = True) -> Stage:
    """The nightly tests of some folders."""
    return Stage((*(XDIST if parallel else ()), "-m", f"nightly and {ELSEWHERE}", "--timeout", "3000", *folders))


PYTHON = sys.executable
LINT = (
    ("ruff", "check", "."),
    ("ruff", "format", "--check", "."),
    ("lint-imports",),
    (PYTHON, "tools/rooms.py", "--check"),
    (PYTHON, "tools/size.py", "--check", "--base", "HEAD^"),
    (PYTHON, "tools/plain_words.py"),
    (PYTHON, "tools/reliability_page.py", "--check"),
)
STAGES = {
    "fast": Stage((*XDIST, "-m", f"not slow and {ELSEWHERE}"), LINT, (("mypy",),), 2.0),
    "slow": Stage((*XDIST, "-m", GATE, "--timeout", "600"), limit=60.0),
}
FUZZ = (PYTHON, "-m", "tests.fuzz", "--cases", "1000000", "--seconds", "8", "--workers", "2", "--coverage", "--quiet")
NIGHTLY = {
    "core": nightly("tests/core", "tests/learning", "tests/test_imports.py", "tests/test_public_face.py"),
    "edge": nightly("tests/edge"),
    "cloud": nightly("tests/cloud"),
    "export": nightly("tests/export"),
    "fleet": nightly("tests/fleet", "tests/bench"),
    "system": nightly("tests/system", "tests/brokers", parallel=True),
    "deploy": nightly("tests/deploy", parallel=False),
    "pages": nightly("tests/tools", "tests/mistakes", "tests/examples"),
    "fuzz": replace(nightly("tests/fuzz"), before=(FUZZ,)),
    "arm64": Stage(("-m", "arm64"), ((PYTHON, "-m", "tests.arm64.make_root"),)),
    "boards": Stage(("-m", "boards", "tests/boards")),
    "mutants": Stage(before=((PYTHON, "tools/mutants.py", "--draw", "18"),)),
}


@dataclass(frozen=True)
class Outcome:
    """What became of a stage: failed tests and commands with a line of reason each."""

    failed: Mapping[str, str]
    flaky: Mapping[str, str]
    over: Mapping[str, float]
    tests: int
    seconds: float

    @property
    def green(self) -> bool:
        """Whether nothing failed for good."""
        return not self.failed


def run(command: Sequence[str], **options: object) -> subprocess.CompletedProcess[str]:
    """Run a command of the environment in the project's root."""
    path = f"{Path(PYTHON).parent}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(command, cwd=ROOT, text=True, check=False, env={**os.environ, "PATH": path}, **options)  # type: ignore[call-overload,no-any-return]


def name_of(command: Sequence[str]) -> str:
    """A command as a person would type it."""
    return " ".join("python" if word == PYTHON else word for word in command)


def last_line(text: str) -> str:
    """The last line that says something."""
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "no reason was given")[:200]


def check(command: Sequence[str], failed: dict[str, str]) -> None:
    """Run a command whose output is shown, and keep why it failed."""
    print(f"$ {name_of(command)}", flush=True)
    result = run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    print(result.stdout, end="", flush=True)
    if result.returncode:
        failed[name_of(command)] = last_line(result.stdout)


def run_tests(arguments: Sequence[str], file: Path) -> tuple[dict[str, str], dict[str, float]]:
    """Failures and seconds of tests, and pytest's own failure where it has one."""
    file.unlink(missing_ok=True)
    command = ("pytest", "-p", "tools.gate_results", "--results", str(file), *arguments)
    print(f"$ {name_of(command)}", flush=True)
    code = run(command).returncode
    results = json.loads(file.read_text()) if file.is_file() else {"failed": {}, "seconds": {}}
    failed = results["failed"]
    if code not in (0, 1) and not failed:
        failed["pytest"] = {5: "no test ran"}.get(code, f"it ended with exit code {code}")
    return failed, results["seconds"]


def again(failed: dict[str, str]) -> dict[str, str]:
    """Try each failed test once more, alone; take those that pass out of `failed` and return them."""
    tests = [name for name in failed if "::" in name]
    if len(tests) > MOST_TRIED_AGAIN:
        return {}
    passed = {}
    for name in tests:
        result = run(("pytest", "--timeout", str(TRY_SECONDS), name))
        if result.returncode == 0:
            passed[name] = failed.pop(name)
    return passed


def over_limit(seconds: Mapping[str, float], stage: str, limit: float | None) -> dict[str, float]:
    """Tests that took longer than their stage allows and have no reason in `slow_tests.toml`."""
    allowed = tuple(tomllib.loads(ALLOWED.read_text(encoding="utf-8")).get(stage, {}))
    if limit is None:
        return {}
    slow = {name: took for name, took in seconds.items() if took > limit and not name.startswith(allowed)}
    return dict(sorted(slow.items(), key=lambda item: -item[1]))


def run_stage(name: str, extra: Sequence[str] = ()) -> Outcome:
    """Run a stage and write what became of it to `out/gate`."""
    stage = (STAGES | NIGHTLY)[name]
    began = time.monotonic()
    failed: dict[str, str] = {}
    for command in stage.before:
        check(command, failed)
    beside = [
        (
            command,
            subprocess.Popen(
                (Path(PYTHON).parent / command[0], *command[1:]),
                cwd=ROOT,
                text=True,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
            ),
        )
        for command in stage.beside
    ]
    flaky: dict[str, str] = {}
    seconds: dict[str, float] = {}
    try:
        if stage.tests:
            tests, seconds = run_tests((*stage.tests, "--durations=25", *extra), RESULTS / f"{name}-tests.json")
            flaky = again(tests)
            failed |= tests
        for command, process in beside:
            output, _ = process.communicate()
            print(f"$ {name_of(command)}\n{output}", end="", flush=True)
            if process.returncode:
                failed[name_of(command)] = last_line(output)
    finally:
        for _, process in beside:
            process.kill()
    took = time.monotonic() - began
    outcome = Outcome(failed, flaky, over_limit(seconds, name, stage.limit), len(seconds), round(took, 1))
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / f"{name}.json").write_text(json.dumps(outcome.__dict__))
    with (RESULTS / "flaky.txt").open("a", encoding="utf-8") as file:
        file.writelines(f"{datetime.date.today()} {test}\n" for test in flaky)
    return outcome


def lines_of(name: str) -> tuple[list[str], bool]:
    """What the end of a run says of a stage, and whether it was green."""
    path = RESULTS / f"{name}.json"
    if not path.is_file():
        return [f"{name}: RED, it did not run to its end"], False
    outcome = Outcome(**json.loads(path.read_text()))
    known = FLAKY.read_text(encoding="utf-8") if FLAKY.is_file() else ""
    colour = "green" if outcome.green else "RED"
    lines = [f"{name}: {colour}, {outcome.tests} tests in {outcome.seconds:.0f} s"]
    limit = (STAGES | NIGHTLY)[name].limit
    lines += [f"  over {limit:g} s: {test} {took:.1f} s" for test, took in list(outcome.over.items())[:MOST_NAMED]]
    for test, reason in outcome.flaky.items():
        lines.append(f"  FLAKY{' AGAIN' if f' {test}' in known else ''} {test}: {reason}")
    lines += [f"  FAILED {test}: {reason}" for test, reason in list(outcome.failed.items())[:MOST_NAMED]]
    if len(outcome.failed) > MOST_NAMED:
        lines.append(f"  and {len(outcome.failed) - MOST_NAMED} more")
    return lines, outcome.green


def versions() -> str:
    """Every package of the environment with its version."""
    names = {f"{package.metadata['Name']} {package.version}" for package in metadata.distributions()}
    return f"Python {sys.version.split()[0]}, " + ", ".join(sorted(names, key=str.lower))


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line; 0 where every stage is green, else 1."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("stages", nargs="*", metavar="STAGE", help=", ".join([*STAGES, *NIGHTLY, "nightly"]))
    parser.add_argument("--summary", action="store_true", help="run nothing: say what the stages left")
    parser.add_argument("--versions", action="store_true", help="say the versions of what is installed first")
    parser.add_argument("--pytest", default="", metavar="OPTIONS", help="further options of pytest")
    options = parser.parse_args(arguments)
    names = [part for name in options.stages for part in (NIGHTLY if name == "nightly" else (name,))]
    unknown = sorted(set(names) - set(STAGES) - set(NIGHTLY))
    if unknown:
        parser.error(f"there is no stage {unknown[0]!r}: use one of {', '.join([*STAGES, *NIGHTLY, 'nightly'])}")
    if options.versions:
        print(versions())
    if not options.summary:
        for name in names:
            (RESULTS / f"{name}.json").unlink(missing_ok=True)
        for name in names:
            run_stage(name, options.pytest.split())
    reports = [lines_of(name) for name in names]
    print("\n".join(line for lines, _ in reports for line in lines))
    return int(not all(green for _, green in reports))


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
