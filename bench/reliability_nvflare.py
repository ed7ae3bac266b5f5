"""NVFlare's fleet of the comparison: a provisioned server and sites with mutual TLS, and jobs that `nvflare` submits.

Its server and sites are started as their `sub_start.sh` does, without the loop in it that starts them again: here the
bench does that, at once. The job is ScatterAndGather, whose `min_clients` and `wait_time_after_min_received` are what
NVFlare documents against clients that are gone, and saves its model after each round.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

from bench.flower_fleets import READY
from bench.flower_processes import free_ports, output, wait_for
from bench.reliability_fleets import Made, Watched
from bench.reliability_task import SIZE
from bench.step_process import Failed

QUORUM, WAIT = 0.7, 5
"""Share of the clients that is enough, and seconds to wait for the others then: what ours has by itself."""
BEATS, DEAD = '"heart_beat_timeout": 600', 30
"""Seconds without a heartbeat after which a client counts as gone; it sends one every ten."""
FILES = ("reliability_nvflare_app.py", "reliability_task.py")
PROJECT = """\
api_version: 3
name: peers
participants:
  - {{name: localhost, type: server, org: bench, fed_learn_port: {port}}}
{sites}  - {{name: admin@bench.org, type: admin, org: bench, role: project_admin}}
builders:
  - path: nvflare.lighter.impl.workspace.WorkspaceBuilder
    args: {{template_file: [master_template.yml]}}
  - path: nvflare.lighter.impl.static_file.StaticFileBuilder
    args: {{config_folder: config}}
  - path: nvflare.lighter.impl.cert.CertBuilder
  - path: nvflare.lighter.impl.signature.SignatureBuilder
"""
COMMON = "nvflare.app_common"


class Nvflare(Watched):
    """A server, and sites whose client runs in the job's process.

    Parameters
    ----------
    folder
        Everything is kept in it.
    python
        That of an environment with nvflare.
    devices
        How many sites there are.
    """

    name = "nvflare"
    title = "NVFlare 2.9.0"
    rules = ("fedavg", "")
    again = "the job submitted again, by hand, with the saved model's path as its first model"

    def __init__(self, folder: Path, python: Path, devices: int) -> None:
        super().__init__(folder, devices)
        self._bin, self._runs, self._job = python.parent, 0, ""
        self._kits = folder / "workspace/peers/prod_00"
        self._env = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")} | {
            "PATH": f"{self._bin}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(folder),
        }

    async def open(self) -> None:
        sites = "".join(f"  - {{name: site-{i}, type: client, org: bench}}\n" for i in range(self.devices))
        project = self.folder / "project.yml"
        project.write_text(PROJECT.format(port=free_ports(1)[0], sites=sites))
        await self._run("provision", "-p", project, "-w", self.folder / "workspace", "--force")
        local = self._kits / "localhost/local"
        resources = (local / "resources.json.default").read_text().replace("/tmp/nvflare/", f"{self.folder}/store/")
        (local / "resources.json").write_text(resources.replace(BEATS, f'"heart_beat_timeout": {DEAD}'))
        await self.start_server()
        for i in range(self.devices):
            self._start("client", f"site-{i}", f"device-{i}", f"uid=site-{i}")
        await self._all_there()

    def _start(self, kind: str, kit: str, name: str, *more: str) -> None:
        settings = ["secure_train=true", *more, "org=bench", "config_folder=config"]
        module = f"nvflare.private.fed.app.{kind}.{kind}_train"
        place: list[str | Path] = ["-m", self._kits / kit, "-s", f"fed_{kind}.json", "--set"]
        self.processes.start(name, [self._bin / "python", "-u", "-m", module, *place, *settings], self._env)

    async def start_server(self) -> None:
        self._start("server", "localhost", "server")

    async def start_device(self, number: int) -> None:
        self._start("client", f"site-{number}", f"device-{number}", f"uid=site-{number}")
        await self._all_there()

    async def _all_there(self) -> None:
        """Wait until the server knows every site, as an operator would look."""
        for _ in range(int(READY)):
            self.processes.check()
            try:
                said = await self._run("system", "status")
            except Failed:
                continue
            if all(f"site-{i}" in said for i in range(self.devices)):
                return
        raise Failed("nvflare system status never showed all sites")

    async def _run(self, *words: str | Path) -> str:
        kit = () if words[0] == "provision" else ("--startup-kit", self._kits / "admin@bench.org")
        return await output([self._bin / "nvflare", "--format", "json", *words, *kit], self._env)

    def server(self) -> list[int]:
        return self.processes.family("server")

    def main_server(self) -> list[int]:
        return [pid for pid in self.server() if "server_train" in Path(f"/proc/{pid}/cmdline").read_text()]

    def forget(self) -> None:
        self._job = ""
        self.path("saved.npy").unlink(missing_ok=True)

    async def said(self, since: int) -> str:
        return self.warned(since)

    async def choose(self, rule: str) -> None:
        """There is one."""

    async def begin(self, rounds: int) -> None:
        saved = self._saved()
        self._runs += 1
        job = self.folder / f"job-{self._runs}"
        (job / "app/config").mkdir(parents=True)
        (job / "app/custom").mkdir()
        for name in FILES:
            shutil.copy(Path(__file__).with_name(name), job / "app/custom")
        meta = {"name": "bench", "resource_spec": {}, "min_clients": self._quorum, "deploy_map": {"app": ["@ALL"]}}
        (job / "meta.json").write_text(json.dumps(meta))
        (job / "app/config/config_fed_server.json").write_text(json.dumps(self._server(rounds, saved)))
        executor = {"path": "reliability_nvflare_app.OneQuarter", "args": {"folder": str(self.folder)}}
        client = {"format_version": 2, "executors": [{"tasks": ["train"], "executor": executor}], "components": []}
        (job / "app/config/config_fed_client.json").write_text(json.dumps(client))
        self._job = str(json.loads(await self._run("job", "submit", "-j", job))["data"]["job_id"])

        def begun() -> bool | None:
            return bool(self.models()) or None

        await wait_for(begun, "the job", READY)

    @property
    def _quorum(self) -> int:
        """Clients that are enough: for a round to close, and for a job to go on when others are dead."""
        return max(1, round(QUORUM * self.devices))

    def _saved(self) -> Path | None:
        """Where the job before this one saved its model."""
        path = self._kits / "localhost" / self._job / "models/server.npy"
        if self._job and path.exists():
            return Path(shutil.copy(path, self.folder / "saved.npy"))
        return self.folder / "saved.npy" if (self.folder / "saved.npy").exists() else None

    def _server(self, rounds: int, saved: Path | None) -> dict[str, Any]:
        arguments = {
            "min_clients": self._quorum,
            "num_rounds": rounds,
            "wait_time_after_min_received": WAIT,
            "persistor_id": "persistor",
            "shareable_generator_id": "generator",
            "aggregator_id": "aggregator",
        }
        workflow = {"id": "rounds", "path": f"{COMMON}.workflows.scatter_and_gather.ScatterAndGather"}
        persistor = {"model": [0.0] * SIZE} | ({"source_ckpt_file_full_name": str(saved)} if saved else {})
        parts = {
            "persistor": (f"{COMMON}.np.np_model_persistor.NPModelPersistor", persistor),
            "generator": (
                f"{COMMON}.shareablegenerators.full_model_shareable_generator.FullModelShareableGenerator",
                {},
            ),
            "aggregator": (
                f"{COMMON}.aggregators.intime_accumulate_model_aggregator.InTimeAccumulateWeightedAggregator",
                {
                    "expected_data_kind": "WEIGHTS",
                    "aggregation_weights": {f"site-{i}": 1.0 for i in range(self.devices)},
                },
            ),
            "log": ("reliability_nvflare_app.RoundLog", {"path": str(self._log)}),
        }
        components = [{"id": name, "path": path, "args": args} for name, (path, args) in parts.items()]
        return {"format_version": 2, "workflows": [{**workflow, "args": arguments}], "components": components}

    @property
    def _log(self) -> Path:
        return self.folder / f"rounds-{self._runs}.jsonl"

    def _lines(self) -> list[dict[str, Any]]:
        text = self._log.read_text() if self._log.exists() else ""
        return [json.loads(line) for line in text.splitlines() if line.endswith("}")]

    def models(self) -> list[Made]:
        lines = [line for line in self._lines() if "quarters" in line]
        return [Made(line["at"], tuple(line["quarters"])) for line in lines]

    def taken(self) -> int:
        count = 0
        for line in self._lines():
            count = 0 if "quarters" in line else count + ("accepted" in line)
        return count

    async def state(self) -> str:
        jobs = json.loads(await self._run("job", "list", "-i", self._job))["data"]
        return str(next(job["status"] for job in jobs if job["job_id"] == self._job)).lower()
