"""A virtual fleet on Ray: a cluster of nodes, of which one is killed, makes the same model as one process."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.fleet.test_virtual import as_bytes, virtual

from auricle.errors import AuricleError, SettingsError
from auricle_fleet import FleetRun
from auricle_fleet.virtual import ray_crew
from auricle_fleet.virtual.ray_driver import ClusterHead
from auricle_fleet.virtual.ray_processes import ENDED

pytest.importorskip("espeakng_loader")
SPLIT = {"devices": 12, "takes": 8, "rounds": 3, "local": "crnn-lite"}


@pytest.fixture
def nodes(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A cluster of two nodes with a processor each."""
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    utils = pytest.importorskip("ray.cluster_utils", reason="Ray is not installed")
    cluster = utils.Cluster(
        initialize_head=True,
        head_node_args={"num_cpus": 1, "include_dashboard": False, "object_store_memory": 100 << 20},
    )
    cluster.add_node(num_cpus=1, object_store_memory=100 << 20)
    cluster.wait_for_nodes()
    yield cluster
    cluster.shutdown()


@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.timeout(300)
def test_a_node_that_dies_in_a_round_changes_nothing(
    tmp_path: Path, nodes: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = FleetRun(virtual(**SPLIT, processes=1), tmp_path / "process").run()
    victim, lost = next(iter(nodes.worker_nodes)), threading.Event()
    begun = ray_crew.RayCrew.answers

    def answers(crew: Any, call: Any, asked: Any) -> Any:
        for count, answer in enumerate(begun(crew, call, asked)):
            if call.invite.round == 2 and count == 1 and not lost.is_set():
                nodes.remove_node(victim, allow_graceful=False)
                lost.set()
            yield answer

    monkeypatch.setattr(ray_crew.RayCrew, "answers", answers)
    run = FleetRun(virtual(**SPLIT, ray=nodes.address), tmp_path / "ray").run()
    assert lost.is_set() and as_bytes(run) == as_bytes(whole)
    assert [row.counted for row in run.rounds] == [row.counted for row in whole.rounds]


@pytest.mark.slow
def test_no_cluster_is_said_in_a_sentence(tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="Ray is not installed")
    with pytest.raises(AuricleError, match="no Ray cluster"):
        FleetRun(virtual(ray="127.0.0.1:1"), tmp_path / "run").run()


def test_without_ray_it_is_said_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_crew, "find_spec", lambda _: None)
    with pytest.raises(SettingsError, match=r"pip install .*\[ray\]"):
        FleetRun(virtual(ray="local"), tmp_path / "run").run()


def test_a_head_that_ended_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray would end this process a minute later, without a word."""
    monkeypatch.setattr("auricle_fleet.virtual.ray_driver.HEAD_SECONDS", 0.0)
    head = ClusterHead(())
    head.require("gone")
    program = "print(flush=True); input()"
    with subprocess.Popen(
        ["/ray/core/gcs_server", "-c", program],
        executable=sys.executable,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as child:
        assert child.stdout and child.stdout.read(1)
        head.require("gone")
        child.kill()
        child.wait()
    with pytest.raises(AuricleError, match="gone"):
        head.require("gone")
    with socket.create_server(("127.0.0.1", 0)) as server:
        head.address = f"127.0.0.1:{server.getsockname()[1]}"
        head.require("gone")
        head.watch(lambda: None)
        with pytest.raises(KeyError):
            head.watch(lambda: {}["nothing"])
    with pytest.raises(AuricleError, match="gone"):
        head.require("gone")
    with pytest.raises(AuricleError, match="go on with --resume"):
        head.watch(threading.Event().wait)


def test_a_run_that_ray_ends_says_so_and_leaves_no_process() -> None:
    """As Ray does where its node is gone: past every handler, with a process left, which holds its standard output."""
    begun = "import os, subprocess, sys; from auricle_fleet.virtual.ray_processes import RayWatcher as Watcher\n"
    left = "subprocess.Popen(['/ray/core/raylet', '-c', 'input()'], executable=sys.executable, stdin=0, stderr=-3)\n"
    held, end = os.pipe()
    for program, said in (("Watcher(2).end()\n", ""), (f"watcher = Watcher(2); left = {left}", f"auricle: {ENDED}\n")):
        ran = subprocess.run(
            [sys.executable, "-c", f"{begun}{program}os._exit(1)"],
            capture_output=True,
            text=True,
            check=False,
            start_new_session=True,
            timeout=60,
            stdin=held,
        )
        assert (ran.returncode, ran.stderr) == (1, said)
    os.close(held)
    os.close(end)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"ray": "local", "processes": 2}, "--processes"),
        ({"ray": "local", "start": "pack"}, "--judge off"),
        ({"engine": "live", "ray": "local"}, "--engine virtual"),
        ({"engine": "live", "processes": 2}, "--engine virtual"),
        ({"processes": -1}, "--processes"),
    ],
)
def test_what_does_not_go_together_is_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        FleetRun(virtual(**changes))
