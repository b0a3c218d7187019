"""A key/value cache with one slot per position, so that rolling back costs nothing.

Row b of the batch keeps the state of its token at position s in slot s. Tokens that verification
rejects stay where they are, are masked because they lie beyond the row's length, and are
overwritten when the position is decoded again. The caller keeps the lengths; nothing is copied.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from specdecode.errors import ConfigError

_PIECE = 256  # slots

# Per layer, keys and values of one row: `[length, heads, D]` each.
RowState = dict[int, tuple[Tensor, Tensor]]


class KVCache:
    """Keys and values of every layer, `[B, S, heads, D]` each.

    Rows come (`add_rows`) and go (`keep_rows`). The storage keeps the room of rows that left for
    those that come next, so that it is copied only when it has to grow.

    Args:
        batch: rows B.
        capacity: slots S a row has; positions at or beyond it are refused.
    """

    def __init__(self, batch: int, capacity: int) -> None:
        self.batch, self.capacity = batch, capacity
        self._layers: dict[int, tuple[Tensor, Tensor]] = {}
        self._into: tuple[slice, slice] | Tensor = (slice(0, 0), slice(0, 0))
        self._flat: dict[int, Tensor] = {}  # `_into` in a layer of so many slots, rows in one
        self._seen = (slice(0, 0), slice(0, 0))
        self._used = 0  # no row has state at or beyond this slot

    @property
    def bytes_held(self) -> int:
        """Memory of the keys and values, the room of rows that left included."""
        return sum(stored.nbytes for pair in self._layers.values() for stored in pair)

    def aim(self, starts: list[int], width: int, device: torch.device) -> Tensor | None:
        """Choose where the next `write` of every layer goes.

        Args:
            starts: position of each row's first new token, length B.
            width: new tokens T per row.
            device: where the mask is needed.

        Returns:
            Boolean mask `[B, T, S']` of the slots each new token may look at (S' = slots in use),
            or None where every new token may look at all of them.

        Raises:
            ConfigError: a position lies beyond the capacity.
        """
        end = max(starts) + width
        if end > self.capacity:
            raise ConfigError(
                f"the cache has {self.capacity} slots, position {end - 1} does not fit: "
                "shorten the prompt or max_tokens"
            )
        self._used = max(self._used, end)
        self._seen = (slice(0, self.batch), slice(0, end))
        position = torch.tensor(starts, device=device)[:, None] + torch.arange(width, device=device)
        if len(set(starts)) == 1:  # one contiguous stretch: a plain slice is the fastest write
            self._into = (slice(0, self.batch), slice(starts[0], end))
            if width == 1:
                return None
        else:
            self._into, self._flat = position, {}
        return torch.arange(end, device=device) <= position[:, :, None]

    def write(self, layer: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Store a layer's new keys and values `[B, T, heads, D]`; return those of all S' slots."""
        if layer not in self._layers:
            self._layers[layer] = (self._empty(keys), self._empty(values))
        stored_keys, stored_values = self._layers[layer]
        self._put(stored_keys, keys)
        self._put(stored_values, values)
        return stored_keys[self._seen], stored_values[self._seen]

    def _put(self, stored: Tensor, new: Tensor) -> None:
        if isinstance(self._into, tuple):
            stored[self._into] = new
            return
        slots = stored.shape[1]
        if slots not in self._flat:
            first = torch.arange(self.batch, device=stored.device)[:, None] * slots
            self._flat[slots] = (first + self._into).flatten()
        stored.flatten(0, 1).index_copy_(0, self._flat[slots], new.flatten(0, 1))

    def keep_rows(self, rows: list[int]) -> None:
        """Go on with these rows, in this order; a row may be named more than once.

        Rows that stay where they are cost nothing.
        """
        if all(old >= new for new, old in enumerate(rows)):  # none overwritten before it moves
            self._move_up(rows)
        else:
            index = torch.tensor(rows)
            self._layers = {
                layer: (keys[index.to(keys.device)], values[index.to(values.device)])
                for layer, (keys, values) in self._layers.items()
            }
        self.batch = len(rows)

    def add_rows(self, other: KVCache, capacity: int) -> None:
        """Take over the rows of another cache, behind those that are there.

        If memory runs out, this cache is still what it was.

        Args:
            other: of the same network. Whatever stands in its rows beyond `capacity` is padding.
                One that was never written gives rows without state.
            capacity: slots a row has from now on, if more than before.
        """
        rows, capacity = self.batch + other.batch, max(self.capacity, capacity)
        for layer in other._layers | self._layers:
            for_keys, for_values = self._layers.get(layer) or other._layers[layer]
            self._layers[layer] = (
                self._grown(for_keys, layer in self._layers, rows, capacity),
                self._grown(for_values, layer in self._layers, rows, capacity),
            )
        taken = min(other._used, capacity)
        with torch.inference_mode():  # networks write here in that mode, so everyone has to
            for layer, pair in self._layers.items():
                for part, mine in enumerate(pair):
                    if layer in other._layers:
                        theirs = other._layers[layer][part]
                        mine[self.batch : rows, :taken] = theirs[: other.batch, :taken]
                    mine[self.batch : rows, taken:] = 0  # what stood there might not be finite
        self.batch, self.capacity = rows, capacity
        self._used = max(self._used, taken)

    def copy_row(self, row: int, length: int) -> RowState:
        """The state of a row's first `length` tokens, to be put back with `set_row`."""
        return {
            layer: (keys[row, :length].clone(), values[row, :length].clone())
            for layer, (keys, values) in self._layers.items()
        }

    def set_row(self, row: int, state: RowState) -> None:
        """Start a row from a state that `copy_row` took."""
        for layer, (keys, values) in state.items():
            if layer not in self._layers:
                self._layers[layer] = (self._empty(keys[None]), self._empty(values[None]))
            self._layers[layer][0][row, : len(keys)] = keys
            self._layers[layer][1][row, : len(values)] = values
            self._used = max(self._used, len(keys))

    def _move_up(self, rows: list[int]) -> None:
        moved = [(new, old) for new, old in enumerate(rows) if new != old]
        with torch.inference_mode():
            for pair in self._layers.values():
                for stored in pair:
                    for new, old in moved:
                        stored[new, : self._used] = stored[old, : self._used]

    def _grown(self, stored: Tensor, is_mine: bool, rows: int, capacity: int) -> Tensor:
        """Storage with room for so many rows and slots, and what this cache holds."""
        held = self.batch if is_mine else 0
        if is_mine and stored.shape[0] >= rows and stored.shape[1] >= capacity:
            return stored
        # Slots grow in large pieces: requests of ever so slightly different lengths keep coming.
        slots = -(-capacity // _PIECE) * _PIECE
        if is_mine:
            rows, slots = max(rows, stored.shape[0]), max(slots, stored.shape[1])
        larger = torch.zeros(
            (rows, slots, *stored.shape[2:]), dtype=stored.dtype, device=stored.device
        )
        larger[:held, : self._used] = stored[:held, : self._used]
        return larger

    def _empty(self, like: Tensor) -> Tensor:
        # Zeros, not empty: a masked slot is multiplied by weight 0, and 0 * NaN is NaN.
        shape = (self.batch, self.capacity, *like.shape[2:])
        return torch.zeros(shape, dtype=like.dtype, device=like.device)


class CacheRows(KVCache):
    """Some rows of a cache, as a cache of its own: what is written stands in the whole one.

    Good until rows of the whole one come or go.

    Args:
        whole: the cache.
        rows: which of its rows, in the order wanted; each once.
    """

    def __init__(self, whole: KVCache, rows: Sequence[int]) -> None:
        super().__init__(len(rows), whole.capacity)
        self._whole, self._rows = whole, list(rows)
        first = self._rows[0]
        following = self._rows == list(range(first, first + len(rows)))
        # Neighbours can be looked at where they are; others have to be copied for it.
        self._stretch = slice(first, first + len(rows)) if following else None

    @property
    def bytes_held(self) -> int:
        """None of its own."""
        return 0

    def aim(self, starts: list[int], width: int, device: torch.device) -> Tensor | None:
        """See `KVCache.aim`."""
        mask = super().aim(starts, width, device)
        self._whole._used = max(self._whole._used, self._used)
        return mask

    def write(self, layer: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """See `KVCache.write`."""
        layers = self._whole._layers
        if layer not in layers:
            layers[layer] = (self._whole._empty(keys), self._whole._empty(values))
        stored_keys, stored_values = layers[layer]
        return self._exchange(stored_keys, keys), self._exchange(stored_values, values)

    def _exchange(self, stored: Tensor, new: Tensor) -> Tensor:
        """Put in what is new, and give all that is there."""
        places, end = self._into, self._seen[1]
        if isinstance(places, tuple):
            if self._stretch is not None:
                stored[self._stretch, places[1]] = new
            else:
                for row, each in zip(self._rows, new, strict=True):
                    stored[row, places[1]] = each
        else:
            rows = torch.tensor(self._rows, device=stored.device)
            stored[rows[:, None], places] = new
        return stored[self._rows if self._stretch is None else self._stretch, end]


class TransformersCache:
    """The face of a `KVCache` that transformers' attention modules write to."""

    is_compileable = False

    def __init__(self, cache: KVCache) -> None:
        self._cache = cache

    def update(
        self, keys: Tensor, values: Tensor, layer_idx: int, *_args: Any, **_kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        """Store `[B, heads, T, D]` and return all in use in the same layout."""
        stored = self._cache.write(layer_idx, keys.transpose(1, 2), values.transpose(1, 2))
        return stored[0].transpose(1, 2), stored[1].transpose(1, 2)

    def get_seq_length(self, _layer_idx: int = 0) -> int:
        """Slots in use before this forward; positions are passed explicitly, so 0 is safe."""
        return 0
