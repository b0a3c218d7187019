"""From prompts to one table: tokenised, split, ordered, and with every property a check needs.

The table is what the checks judge and what `measure` decodes, so both see the same tokens.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from specdecode.durable import written_whole
from specdecode.errors import ConfigError, ModelNotFoundError, PromptFileError, PromptTooLongError
from specdecode.workload.checkers import check
from specdecode.workload.personal_data import personal_data
from specdecode.workload.prompts import Prompt
from specdecode.workload.similarity import clusters, ngrams_of, shared_ngrams
from specdecode.workload.split import SPLITS, assign_splits, seeded_hash
from specdecode.workload.text import normalised, sha256

_FIELDS: list[pa.Field[Any]] = [
    pa.field("prompt_id", pa.string(), nullable=False),
    pa.field("split", pa.string(), nullable=False),
    pa.field("order_index", pa.int32(), nullable=False),
    pa.field("category", pa.string(), nullable=False),
    pa.field("difficulty", pa.string(), nullable=False),
    pa.field("language", pa.string(), nullable=False),
    pa.field("system", pa.string()),
    pa.field("turns", pa.list_(pa.string()), nullable=False),
    pa.field("reference", pa.list_(pa.string())),
    pa.field("checker", pa.string()),
    pa.field("checker_type", pa.string()),
    pa.field("checker_declared", pa.bool_(), nullable=False),
    pa.field("checker_present", pa.bool_(), nullable=False),
    pa.field("reference_score", pa.float64()),
    pa.field("prompt_token_ids", pa.list_(pa.int32()), nullable=False),
    pa.field("prompt_tokens", pa.int32(), nullable=False),
    pa.field("sha256_text", pa.string(), nullable=False),
    pa.field("sha256_norm", pa.string(), nullable=False),
    pa.field("cluster", pa.string(), nullable=False),
    pa.field("leak_exact", pa.int32(), nullable=False),
    pa.field("leak_overlap", pa.float64()),
    pa.field("pii_hits", pa.list_(pa.string()), nullable=False),
]
PROMPTS_SCHEMA: pa.Schema = pa.schema(
    _FIELDS, metadata={"specdecode.schema": "specdecode.prompts/1"}
)
"""Columns of the compiled table.

Null means: `system`, the chat template's default; `reference`, no single good answer; `checker`,
a program cannot check; `reference_score`, reference or checker absent; `leak_overlap`, fewer than
13 words. `leak_exact` counts prompts of the other split with the same normalised text;
`leak_overlap` is the largest share of this prompt's word 13-grams found in one of them.
`checker_declared` says that the category promises a checker.
"""


class ChatTokenizer(Protocol):
    """The part of a Hugging Face tokenizer used here."""

    @property
    def chat_template(self) -> object:
        """The template, or None for a base model."""

    def apply_chat_template(self, conversation: Any, **options: Any) -> Any:
        """Render messages to text."""

    def __call__(self, text: str, **options: Any) -> Any:
        """Encode text."""


class ContextTokenizer(NamedTuple):
    """A tokenizer and the number of tokens its model can attend to."""

    tokenizer: ChatTokenizer
    context_tokens: int


def load_tokenizer(model_folder: Path | str) -> ContextTokenizer:
    """Tokenizer, chat template and context length of a Hugging Face model folder; no weights.

    Raises:
        ModelNotFoundError: the folder or its config.json is missing or does not tell the context.
    """
    folder = Path(model_folder)
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        context = config["max_position_embeddings"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ModelNotFoundError(
            f"{folder}: no readable config.json with max_position_embeddings ({error!r}); "
            "make the target model first"
        ) from error
    from transformers import AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(str(folder), local_files_only=True)
    except (OSError, ValueError) as error:
        raise ModelNotFoundError(f"{folder}: its tokenizer cannot be loaded: {error}") from error
    return ContextTokenizer(tokenizer, int(context))


def encode(prompt: Prompt, tokenizer: ChatTokenizer) -> list[int]:
    """Token ids as the model sees them: chat template with the assistant's turn opened.

    A base model without a chat template gets the plain text and its tokenizer's special tokens.
    """
    if not tokenizer.chat_template:
        return list(tokenizer(prompt.text)["input_ids"])
    rendered = tokenizer.apply_chat_template(
        prompt.messages, tokenize=False, add_generation_prompt=True
    )
    return list(tokenizer(rendered, add_special_tokens=False)["input_ids"])


def compile_prompts(
    prompts: Sequence[Prompt],
    tokenizer: ChatTokenizer,
    *,
    context_tokens: int,
    max_tokens: int,
    split_seed: int,
    order_seed: int,
    near_duplicate_jaccard: float = 0.7,
    near_duplicate_overlap: float = 0.5,
    checkable_categories: Collection[str] = (),
) -> pa.Table:
    """Tokenise, split and order prompts.

    Args:
        prompts: the whole set.
        tokenizer: of the target model.
        context_tokens: the target's context window.
        max_tokens: the longest reply that will be asked for.
        split_seed: chooses the halves.
        order_seed: chooses the order within each half.
        near_duplicate_jaccard: prompts this alike share a half (see `similarity.clusters`).
        near_duplicate_overlap: so do prompts with this share of 13-grams in common.
        checkable_categories: categories in which every prompt must have a checker.

    Returns:
        A table with `PROMPTS_SCHEMA`, sorted by split and order_index; independent of input order.

    Raises:
        PromptTooLongError: prompts that leave no room for `max_tokens`, named by id.
        ConfigError: a setting is out of range, or a checkable category has no prompt.
    """
    if max_tokens < 1:
        raise ConfigError(f"prompts: max_tokens must be at least 1, found {max_tokens}")
    unknown = sorted(set(checkable_categories) - {p.category for p in prompts})
    if unknown:
        raise ConfigError(f"prompts: checkable_categories without any prompt: {', '.join(unknown)}")
    prompts = sorted(prompts, key=lambda p: p.prompt_id)
    token_ids = {p.prompt_id: encode(p, tokenizer) for p in prompts}
    refuse_too_long(token_ids, context_tokens, max_tokens)

    texts = {p.prompt_id: p.text for p in prompts}
    near = {"jaccard": near_duplicate_jaccard, "overlap": near_duplicate_overlap}
    split = assign_splits(prompts, seed=split_seed, **near)
    cluster = clusters(texts, **near)
    norm = {name: sha256(normalised(text)) for name, text in texts.items()}
    exact, overlap = leaks(texts, norm, split)
    order = _order(split, order_seed)
    rows = [
        {
            "prompt_id": p.prompt_id,
            "split": split[p.prompt_id],
            "order_index": order[p.prompt_id],
            "category": p.category,
            "difficulty": p.difficulty,
            "language": p.language,
            "system": p.system,
            "turns": list(p.turns),
            "reference": None if p.reference is None else list(p.reference),
            "checker": p.checker and p.checker.model_dump_json(by_alias=True),
            "checker_type": p.checker and p.checker.type,
            "checker_declared": p.category in checkable_categories,
            "checker_present": p.checker is not None,
            "reference_score": reference_score(p),
            "prompt_token_ids": token_ids[p.prompt_id],
            "prompt_tokens": len(token_ids[p.prompt_id]),
            "sha256_text": sha256(p.text),
            "sha256_norm": norm[p.prompt_id],
            "cluster": cluster[p.prompt_id],
            "leak_exact": exact[p.prompt_id],
            "leak_overlap": overlap[p.prompt_id],
            "pii_hits": personal_data(p.text),
        }
        for p in prompts
    ]
    rows.sort(key=lambda row: (SPLITS.index(str(row["split"])), row["order_index"]))
    return pa.Table.from_pylist(rows, schema=PROMPTS_SCHEMA)


def reference_score(prompt: Prompt) -> float | None:
    """Lowest score of the prompt's references under its checker; None without either.

    A checker that refuses a reference answer measures its own mistake, not the model's.
    """
    if prompt.checker is None or prompt.reference is None:
        return None
    return min(check(prompt, answer) or 0.0 for answer in prompt.reference)


def leaks(
    texts: Mapping[str, str], norm: Mapping[str, str], split: Mapping[str, str]
) -> tuple[dict[str, int], dict[str, float | None]]:
    """What each prompt shares with the other split.

    Returns:
        Number of prompts there with the same normalised text, and the largest share of the
        prompt's own word 13-grams found in one of them (None below 13 words).
    """
    by_hash: defaultdict[tuple[str, str], int] = defaultdict(int)
    for name in texts:
        by_hash[norm[name], split[name]] += 1
    exact = {
        name: sum(by_hash[norm[name], other] for other in SPLITS if other != split[name])
        for name in texts
    }
    ngrams = ngrams_of(texts)
    overlap: dict[str, float | None] = {name: 0.0 if ngrams[name] else None for name in texts}
    for (a, b), common in shared_ngrams(ngrams).items():
        if split[a] != split[b]:
            for name in (a, b):
                overlap[name] = max(overlap[name] or 0.0, common / len(ngrams[name]))
    return exact, overlap


def refuse_too_long(
    token_ids: Mapping[str, list[int]], context_tokens: int, max_tokens: int
) -> None:
    """Demand room for a reply behind every prompt.

    Args:
        token_ids: by prompt id, chat template included.
        context_tokens: the target's context window.
        max_tokens: the longest reply that will be asked for.

    Raises:
        PromptTooLongError: names the prompts that leave less room.
    """
    room = context_tokens - max_tokens
    long = [name for name, ids in token_ids.items() if len(ids) > room]
    if long:
        shown = ", ".join(f"{name} ({len(token_ids[name])})" for name in long[:10])
        shown += f" and {len(long) - 10} more" if len(long) > 10 else ""
        raise PromptTooLongError(
            f"{len(long)} prompts exceed {room} tokens (context {context_tokens} minus max_tokens "
            f"{max_tokens}): {shown}; shorten them, lower max_tokens or use a longer context"
        )


def _order(split: Mapping[str, str], seed: int) -> dict[str, int]:
    order: dict[str, int] = {}
    for half in SPLITS:
        members = [name for name in split if split[name] == half]
        members.sort(key=lambda name: (seeded_hash(seed, name), name))
        order.update({name: i for i, name in enumerate(members)})
    return order


def write_prompts(table: pa.Table, path: Path | str) -> None:
    """Write the compiled table; the same prompts and settings give the same bytes."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with written_whole(path) as file:
        pq.write_table(table, file, compression="zstd")


def read_prompts(path: Path | str) -> pa.Table:
    """Read a compiled table.

    Raises:
        PromptFileError: missing, not parquet, or not the columns of `PROMPTS_SCHEMA`.
    """
    try:
        table = pq.read_table(path)
    except FileNotFoundError as error:
        problem = "there is no compiled prompt table; run the prompts stage first"
        raise PromptFileError(path, None, None, problem) from error
    except (pa.ArrowException, OSError) as error:
        raise PromptFileError(path, None, None, f"cannot be read as parquet: {error}") from error
    for field in PROMPTS_SCHEMA:
        if field.name not in table.column_names:
            problem = "column is missing; run the prompts stage again"
            raise PromptFileError(path, None, field.name, problem)
        if table.schema.field(field.name).type != field.type:
            problem = f"is {table.schema.field(field.name).type}, expected {field.type}"
            raise PromptFileError(path, None, field.name, problem)
    return table
