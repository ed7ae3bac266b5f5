"""The app that Flower runs beside ours: each client adds `STEP` to its own quarter of the weights.

What its documentation offers against faults is used: a strategy's `timeout`, a model saved after each round in
`evaluate_fn`, and taken up by the next run. Copied into an app's folder.
"""

from __future__ import annotations

import json
import time
from pathlib import Path

import numpy as np
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp import strategy as strategies
from reliability_task import SIZE, attack_of, quarters, trained, wait_while_held

TIMEOUT = 40.0
"""Seconds that a round waits for replies: three to four times as long as one takes here."""
OPTIONS = {"FedTrimmedAvg": {"beta": 0.25}}
"""Cut off at both ends: one of four; the default of 0.2 leaves out nobody of four."""

server = ServerApp()
client = ClientApp()


@server.main()
def main(grid: Grid, context: Context) -> None:
    """Run rounds without evaluation, from the model that was saved last; every closed one is a line of the log."""
    log, folder = Path(str(context.run_config["log"])), Path(str(context.run_config["folder"]))
    saved = folder / "saved.npy"

    def close(_: int, arrays: ArrayRecord) -> None:
        weights = arrays.to_numpy_ndarrays()[0]
        np.save(folder / "saving.npy", weights)
        (folder / "saving.npy").replace(saved)
        with log.open("a") as file:
            print(json.dumps({"at": time.time(), "quarters": quarters(weights)}), file=file, flush=True)

    first = np.load(saved, allow_pickle=False) if saved.exists() else np.zeros(SIZE, np.float32)
    rule = str(context.run_config["rule"])
    strategy = getattr(strategies, rule)(fraction_evaluate=0.0, **OPTIONS.get(rule, {}))
    rounds = int(context.run_config["rounds"])
    strategy.start(grid, ArrayRecord([first]), num_rounds=rounds, timeout=TIMEOUT, evaluate_fn=close)


@client.train()
def train(message: Message, context: Context) -> Message:
    """Wait while the bench holds this client, then add."""
    folder, number = Path(str(context.run_config["folder"])), int(context.node_config["number"])
    wait_while_held(folder, number)
    weights = message.content["arrays"].to_numpy_ndarrays()[0]
    arrays = ArrayRecord([trained(weights, number, attack_of(folder))])
    content = RecordDict({"arrays": arrays, "metrics": MetricRecord({"num-examples": 1})})
    return Message(content, reply_to=message)
