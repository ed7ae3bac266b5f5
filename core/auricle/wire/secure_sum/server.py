"""The server's part in a secure sum: it passes keys and boxes on, adds masked updates, and takes the masks off."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from auricle.errors import WireError
from auricle.wire.secure_sum.device import Keys, Revealed, Share, mask_for
from auricle.wire.secure_sum.masks import join, public_of, stream
from auricle.wire.secure_sum.quantised import Words


class ServerSum:
    """One sum, as its server sees it.

    Parameters
    ----------
    graph
        Of `neighbours`.
    threshold
        As of `DeviceSum`.
    size
        P, words of an update.
    """

    def __init__(self, graph: Mapping[str, tuple[str, ...]], threshold: int, size: int) -> None:
        self._graph, self._threshold, self._size = graph, threshold, size
        self._keys: dict[str, Keys] = {}
        self._boxes: dict[str, Mapping[str, bytes]] = {}
        self._came: set[str] = set()
        self._phase = 0
        """0: keys come, 1: shares, 2: masked updates; who is late for one takes no part."""
        self._total = np.zeros(size, np.uint32)

    def take_keys(self, name: str, keys: Keys) -> None:
        """A device's public keys; WireError: it is not in the graph, or is late."""
        if name not in self._graph or self._phase > 0:
            raise WireError(f"{name} takes no part in this secure sum.")
        self._keys[name] = keys

    def keys_for(self, name: str) -> dict[str, Keys]:
        """The keys of a device's neighbours that came; from here on no further ones are taken."""
        self._phase = max(self._phase, 1)
        return {other: self._keys[other] for other in self._graph[name] if other in self._keys}

    def take_shares(self, name: str, boxes: Mapping[str, bytes]) -> None:
        """A device's sealed shares, by neighbour; WireError: one is for somebody else."""
        if self._phase > 1 or name not in self._keys or not set(boxes) <= set(self._graph[name]):
            raise WireError(f"{name} sends shares that nobody waits for.")
        self._boxes[name] = boxes

    def shares_for(self, name: str) -> dict[str, bytes]:
        """The boxes that a device's neighbours sealed for it; from here on no further ones are taken."""
        self._phase = 2
        return {other: self._boxes[other][name] for other in self._graph[name] if name in self._boxes.get(other, {})}

    def take_masked(self, name: str, words: Words) -> None:
        """A masked update; WireError: it came twice, has another size, or its device has shared nothing."""
        if name not in self._boxes or name in self._came or words.shape != (self._size,) or words.dtype != np.uint32:
            raise WireError(f"{name} sends a masked update that does not belong into this secure sum.")
        self._came.add(name)
        self._total += words

    @property
    def came(self) -> frozenset[str]:
        """Whose masked update is in the sum."""
        return frozenset(self._came)

    @property
    def missing(self) -> frozenset[str]:
        """Who shared secrets, so that others masked with it, and sent no update."""
        return frozenset(set(self._boxes) - self._came)

    def total(self, revealed: Mapping[str, Revealed]) -> Words:
        """The sum of the updates that came, modulo 2^32.

        Parameters
        ----------
        revealed
            What devices revealed, by name: of each device's neighbours at least `threshold`.

        Raises
        ------
        WireError
            Somebody's shares are too few, or do not belong together.
        """
        total: Words = self._total.copy()
        for name in sorted(self._came):
            shares = _shares({other: said.own for other, said in revealed.items()}, name)
            total -= stream(join(shares, self._threshold), self._size)
        for name in sorted(self.missing):
            masked_with = [other for other in self._graph[name] if other in self._came and other in self._boxes[name]]
            if not masked_with:
                continue
            private = join(_shares({other: said.masks for other, said in revealed.items()}, name), self._threshold)
            if public_of(private) != self._keys[name].masks:
                raise WireError(f"The shares of {name} do not give its key.")
            for other in masked_with:
                total += mask_for(private, self._keys[other].masks, name, other, self._size)
        return total


def _shares(said: Mapping[str, Mapping[str, Share]], name: str) -> dict[int, bytes]:
    found = [shares[name] for shares in said.values() if name in shares]
    return {each.place: each.share for each in found}
