"""The deployment, started without a container engine from its own configuration."""

from __future__ import annotations

import json
import shutil
import ssl
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.cloud.postgres import programs
from tests.deploy.composition import DEPLOY, Composition, read_environment
from tests.deploy.engine import Engine, Network, obstacle
from tests.system.conftest import speech_folder as speech_folder

FLEET = "home"
DATA = "/var/lib/postgresql/data"


@dataclass
class Site:
    """What runs, and how it is asked."""

    engine: Engine
    composition: Composition
    deploy: Path
    """A copy of deploy/ with .env and secrets."""

    def auricle(self, *arguments: str) -> Any:
        """`docker compose exec coordinator auricle ... --json`."""
        done = self.engine.run("coordinator", "auricle", *arguments, "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def prometheus(self, path: str, **query: str) -> Any:
        """An answer of Prometheus' API."""
        url = f"http://127.0.0.1:9090/api/v1/{path}?{urllib.parse.urlencode(query)}"
        with self.engine.network.entered(), urllib.request.urlopen(url, timeout=10) as answer:
            return json.load(answer)["data"]

    def coordinator(self, path: str, token: str = "") -> tuple[int, str]:
        """Status and text of the coordinator's API over TLS, believing the authority only."""
        trust = ssl.create_default_context(cafile=str(self.engine.volume("state") / "authority/root.pem"))
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        request = urllib.request.Request(f"https://127.0.0.1:8443{path}", headers=headers)
        try:
            with self.engine.network.entered(), urllib.request.urlopen(request, timeout=10, context=trust) as answer:
                return int(answer.status), answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def value(self, query: str) -> float | None:
        """The only value of a query; None while there is none."""
        found = self.prometheus("query", query=query)["result"]
        return float(found[0]["value"][1]) if found else None

    def start_database(self) -> None:
        """PostgreSQL as its image starts it the first time: initdb with the secret, the database, the server."""
        place = programs()
        assert place is not None
        given = self.composition.services["postgres"]["environment"]
        script = f"""
            test -s {DATA}/PG_VERSION || {{
                initdb --pgdata={DATA} --username={given["POSTGRES_USER"]} --pwfile={given["POSTGRES_PASSWORD_FILE"]} \
                    --encoding=UTF8 --locale=C --no-sync {given["POSTGRES_INITDB_ARGS"]}
                echo 'CREATE DATABASE {given["POSTGRES_DB"]}' | postgres --single -D {DATA} postgres
                echo 'host all all all scram-sha-256' >> {DATA}/pg_hba.conf
            }}
            exec postgres -D {DATA} -c 'listen_addresses=*' -c unix_socket_directories=/run/postgresql
            """
        self.engine.start(self.composition, "postgres", command=["sh", "-euc", script], path=str(place))
        self.engine.wait_healthy(self.composition, "postgres")

    def start(self) -> None:
        """All services of compose.yaml that can be run here, in the order of their dependencies."""
        self.start_database()
        self.engine.finish(self.composition, "first-start")
        for name in ("mosquitto", "coordinator"):
            self.engine.start(self.composition, name)
        flags = self.composition.services["prometheus"]["command"]
        self.engine.start(self.composition, "prometheus", command=["prometheus", *flags])
        for name in ("mosquitto", "coordinator", "prometheus"):
            self.engine.wait_healthy(self.composition, name)


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """The whole of compose.yaml but Grafana, started as written there."""
    why = obstacle()
    missing = [name for name in ("mosquitto", "prometheus", "wget", "nc") if shutil.which(name) is None]
    if why or missing or programs() is None:
        pytest.skip(why or f"not installed: {', '.join(missing) or 'postgresql'}")
    folder = tmp_path_factory.mktemp("site")
    deploy = folder / "deploy"
    shutil.copytree(DEPLOY, deploy, ignore=shutil.ignore_patterns(".env", "secrets"))
    subprocess.run([deploy / "prepare", FLEET, "hub.lan", "192.0.2.7"], check=True, capture_output=True)
    composition = Composition.read(deploy / "compose.yaml", read_environment(deploy / ".env"))
    network = Network()
    engine = Engine(folder, network, (*composition.services, "hub.lan"))
    running = Site(engine, composition, deploy)
    try:
        running.start()
        yield running
    finally:
        engine.stop()
        network.close()
