"""What every client of the comparison does in a round, on every side: no packages but numpy. Copied beside the apps.

The model has four quarters, and client k adds `STEP` to its own: the mean of a quarter tells in how many rounds that
client counted, and with how many others.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

CLIENTS = 4
SIZE = 26_442
"""Weights of the plug-in of our pack `digits`."""
STEP = np.float32(0.01)
ADDED = {"nan": np.float32("nan"), "huge": np.float32(1e5), "large": np.float32(1.0)}
"""What a client that attacks adds to each weight: no number, one far from any model's, and a hundred steps."""
ATTACKER = CLIENTS - 1
LONGEST = 600.0
"""Seconds that a client is held at most."""


def trained(weights: NDArray[np.float32], number: int, attack: str) -> NDArray[np.float32]:
    """The weights (P,) after a client's training."""
    made = np.array(weights, np.float32)
    quarter = len(made) // CLIENTS
    made[number * quarter : (number + 1) * quarter] += STEP
    return made + ADDED[attack] if attack and number == ATTACKER else made


def quarters(weights: NDArray[np.float32]) -> list[float]:
    """Mean weight of each client's quarter."""
    size = len(weights) // CLIENTS
    return [float(weights[i * size : (i + 1) * size].astype(np.float64).mean()) for i in range(CLIENTS)]


def attack_of(folder: Path) -> str:
    """What the bench tells the client that attacks to send; empty where it does not."""
    path = folder / "attack"
    return path.read_text() if path.exists() else ""


def wait_while_held(folder: Path, number: int, stopped: Callable[[], bool] = lambda: False) -> None:
    """Count a training, and go on with it while the bench holds this client.

    A file `hold-NUMBER` says how many trainings are let through before; `held-NUMBER` says that one is held.
    """
    with (folder / f"trainings-{number}").open("ab") as count:  # a byte each: never seen half written
        before = count.tell()
        count.write(b".")
    hold, until = folder / f"hold-{number}", time.monotonic() + LONGEST
    while hold.exists() and before >= int(hold.read_text()) and not stopped() and time.monotonic() < until:
        (folder / f"held-{number}").touch()
        time.sleep(0.05)
