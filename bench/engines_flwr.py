"""Flower's simulation: a ServerApp with FedAvg and a ClientApp in PyTorch, on its Ray backend, an actor on each core.

Run by `bench/engines.py` in an environment that holds `flwr[simulation]` and PyTorch. The module and the clips stay
loaded in an actor from one client to the next, which a ClientApp has to see to by itself; nobody evaluates.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from functools import cache
from importlib.metadata import version
from pathlib import Path

import numpy as np
import torch
from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from flwr.serverapp.strategy import FedAvg
from flwr.simulation import run_simulation

from bench.engines_torch import Twin, put, taken, train, twin
from bench.engines_worker import Diary, Facts, clips, serve


class Average(FedAvg):
    """Flower's FedAvg, but summed in double precision.

    Its own sum in float32 moves all weights by 8e-7 of the largest in a round of 64 clients, which would hide whether
    engines do the same.
    """

    def aggregate_train(
        self, server_round: int, replies: Iterable[Message]
    ) -> tuple[ArrayRecord | None, MetricRecord | None]:
        """The mean of the models, weighted by `num-examples`."""
        valid, _ = self._check_and_log_replies(replies, is_train=True)
        contents = [message.content for message in valid]
        samples = [int(content["metrics"][self.weighted_by_key]) for content in contents]
        total = 0.0
        for content, count in zip(contents, samples, strict=True):
            total = total + count * content["arrays"].to_numpy_ndarrays()[0].astype(np.float64)
        metrics = self.train_metrics_aggr_fn(contents, self.weighted_by_key)
        return ArrayRecord([np.asarray(total / sum(samples), np.float32)]), metrics


@cache
def loaded(path: str) -> tuple[Facts, Twin, list[torch.Tensor], torch.Tensor]:
    """What an actor keeps: what it was told, the module, and every client's clips."""
    spec: Facts = json.loads(Path(path).read_text())
    features, targets = clips(spec)
    return spec, twin(spec), [torch.from_numpy(x.copy()) for x in features], torch.from_numpy(targets)


def client_app(path: str) -> ClientApp:
    """What trains a client."""
    client = ClientApp()

    @client.train()
    def learn(message: Message, context: Context) -> Message:
        spec, module, features, targets = loaded(path)
        user = int(context.node_config["partition-id"])
        put(module, message.content["arrays"].to_numpy_ndarrays()[0], spec)
        train(module, features[user], targets[user], spec["rate"], spec["clip"])
        found = {
            "arrays": ArrayRecord([taken(module, spec)]),
            "metrics": MetricRecord({"num-examples": len(targets[user])}),
        }
        return Message(RecordDict(found), reply_to=message)

    return client


def server_app(spec: Facts, diary: Diary) -> ServerApp:
    """What makes the rounds."""
    server = ServerApp()

    @server.main()
    def main(grid: Grid, _: Context) -> None:
        def close(number: int, arrays: ArrayRecord) -> None:
            if number:
                diary.close(number, arrays.to_numpy_ndarrays()[0])
            else:
                diary.begin(**{"with": f"flwr {version('flwr')}, ray {version('ray')}, torch {torch.__version__}"})

        strategy = Average(fraction_evaluate=0.0, min_available_nodes=spec["clients"])
        first = ArrayRecord([np.load(spec["weights"])])
        strategy.start(grid, first, num_rounds=spec["rounds"], evaluate_fn=close)

    return server


def play(spec: Facts, diary: Diary) -> None:
    """Make the rounds."""
    run_simulation(
        server_app(spec, diary),
        client_app(sys.argv[1]),
        spec["clients"],
        backend_config={
            "client_resources": {"num_cpus": 1, "num_gpus": 0.0},
            "init_args": {"num_cpus": len(spec["cores"]), "logging_level": "warning", "log_to_driver": False},
        },
    )


if __name__ == "__main__":
    from bench import engines_flwr  # an actor finds what it keeps by this name

    serve(engines_flwr.play)
