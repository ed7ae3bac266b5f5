"""The job that NVFlare runs: each client adds `STEP` to its own quarter of the weights. Copied into a job's folder."""

from __future__ import annotations

import json
import time
from pathlib import Path

from nvflare.apis.dxo import DXO, DataKind, MetaKey, from_shareable
from nvflare.apis.event_type import EventType
from nvflare.apis.executor import Executor
from nvflare.apis.fl_component import FLComponent
from nvflare.apis.fl_context import FLContext
from nvflare.apis.shareable import Shareable
from nvflare.apis.signal import Signal
from nvflare.app_common.app_constant import AppConstants
from nvflare.app_common.app_event_type import AppEventType
from reliability_task import attack_of, quarters, trained, wait_while_held

KEY = "numpy_key"


class OneQuarter(Executor):
    """Trains: waits while the bench holds it, then adds.

    Parameters
    ----------
    folder
        Of the bench, in which it holds clients.
    """

    def __init__(self, folder: str) -> None:
        super().__init__()
        self._folder = Path(folder)

    def execute(self, task_name: str, shareable: Shareable, fl_ctx: FLContext, abort_signal: Signal) -> Shareable:
        """Answer a task of training."""
        number = int(fl_ctx.get_identity_name().rpartition("-")[2])
        wait_while_held(self._folder, number, lambda: bool(abort_signal.triggered))
        weights = from_shareable(shareable).data[KEY]
        made = {KEY: trained(weights, number, attack_of(self._folder))}
        return DXO(DataKind.WEIGHTS, data=made, meta={MetaKey.NUM_STEPS_CURRENT_ROUND: 1}).to_shareable()


class RoundLog(FLComponent):
    """Writes a line for every update that the server accepted and for every model that it made.

    Parameters
    ----------
    path
        The file.
    """

    def __init__(self, path: str) -> None:
        super().__init__()
        self._path = Path(path)

    def handle_event(self, event_type: str, fl_ctx: FLContext) -> None:
        """Look whether there is something to write."""
        if event_type == AppEventType.AFTER_CONTRIBUTION_ACCEPT and fl_ctx.get_prop(AppConstants.AGGREGATION_ACCEPTED):
            self._write({"accepted": fl_ctx.get_prop(AppConstants.CURRENT_ROUND)})
        elif event_type in (AppEventType.INITIAL_MODEL_LOADED, AppEventType.AFTER_LEARNABLE_PERSIST):
            model = fl_ctx.get_prop(AppConstants.GLOBAL_MODEL)["weights"][KEY]
            at = 0.0 if event_type == AppEventType.INITIAL_MODEL_LOADED else time.time()
            self._write({"at": at, "quarters": quarters(model)})
        elif event_type == EventType.END_RUN:
            self._write({"ended": True})

    def _write(self, said: dict[str, object]) -> None:
        with self._path.open("a") as file:
            print(json.dumps(said), file=file, flush=True)
