"""The wheels of a bundle: only those of the lock, fetched once, and nothing half of it when it is cut off."""

from __future__ import annotations

import os
import subprocess
import zipfile
from pathlib import Path

import pytest
from tests.export.small_bundle import SmallWorld, make_world, tiny_auricle, tiny_wheel

from auricle_export.flash.boards import load_boards
from auricle_export.flash.bundle.auricle_wheel import INFO, pack_wheel, read_installed
from auricle_export.flash.bundle.locks import LOCKS, Target, WheelError, read_lock
from auricle_export.flash.bundle.wheelhouse import UnreachableError, fetch, pip, wheelhouse

TARGET = Target(11)


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SmallWorld:
    """A small lock, and an index that pip cannot reach."""
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/")
    monkeypatch.setenv("PIP_RETRIES", "1")
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    return make_world(tmp_path, monkeypatch)


def test_there_is_a_lock_for_every_system_that_the_agent_runs_on() -> None:
    for board in load_boards():
        for system in board.os:
            if system.container is None:
                target = Target.of(system)
                assert target.machine == board.architecture
                assert {"numpy", "onnxruntime", "tuf", "gpiod", "sounddevice"} <= set(read_lock(target.lock))
    assert Target(12, "x86_64").lock == LOCKS / "x86_64-cp312.txt"
    with pytest.raises(WheelError, match=r"aarch64-cp39\.txt"):
        read_lock(Target(9).lock)


def test_pip_fetches_what_is_missing(world: SmallWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pip", reason="an environment of make check has none")
    told: list[tuple[str, int, int]] = []
    monkeypatch.setenv("PIP_FIND_LINKS", str(world.house))
    monkeypatch.setenv("PIP_NO_INDEX", "1")

    wheels = fetch(TARGET, tmp_path / "new" / "house", lambda *what: told.append(what))

    house = tmp_path / "new" / "house"
    assert {name: path.parent for name, path in wheels.items()} == {"alpha": house, "beta": house}
    assert told == [("fetching alpha", 0, 2), ("fetching beta", 1, 2)]
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["house"]


def test_what_is_there_is_not_fetched_again_and_wheels_of_an_older_lock_are_removed(
    world: SmallWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = tiny_wheel(world.house, "gamma")
    assert set(fetch(TARGET, world.house)) == {"alpha", "beta"}
    assert not old.exists()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert wheelhouse(Target(13, "x86_64")) == tmp_path / "auricle" / "wheels" / "x86_64-cp313"


@pytest.mark.slow
def test_a_wheel_of_other_bytes_is_not_taken_and_the_index_is_asked(world: SmallWorld) -> None:
    tiny_wheel(world.house, "beta", "EVIL = True\n")
    with pytest.raises(UnreachableError, match="index"):
        fetch(TARGET, world.house)
    with pytest.raises(WheelError, match=r"^pip download failed: \S"):
        pip("download", "--no-index", "nothing-of-this-name")


def children() -> set[str]:
    return set(Path(f"/proc/self/task/{os.getpid()}/children").read_text().split())


@pytest.mark.slow
def test_an_interruption_leaves_nothing(world: SmallWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_FIND_LINKS", str(world.house))
    begun: list[str] = []
    before = children()

    def interrupted(what: str, done: int, total: int) -> None:
        begun.append(what)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fetch(TARGET, tmp_path / "house" / "here", interrupted)

    assert begun == ["fetching alpha"]
    assert list((tmp_path / "house").rglob("*")) == [tmp_path / "house" / "here"]
    assert children() <= before


def test_our_own_wheel_is_sorted_without_times_and_records_itself(tmp_path: Path) -> None:
    name, content = tiny_auricle()
    (tmp_path / name).write_bytes(content)

    with zipfile.ZipFile(tmp_path / name) as archive:
        infos = archive.infolist()
        record = archive.read(f"{INFO}/RECORD").decode().splitlines()
    assert [info.filename for info in infos] == [line.split(",")[0] for line in record]
    facts = {(info.date_time[0], info.compress_type, info.external_attr >> 16) for info in infos}
    assert facts == {(1980, 0, 0o100644)}
    assert pack_wheel({"b": b"2", "a": b"1"}) == pack_wheel({"a": b"1", "b": b"2"})


def test_an_installation_that_was_changed_is_not_packed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name, content = tiny_auricle()
    (tmp_path / name).write_bytes(content)
    with zipfile.ZipFile(tmp_path / name) as archive:
        archive.extractall(tmp_path / "site")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))

    assert pack_wheel(dict(read_installed())) == content
    (tmp_path / "site/auricle_edge/ota/slots/files.py").write_text("changed")
    with pytest.raises(WheelError, match=r"files\.py"):
        dict(read_installed())


SCRIPT = Path(__file__).parents[2] / "export/auricle_export/flash/bundle/install.sh"


def asked(folder: Path, answer: str) -> subprocess.CompletedProcess[str]:
    """Run the script of a bundle where python3 answers with a version; how it was called then is on standard output."""
    folder.mkdir(exist_ok=True)
    (folder / "install").write_text(SCRIPT.read_text().replace("@PYTHON@", "3.77"))
    called = 'for each in "$@"; do echo "<$each>"; done'
    (folder / "python3").write_text(f'#!/bin/sh\nif [ "$2" = -c ]; then {answer}; else {called}; fi\n')
    (folder / "python3").chmod(0o755)
    command, env = ["/bin/sh", folder / "install", "--root", "/some where"], {"PATH": f"{folder}:/usr/bin:/bin"}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=env)


def test_the_script_starts_the_guard_with_the_right_python(tmp_path: Path) -> None:
    done = asked(tmp_path / "a folder", 'echo "3.77 64"')
    here = tmp_path / "a folder"
    assert done.returncode == 0, done.stderr
    words = ("-I", f"{here}/slots.py", "install", here, "--root", "/some where")
    assert done.stdout.splitlines() == [f"<{word}>" for word in words]


@pytest.mark.parametrize(
    ("answer", "noun"),
    [('echo "3.9 64"', "this system has 3.9"), ('echo "3.77 32"', "32-bit"), ("exit 1", "apt install python3")],
    ids=["other version", "32 bits", "none that runs"],
)
def test_the_script_says_which_python_it_needs(answer: str, noun: str, tmp_path: Path) -> None:
    done = asked(tmp_path, answer)
    assert done.returncode == 2
    assert "3.77" in done.stderr and noun in done.stderr
