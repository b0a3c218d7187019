"""A process that records until it is killed, and says what it was promised."""

from __future__ import annotations

import random
from multiprocessing.connection import Connection
from pathlib import Path

from specdecode.rollout.spool import Spool
from tests.rollout.factories import SHADOW, asked, record


def write_forever(folder: Path, first: int, seed: int, said: Connection) -> None:
    """Rows `first`, `first` + 1, …; after each flush the next number goes to `said`.

    Every request begins; every seventh never ends, every fifth is refused, every third is a pair
    whose copy waits.
    """
    draw = random.Random(seed)  # noqa: S311 - a seed, no secret
    with Spool(folder, segment_rows=draw.choice([2, 5, 40]), sync_s=draw.choice([0.0, 0.002])) as s:
        said.send(first)
        number = first
        while True:
            for _ in range(draw.randint(1, 4)):
                s.begin(asked(number))
                if number % 7 == 0:
                    pass
                elif number % 5 == 0:
                    s.without_row("refused", record(number).request_id, "HTTP 400")
                else:
                    s.append(record(number, output_token_ids=list(range(5)), output_tokens=5))
                if number % 3 == 0:
                    s.queued(asked(number, "block", SHADOW), record(number).request_id)
                number += 1
            s.flush()
            said.send(number)
