"""A federated round between a broker, a coordinator and an agent on the host and two agents on the board."""

from __future__ import annotations

import asyncio
import json
import secrets
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from auricle.mqtt_link.mosquitto_program import find_mosquitto
from auricle.packs.pack import load_pack
from auricle_fleet.broker.broker import start_broker
from tests.arm64.board import Board
from tests.arm64.conftest import Shared
from tests.system.conftest import Command

pytestmark = [pytest.mark.arm64, pytest.mark.timeout(1500)]

FLEET = "mixed"
ON_BOARD, ON_HOST = ("board-a", "board-b"), "host-a"
WORDS = ("yes", "no", "up", "down")
RATE = 16_000
ROUNDS = 2
DEADLINE = 600.0


class BoardCommand(Command):
    """A running `auricle` command on the board."""

    def __init__(self, board: Board, *arguments: str) -> None:
        self.process = board.popen("-m", "auricle", *arguments)
        self.lines, self.errors = [], ""
        self._news = threading.Condition()
        self._readers = [threading.Thread(target=self._read_lines), threading.Thread(target=self._read_errors)]
        for reader in self._readers:
            reader.start()


@contextmanager
def ended(commands: list[Command]) -> Iterator[list[Command]]:
    """Kill at the end what still runs."""
    try:
        yield commands
    finally:
        for command in commands:
            if command.process.poll() is None:
                command.signal(signal.SIGKILL)
            command.end()


def tones(folder: Path, speaker: str, seed: int) -> None:
    """Five clips of each word: a chord of its own in noise."""
    import soundfile

    rng = np.random.default_rng(seed)
    time = np.arange(RATE) / RATE
    for i, word in enumerate(WORDS):
        (folder / word).mkdir(parents=True, exist_ok=True)
        for take in range(5):
            pitch = 250 * (i + 1) * rng.uniform(0.95, 1.05)
            sound = 0.2 * np.sin(2 * np.pi * pitch * time) * (time > 0.2) + 0.02 * rng.standard_normal(RATE)
            soundfile.write(folder / word / f"{speaker}_nohash_{take}.wav", sound.astype(np.float32), RATE)


def test_a_round_between_host_and_board_counts_all_three(
    board: Board, shared: Shared, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if find_mosquitto() is None:
        pytest.skip("mosquitto is not installed")
    for seed, device in enumerate((*ON_BOARD, ON_HOST)):
        tones(shared.path / "clips", device, seed)

    async def scenario(commands: list[Command]) -> None:
        users = {name: secrets.token_hex(8) for name in ("coordinator", ON_HOST, *ON_BOARD)}
        async with await start_broker(tmp_path, users, fleet=FLEET, kind="mosquitto", persistence=False) as broker:
            coordinator = Command(
                *("cloud", "serve", "--broker", broker.address("coordinator").url, "--fleet", FLEET, "--devices", "3"),
                *("--gather", str(DEADLINE), "--deadline", str(DEADLINE), "--quorum", "1.0", "--rounds", str(ROUNDS)),
                *("--state", str(tmp_path / "coordinator"), "--approval", "auto", "--listen", "none"),
                *("--pack", "gsc12", "--json"),
            )
            commands.append(coordinator)
            key = (await asyncio.to_thread(coordinator.wait_line, lambda line: "coordinator" in line))["coordinator"]

            def options(device: str, folder: str) -> tuple[str, ...]:
                return (
                    *("edge", "run", "--device", device, "--fleet", FLEET, "--broker", broker.address(device).url),
                    *("--coordinator", key, "--data", f"{folder}/clips", "--state", f"{folder}/{device}"),
                    *("--speaker", device, "--pack", "gsc12", "--local", "crnn-base", "--json"),
                )

            agents = [BoardCommand(board, *options(device, shared.inside)) for device in ON_BOARD]
            agents.append(Command(*options(ON_HOST, str(shared.path))))  # type: ignore[arg-type]
            commands.extend(agents)
            facts = [
                await asyncio.to_thread(agent.wait_line, lambda line: "training_clips" in line, DEADLINE)
                for agent in agents
            ]
            done = [
                await asyncio.to_thread(coordinator.wait_line, lambda line, n=n: line.get("round") == n, DEADLINE)
                for n in range(1, ROUNDS + 1)
            ]
            code = await asyncio.to_thread(coordinator.end)

            with capsys.disabled():
                print(f"\ntwo agents on the board, one on the host: {json.dumps(done)}")
            assert [fact["pack"] for fact in facts] == [load_pack("gsc12").identity] * 3
            assert all(fact["training_clips"] > 0 and fact["skipped_files"] == 0 for fact in facts)
            assert [line["state"] for line in done] == ["published"] * ROUNDS
            assert [line["counted"] for line in done] == [3] * ROUNDS
            assert code == 0, coordinator.errors
            for agent in agents:
                agent.signal(signal.SIGTERM)
                await asyncio.to_thread(agent.end)

    with ended([]) as commands:
        asyncio.run(scenario(commands))
