"""The operators' command line, here and through the API: what it says, its exit codes, and a real shell's <TAB>."""

from __future__ import annotations

import io
import json
import os
import pty
import shutil
import subprocess
import sys
import time
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from tests.cloud.api_server import Server, serving
from tests.cloud.filled_store import TASK, Filled

from auricle.process.cli import main
from auricle.wire.tensors import decode
from auricle_cloud.storage.database import Pulse

ROOT = Path(__file__).parents[2]


def environment(**more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("AURICLE_")}
    return {**kept, "COLUMNS": "200", "TERM": "dumb", "XDG_CONFIG_HOME": "/no/such", **more}


class Done(NamedTuple):
    """A command that has ended."""

    returncode: int
    stdout: str
    stderr: str


def auricle(*arguments: object, **more: str) -> Done:
    """Run a command in this process, as the entry point does."""
    out, err, before = io.StringIO(), io.StringIO(), dict(os.environ)
    os.environ.clear()
    os.environ.update(environment(**more))
    try:
        with redirect_stdout(out), redirect_stderr(err):
            code = main(["cloud", *map(str, arguments)])
    finally:
        os.environ.clear()
        os.environ.update(before)
    return Done(code, out.getvalue(), err.getvalue())


def told(done: Done) -> Any:
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def here(filled: Filled) -> dict[str, str]:
    return {"AURICLE_STATE": str(filled.folder)}


def there(server: Server, role: str = "admin") -> dict[str, str]:
    return {"AURICLE_SERVER": server.url, "AURICLE_TOKEN": server.tokens[role]}


def test_every_looking_command_says_the_same_here_and_there(filled: Filled) -> None:
    looks = (
        "overview,journal --limit 3,rounds list,rounds show 1,rounds why 1,why 1 dev-b,devices show dev-b,"
        "models list,tokens list"
    )
    with serving(filled) as server:
        for look in (words.split() for words in looks.split(",")):
            assert told(auricle(*look, "--json", **there(server))) == told(auricle(*look, "--json", **here(filled)))


def test_an_operator_acts_without_a_coordinator(filled: Filled) -> None:
    given = here(filled)

    assert told(auricle("rounds", "start", "--rounds", 2, "--json", **given))["rounds"] == [4, 5]
    assert told(auricle("rounds", "abort", 2, "--yes", "--reason", "test", "--json", **given))["request"] == "abort"
    assert told(auricle("rounds", "resume", 2, "--json", **given))["request"] is None
    assert told(auricle("devices", "approve", "--all", "--json", **given))["devices"] == ["dev-e"]
    assert told(auricle("devices", "label", "dev-e", "Hall", "--json", **given))["label"] == "Hall"
    assert told(auricle("models", "rollback", "--yes", "--json", **given))["version"] == 0
    made = auricle("tokens", "create", "bob", "--role", "operator", **given).stdout.strip()
    assert filled.store.tokens.holder(made) == ("bob", "operator")
    assert told(auricle("rounds", "schedule", "set", "nightly", "--at", "02:30", "--json", **given))["at"] == "02:30"
    assert filled.store.journal.events(limit=1)[0].who.startswith("cli:")


@pytest.mark.parametrize(
    "arguments",
    [
        ("rounds", "abort", 2),
        ("devices", "quarantine", "dev-a"),
        ("devices", "revoke", "dev-a"),
        ("models", "rollback"),
        ("models", "promote", 0),
        ("tokens", "revoke", "bob"),
    ],
)
def test_what_destroys_asks_and_refuses_where_nobody_can_answer(filled: Filled, arguments: tuple[object, ...]) -> None:
    filled.store.tokens.create("bob", "viewer")
    before = filled.store.journal.events(limit=1)
    done = auricle(*arguments, "--json", **here(filled))
    assert done.returncode == 2 and "--yes" in done.stderr
    assert json.loads(done.stdout) == {"error": done.stderr.removeprefix("auricle: ").strip()}
    assert filled.store.journal.events(limit=1) == before


@pytest.mark.slow
def test_nobody_is_asked_about_what_is_not_there(filled: Filled) -> None:
    for words in (
        ("rounds", "abort", 99),
        ("devices", "quarantine", "dev-a", "ghost"),
        ("devices", "revoke", "ghost"),
        ("devices", "forget", "ghost"),
        ("models", "promote", 99),
        ("models", "rollback", 99),
        ("rollouts", "abort", "r1-aaaa"),
        ("tokens", "revoke", "ghost"),
    ):
        done = auricle(*words, **here(filled))
        assert (done.returncode, "--yes" in done.stderr) == (5, False), (words, done.stderr)


@pytest.mark.parametrize(("answer", "code", "state"), [("n", 1, None), ("y", 0, "abort")])
def test_on_a_terminal_it_does_what_is_answered(filled: Filled, answer: str, code: int, state: str | None) -> None:
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "auricle", "cloud", "rounds", "abort", "2"]
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment(**here(filled))) as done:
        os.close(theirs)
        os.write(ours, f"{answer}\n".encode())
        assert done.wait(60) == code
    os.close(ours)
    assert filled.store.rounds.get(TASK, 2).request == state


@pytest.mark.slow
def test_wait_ends_with_the_round_and_tells_how(filled: Filled) -> None:
    given = here(filled)
    assert auricle("rounds", "wait", 1, **given).returncode == 0
    late = auricle("rounds", "wait", "--timeout", 0.1, "--json", **given)
    assert (late.returncode, json.loads(late.stdout)["round"]) == (4, 2)
    command = [sys.executable, "-m", "auricle", "cloud", "rounds", "wait", "2"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment(**given)) as waiting:
        filled.store.rounds.move(TASK, 2, "collecting", "aborted", report={"invited": [], "reason": "test"})
        assert waiting.wait(60) == 3


@pytest.mark.slow
@pytest.mark.parametrize("remote", [False, True])
def test_watch_tells_every_change_until_the_round_is_finished(filled: Filled, remote: bool) -> None:
    command = [sys.executable, "-m", "auricle", "cloud", "rounds", "watch", "2", "--json"]
    with serving(filled) as server:
        given = environment(**(there(server, "viewer") if remote else here(filled)))
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=given) as watching:
            assert watching.stdout is not None
            first = [json.loads(watching.stdout.readline()) for _ in range(3)]
            filled.store.rounds.move(TASK, 2, "collecting", "aborted", report={"invited": [], "reason": "test"})
            server.tell("state", round=2, state="aborted")
            last = json.loads(watching.stdout.readline())
            assert watching.wait(60) == 3

    assert [row["state"] for row in first] == ["published", "collecting", "planned"]
    assert (last["round"], last["state"]) == (2, "aborted")


@pytest.mark.parametrize("form", ["raw", "safetensors"])
def test_a_model_is_fetched_from_there(filled: Filled, tmp_path: Path, form: str) -> None:
    target = tmp_path / "model"
    with serving(filled) as server:
        done = auricle("models", "download", 1, "--form", form, "--out", target, **there(server, "viewer"))
    assert done.returncode == 0 and "SHA-256" in done.stdout, done.stderr
    table = filled.pack.plugin_table
    if form == "raw":
        assert np.array_equal(decode(target.read_bytes(), table.size), table.initial(0) + np.float32(0.5))


def test_the_doctor_looks_at_everything_and_says_what_is_bad(filled: Filled) -> None:
    filled.store.database.beat(Pulse(time.time()))
    good = told(auricle("doctor", "--json", **here(filled)))["findings"]
    bad = auricle("doctor", "--broker", "mqtt://127.0.0.1:1", "--json", **here(filled))
    assert {"versions", "accelerator", "disk", "database", "coordinator", "devices", "clock"} == {
        finding["check"] for finding in good
    }
    assert bad.returncode == 1
    (broker,) = (f for f in json.loads(bad.stdout)["findings"] if f["check"] == "broker")
    assert (broker["verdict"], "cannot be reached" in broker["sentence"]) == ("bad", True)


@pytest.mark.slow
def test_preflight_finds_what_serve_would_fail_at(tmp_path: Path) -> None:
    told_as_serve = "--fleet home --approval claimed --participation 0.5 --deadline 60 --pack digits"
    wrong = "--broker mqtt://127.0.0.1:1 --method lap --listen 0.0.0.0:80"
    done = auricle("preflight", *f"{told_as_serve} {wrong}".split(), "--state", tmp_path, "--json")
    assert done.returncode == 1
    said = {finding["check"]: finding["verdict"] for finding in json.loads(done.stdout)["findings"]}
    assert said["pack"] == "good" and said["disk"] != "bad"
    assert {check for check in said if said[check] == "bad"} == {"method", "api", "broker"}


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("backup", "f", "--server", "https://h"), 2),
        (("devices", "approve", "--state", "x"), 5),
        (("use", "a b", "--state", "x"), 2),
    ],
)
def test_mistakes_have_their_exit_code(arguments: tuple[str, ...], code: int) -> None:
    assert auricle(*arguments).returncode == code


def test_what_a_device_wrote_cannot_move_the_terminal(filled: Filled) -> None:
    filled.store.devices.add_refusals({("dev-a", "schema"): (1, "\x1b[2J\x1b]0;gone\x07")})
    assert "\x1b" not in auricle("devices", "show", "dev-a", **here(filled)).stdout


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
@pytest.mark.slow
def test_names_and_ids_complete_in_a_real_shell(filled: Filled, tmp_path: Path) -> None:
    program = tmp_path / "bin" / "auricle"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m auricle "$@"\n')
    program.chmod(0o755)
    script = """eval "$(auricle --show-completion bash)"
        while IFS= read -r line; do
          read -ra COMP_WORDS <<< "$line"
          [[ "$line" == *" " ]] && COMP_WORDS+=("")
          COMP_CWORD=$(( ${#COMP_WORDS[@]} - 1 )); COMPREPLY=()
          _auricle_completion auricle; echo "${COMPREPLY[*]}"
        done"""
    offered = {
        "auricle clo": "cloud",
        "auricle cloud rounds w": "why watch wait",
        "auricle cloud rounds show ": "3 2 1",
        "auricle cloud devices show dev-": "dev-a dev-b dev-c dev-d dev-e",
        "auricle cloud rounds why 1 dev-a": "dev-a",
        "auricle cloud models promote ": "1 0",
        "auricle cloud devices list --standing a": "approved",
        "auricle cloud devices show --state /no/such dev-": "",
    }
    path = f"{program.parent}{os.pathsep}{os.environ['PATH']}"

    done = subprocess.run(
        ["bash", "--norc", "-c", script],
        input="\n".join(offered) + "\n",
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
        env=environment(PATH=path, **here(filled)),
    )

    assert done.stdout.splitlines() == [*offered.values()], done.stderr
