"""The part that runs on the board: features, clips, training, the link to the fleet."""

import sys

from auricle.promised import promised

TYPE_CHECKING = False
if TYPE_CHECKING:  # without typing: the capture child imports this, which is to stay small
    from auricle_edge.fleet.agent import Agent
    from auricle_edge.fleet.agent_context import AgentSettings
    from auricle_edge.service.sample_listener import Listener

__all__ = ["Agent", "AgentSettings", "Listener"]

if sys.maxsize <= 1 << 32:  # before anything is missed that pip could not install there
    import platform

    from auricle.errors import AuricleError

    raise AuricleError(
        f"This Python is 32-bit ({platform.machine()}), for which there is no onnxruntime: use a 64-bit system, "
        "on a Raspberry Pi the 64-bit image, with a 64-bit Python."
    )

if not TYPE_CHECKING:
    __getattr__, __dir__ = promised(
        __name__,
        {
            "Agent": "auricle_edge.fleet.agent",
            "AgentSettings": "auricle_edge.fleet.agent_context",
            "Listener": "auricle_edge.service.sample_listener",
        },
    )
