"""The app that Flower runs: FedAvg over 28,000 float32 whose clients add one to each. Copied into an app's folder."""

from __future__ import annotations

import json
import time
from pathlib import Path

import numpy as np
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg

SIZE = 28_000

server = ServerApp()
client = ClientApp()


@server.main()
def main(grid: Grid, context: Context) -> None:
    """Run rounds without evaluation; every closed one is a line of the file `log`."""
    replies = [0]

    def count(records: list[RecordDict], _: str) -> MetricRecord:
        replies[0] = len(records)
        return MetricRecord()

    def close(number: int, arrays: ArrayRecord) -> None:
        said = {"round": number, "at": time.time(), "counted": replies[0], "model": model_of(arrays)}
        with Path(str(context.run_config["log"])).open("a") as file:
            print(json.dumps(said), file=file, flush=True)

    strategy = FedAvg(fraction_evaluate=0.0, train_metrics_aggr_fn=count)
    first = ArrayRecord([np.zeros(SIZE, np.float32)])
    strategy.start(grid, first, num_rounds=int(context.run_config["rounds"]), evaluate_fn=close)


def model_of(arrays: ArrayRecord) -> float:
    """How many rounds a model has seen: each adds one to every weight."""
    return float(arrays.to_numpy_ndarrays()[0].mean())


@client.train()
def train(message: Message, _: Context) -> Message:
    """Add one."""
    weights = message.content["arrays"].to_numpy_ndarrays()[0]
    content = {"arrays": ArrayRecord([weights + np.float32(1)]), "metrics": MetricRecord({"num-examples": 1})}
    return Message(RecordDict(content), reply_to=message)
