"""A batch that does not fit in memory is decoded in smaller ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from specdecode.decoding.request import Request
from specdecode.errors import OutOfMemoryError

# CUDA has a type of its own; the CPU allocator, the driver and cuBLAS raise plain RuntimeErrors.
_SIGNS = (
    "out of memory",
    "not enough memory",
    "can't allocate memory",
    "cannot allocate memory",
    "alloc_failed",
)


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error says that memory ran out, on whatever device."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    return isinstance(error, RuntimeError) and any(sign in str(error).lower() for sign in _SIGNS)


def decode_what_fits(
    requests: Sequence[Request],
    run: Callable[[list[Request]], None],
    on_halving: Callable[[int, int], None],
) -> list[Request]:
    """Decode requests together, or in halves, quarters, … where memory does not suffice.

    A request that was cut off begins again with the same seed. Its coins are fixed by seed, prompt
    and step, not by its batch, so it gives the reply that an undisturbed run would have given, and
    which requests are cut off selects nothing. Those that had finished are kept. (An adaptive draft
    length depends on the batch size and with it the token ids; memory runs out by the size of
    batches and caches, hardly by what was drawn. A drafter that remembers may have seen what was
    cut off; the reply is then drawn with other coins, see `drafting.base.batches_before`.)

    Args:
        requests: not yet started.
        run: decodes some requests to their ends.
        on_halving: told the size that did not fit and the one tried next.

    Returns:
        The finished requests, in the order given; `batch_size` says how each was decoded.

    Raises:
        OutOfMemoryError: a single request does not fit.
    """
    finished = list(requests)
    waiting = list(range(len(finished)))
    size = len(waiting)
    while waiting:
        rows, waiting = waiting[:size], waiting[size:]
        batch = [finished[row] for row in rows]
        for request in batch:
            request.batch_size = len(batch)
        error = _attempt(run, batch)
        if error is None:
            continue
        unfinished = [row for row in rows if finished[row].finish_reason is None]
        if len(batch) == 1 and unfinished:
            raise cannot_fit(batch[0]) from error
        on_halving(len(batch), size := len(batch) // 2)
        for row in unfinished:
            finished[row] = finished[row].restarted()
        waiting = unfinished + waiting
        release()
    return finished


def cannot_fit(request: Request) -> OutOfMemoryError:
    """The error for one request that is too large by itself."""
    length = len(request.prompt)
    return OutOfMemoryError(
        f"a single request of {length} prompt tokens and up to {request.limit} new ones does not "
        "fit in memory: lower max_tokens, shorten the prompt, take a smaller draft (or "
        "'prompt-lookup', which needs no weights), or load the target in bfloat16"
    )


def release() -> None:
    """Give cached blocks back, so that a smaller batch can have its memory in one piece."""
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def _attempt(run: Callable[[list[Request]], None], batch: list[Request]) -> Exception | None:
    try:
        run(batch)
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        # The frames of the traceback hold the tensors that filled the memory.
        return error.with_traceback(None)
    return None
