"""A device's part in a secure sum: keys, shares of its secrets, the masked update, and what it reveals at the end."""

from __future__ import annotations

import secrets
from collections.abc import Collection, Mapping
from typing import NamedTuple

import msgspec

from auricle.errors import WireError
from auricle.wire.secure_sum.kinds import PrivateKey
from auricle.wire.secure_sum.masks import agree_key, public_of, seal, split, stream, unseal
from auricle.wire.secure_sum.quantised import Words
from auricle.wire.secure_sum.sizes import KEY_BYTES, SHARE_BYTES


class Keys(msgspec.Struct, frozen=True):
    """What a device tells all its neighbours first: two public keys."""

    boxes: bytes
    """Encrypts shares to it."""
    masks: bytes
    """Agrees on masks with it."""


class Secrets(msgspec.Struct, frozen=True):
    """What a device draws for one sum."""

    boxes: PrivateKey
    """Private key that opens what is sealed to it."""
    masks: PrivateKey
    """Private key by which it agrees on masks."""
    own: PrivateKey
    """Seed of the mask that it shares with nobody."""

    @classmethod
    def drawn(cls) -> Secrets:
        """Fresh ones."""
        return cls(*(secrets.token_bytes(KEY_BYTES) for _ in range(3)))

    @property
    def keys(self) -> Keys:
        """What its neighbours have to know."""
        return Keys(public_of(self.boxes), public_of(self.masks))


class Share(NamedTuple):
    """A neighbour's share of one of a device's secrets."""

    place: int
    share: bytes


class Revealed(msgspec.Struct, frozen=True):
    """What a device reveals when all masked updates are in."""

    own: dict[str, Share]
    """Of the seeds of the devices whose update came, by name."""
    masks: dict[str, Share]
    """Of the private keys of those whose update did not come."""


class DeviceSum:
    """One device in one sum.

    Parameters
    ----------
    name
        Its own.
    others
        Its neighbours, in the order of `neighbours`.
    threshold
        Shares that give a secret back: more than half of the neighbours, so that no two halves can be played off.
    drawn
        Its secrets, where they were drawn before its neighbours were known.

    Raises
    ------
    WireError
        The threshold is not above half of the neighbours, or above all of them.
    """

    def __init__(self, name: str, others: Collection[str], threshold: int, drawn: Secrets | None = None) -> None:
        if not len(others) // 2 < threshold <= len(others):
            raise WireError(f"{threshold} of {len(others)} neighbours is not a threshold: name more than half.")
        self._name, self._others, self._threshold = name, tuple(others), threshold
        self._secrets = drawn or Secrets.drawn()
        self._known: dict[str, Keys] = {}
        self._held: dict[str, tuple[Share, Share]] = {}
        self._revealed = False

    @property
    def keys(self) -> Keys:
        """What its neighbours have to know."""
        return self._secrets.keys

    def know(self, keys: Mapping[str, Keys]) -> None:
        """Take its neighbours' keys; WireError: these are too few."""
        self._known = {name: keys[name] for name in self._others if name in keys}
        if len(self._known) < self._threshold:
            raise WireError(f"{self._name} has {len(self._known)} neighbours in a secure sum: too few.")

    def shares(self, keys: Mapping[str, Keys]) -> dict[str, bytes]:
        """Shares of its two secrets, sealed to each neighbour that gave keys; WireError: these are too few."""
        self.know(keys)
        parts = (self._secrets.own, self._secrets.masks)
        own, masks = (split(secret, self._threshold, len(self._others)) for secret in parts)
        places = {name: place for place, name in enumerate(self._others, 1) if name in self._known}
        return {
            name: seal(self._box_key(name, self._name, name), place.to_bytes(2, "big") + own[place] + masks[place])
            for name, place in places.items()
        }

    def _box_key(self, other: str, sender: str, receiver: str) -> bytes:
        return agree_key(self._secrets.boxes, self._known[other].boxes, f"box {sender} {receiver}".encode())

    def hold(self, boxes: Mapping[str, bytes]) -> None:
        """Open its neighbours' shares; parameters and errors as of `masked`."""
        for name, box in boxes.items():
            if name not in self._known:
                raise WireError(f"{name} is not a neighbour of {self._name} in this secure sum.")
            content = unseal(self._box_key(name, name, self._name), box)
            if len(content) != 2 + 2 * SHARE_BYTES:
                raise WireError(f"The shares of {name} have {len(content)} bytes where {2 + 2 * SHARE_BYTES} are due.")
            place, first, second = (
                int.from_bytes(content[:2], "big"),
                content[2 : 2 + SHARE_BYTES],
                content[2 + SHARE_BYTES :],
            )
            self._held[name] = (Share(place, first), Share(place, second))
        if len(self._held) < self._threshold:
            raise WireError(f"{self._name} holds the shares of {len(self._held)} neighbours: too few to mask with.")

    def masked(self, words: Words, boxes: Mapping[str, bytes]) -> Words:
        """The words with all masks: x + own + sum over larger names - sum over smaller ones, modulo 2^32.

        Parameters
        ----------
        words
            (P,) of `quantise`.
        boxes
            Sealed shares by the neighbour that sent them; those who sent none are not masked with.

        Raises
        ------
        WireError
            A box was not opened, is of a stranger, or there are too few.
        """
        self.hold(boxes)
        total = words + stream(self._secrets.own, words.size)
        for name in self._held:
            total += mask_for(self._secrets.masks, self._known[name].masks, self._name, name, words.size)
        return total

    def reveal(self, came: Collection[str], missing: Collection[str]) -> Revealed:
        """Shares of the seeds of those whose update came, and of the mask keys of those whose did not; once.

        Raises
        ------
        WireError
            A device is in both: both of its secrets would uncover its update. Or this is asked a second time, or too
            few updates came.
        """
        both = set(came) & set(missing)
        if both or self._revealed:
            raise WireError(f"{self._name} reveals shares once, and never both of a device: {sorted(both)[:3]}.")
        own = {name: self._held[name][0] for name in came if name in self._held}
        if len(own) < self._threshold:
            raise WireError(f"{self._name} reveals nothing: the updates of {len(own)} neighbours came, too few.")
        self._revealed = True
        return Revealed(own, {name: self._held[name][1] for name in missing if name in self._held})


def mask_for(private: bytes, public: bytes, name: str, other: str, size: int) -> Words:
    """What `name` adds for its neighbour `other`: the same stream that the other takes off, or the other way round."""
    low, high = sorted((name, other))
    words = stream(agree_key(private, public, f"mask {low} {high}".encode()), size)
    return words if name == low else -words
