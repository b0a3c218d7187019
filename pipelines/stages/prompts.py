"""Stage `prompts`: compile the prompt files into data/prompts.parquet for the target model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pipelines.stages.command import parameters, run
from specdecode.errors import ConfigError
from specdecode.workload import load_prompts
from specdecode.workload.compile import compile_prompts, load_tokenizer, write_prompts

TARGET = Path("models/target")
OUTPUT = Path("data/prompts.parquet")


def main() -> None:
    """Writes data/prompts.parquet."""
    compile_to(parameters(), TARGET, OUTPUT)


def compile_to(params: dict[str, Any], target: Path, output: Path) -> None:
    """Compiles the prompts named in the section `prompts` of the parameters.

    Raises:
        ConfigError: a key is missing.
        UserError: see `load_prompts` and `compile_prompts`.
    """
    try:
        section = params["prompts"]
        prompts = load_prompts(section["path"], first_turn_only=section["first_turn_only"])
        settings = {name: section[name] for name in _COMPILE_KEYS}
    except KeyError as error:
        raise ConfigError(f"params.yaml: prompts: the key {error} is missing") from error
    tokenizer, context_tokens = load_tokenizer(target)
    write_prompts(
        compile_prompts(prompts, tokenizer, context_tokens=context_tokens, **settings), output
    )


_COMPILE_KEYS = (
    "max_tokens",
    "split_seed",
    "order_seed",
    "near_duplicate_jaccard",
    "near_duplicate_overlap",
    "checkable_categories",
)


if __name__ == "__main__":
    run(main)
