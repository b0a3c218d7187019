"""What will be measured, in which order, known before the first token.

The schedule depends on its inputs alone, so a run that was cut off resumes with the same order,
the same seeds and the same positions.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from specdecode.errors import ConfigError
from specdecode.workload.sampling import SamplingSetting, generation_seed
from specdecode.workload.split import SPLITS, seeded_hash


@dataclass(frozen=True)
class Generation:
    """One cell of the experiment: a prompt decoded once by one arm under one sampling setting."""

    prompt_id: str
    sampling: SamplingSetting
    arm: str
    seed: int
    order_index: int

    @property
    def key(self) -> tuple[str, str, str]:
        """(prompt_id, arm, sampling name), as a spool knows its rows."""
        return (self.prompt_id, self.arm, self.sampling.name)

    @property
    def request_id(self) -> str:
        """Name of the row."""
        return f"{self.prompt_id}/{self.sampling.name}/{self.arm}"


def plan_generations(
    prompt_ids: Sequence[str],
    settings: Sequence[SamplingSetting],
    arms: Sequence[str],
    *,
    master_seed: int,
    assignment: Mapping[str, Sequence[str]] | None = None,
) -> list[Generation]:
    """Lay out all generations.

    Prompt by prompt and setting by setting, the arms follow one another directly, in an order
    drawn for that prompt and setting: drift of the machine hits all arms alike, and no arm always
    comes first.

    Args:
        prompt_ids: in the order of measurement.
        settings: named sampling settings.
        arms: names of the arms.
        master_seed: source of every seed and order.
        assignment: setting names by prompt id; None gives every prompt every setting.

    Raises:
        ConfigError: nothing to measure, a name used twice, or an unknown setting name.
    """
    for label, names in (("prompt", prompt_ids), ("arm", arms)):
        if not names:
            raise ConfigError(f"measure: there is no {label}")
        if len(set(names)) < len(names):
            raise ConfigError(f"measure: a {label} occurs twice")
    known = {s.name: s for s in settings}
    generations: list[Generation] = []
    for prompt_id in prompt_ids:
        chosen = list(known) if assignment is None else assignment.get(prompt_id, ())
        for name in chosen:
            if name not in known:
                raise ConfigError(f"measure: {prompt_id} is given the unknown setting {name!r}")
            order = sorted(arms)
            shuffle = seeded_hash("arm order", master_seed, prompt_id, name)
            random.Random(shuffle).shuffle(order)  # noqa: S311 - an order, not a secret
            for arm in order:
                seed = generation_seed(master_seed, prompt_id, name, arm)
                generations.append(Generation(prompt_id, known[name], arm, seed, len(generations)))
    if not generations:
        raise ConfigError("measure: the assignment leaves nothing to measure")
    return generations


def select_prompts(table: pa.Table, split: str, limit: int | None = None) -> pa.Table:
    """Prompts of one split in their order, all of them or an even choice.

    With a limit, categories take turns (and inside a category the languages, then difficulties),
    each in its own random order, so that a small run still sees every kind of prompt.

    Args:
        table: compiled prompts.
        split: "development" or "reserve".
        limit: how many prompts at most; None for all.

    Raises:
        ConfigError: unknown split, a limit below 1, or a split without prompts.
    """
    if split not in SPLITS:
        renamed = "; 'confirmation' is called 'reserve' now" if split == "confirmation" else ""
        raise ConfigError(
            f"there is no split {split!r}; choose one of {', '.join(SPLITS)}{renamed}"
        )
    if limit is not None and limit < 1:
        raise ConfigError(f"the number of prompts must be at least 1, found {limit}")
    chosen = table.filter(pc.field("split") == split).sort_by("order_index")
    if chosen.num_rows == 0:
        raise ConfigError(f"the compiled table has no prompt in the split {split!r}")
    if limit is None or limit >= chosen.num_rows:
        return chosen
    columns = chosen.select(["category", "language", "difficulty"]).to_pylist()
    cells = [(row["category"], row["language"], row["difficulty"]) for row in columns]
    kept = sorted(_in_turns(list(range(len(cells))), cells)[:limit])
    return chosen.take(pa.array(kept, pa.int64()))


def _in_turns(
    members: Sequence[int], cells: Sequence[tuple[str, ...]], depth: int = 0
) -> list[int]:
    """Members reordered so that groups at each depth take turns, first come first served."""
    if depth == len(cells[0]):
        return list(members)
    groups: defaultdict[str, list[int]] = defaultdict(list)
    for i in members:
        groups[cells[i][depth]].append(i)
    queues = [_in_turns(group, cells, depth + 1)[::-1] for group in groups.values()]
    taken: list[int] = []
    while queues:
        taken.extend(queue.pop() for queue in queues)
        queues = [queue for queue in queues if queue]
    return taken
