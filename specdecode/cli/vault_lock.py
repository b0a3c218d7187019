"""What `specdecode vault lock` takes in, and what it checks before anything is encrypted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from specdecode.errors import ConfigError, MissingPrerequisiteError

if TYPE_CHECKING:
    from specdecode.governance.vault_page import Compared, Room
    from specdecode.workload import Prompt
    from specdecode.workload.held_out import Limits


@dataclass(frozen=True)
class ToLock:
    """Prompts to lock, and the public ones beside them.

    Attributes:
        prompts: in the order in which they will be measured.
        public: plain prompts that must not hold them.
        files: the files of `public`.
        limits: what the two may have in common.
    """

    prompts: list[Prompt]
    public: list[Prompt]
    files: list[Path]
    limits: Limits

    def compared(self) -> Compared | None:
        """The comparison, for the public page; None where nothing is public.

        Raises:
            DataValidationError: a prompt is public, or nearly so.
        """
        from specdecode.governance.subjects import file_sha256
        from specdecode.governance.vault_page import Compared
        from specdecode.workload.held_out import compare

        if not self.public:
            return None
        found = compare(self.prompts, self.public, self.limits)
        return Compared(
            files={_named(path): file_sha256(path) for path in self.files},
            prompts=found.prompts,
            largest_overlap=round(found.largest_overlap, 4),
            largest_jaccard=round(found.largest_jaccard, 4),
            overlap_limit=self.limits.overlap,
            jaccard_limit=self.limits.jaccard,
        )


def all_of(prompts: Path, order_seed: int, plain: Sequence[Path]) -> ToLock:
    """Every prompt, in an order drawn by the seed, beside the public ones in `plain`."""
    from specdecode.workload import load_prompts
    from specdecode.workload.held_out import Limits

    public = [prompt for path in plain for prompt in load_prompts(path)]
    return ToLock(_ordered(load_prompts(prompts), order_seed), public, _files(plain), Limits())


def reserve_of(prompts: Path, params: Path, plain: Sequence[Path]) -> ToLock:
    """The half that these parameters keep out of development runs, in their order.

    The other half is public. Near-duplicates share a half, and what the parameters call one sets
    the limits.
    """
    from specdecode.governance.yaml_file import read_yaml
    from specdecode.workload import load_prompts
    from specdecode.workload.held_out import Limits
    from specdecode.workload.split import RESERVE, assign_splits

    document = read_yaml(params, "parameters")
    try:
        section = document["prompts"]  # type: ignore[index]  # told below
        found = load_prompts(prompts, first_turn_only=section["first_turn_only"])
        limits = Limits(section["near_duplicate_jaccard"], section["near_duplicate_overlap"])
        half = assign_splits(
            found,
            seed=section["split_seed"],
            jaccard=limits.jaccard,
            overlap=limits.overlap,
        )
        seed = int(section["order_seed"])
    except (KeyError, TypeError) as error:
        raise ConfigError(f"{params}: prompts: not the parameters of a run ({error!r})") from error
    reserve = [prompt for prompt in found if half[prompt.prompt_id] == RESERVE]
    public = [prompt for prompt in found if half[prompt.prompt_id] != RESERVE]
    public += [prompt for path in plain for prompt in load_prompts(path)]
    return ToLock(_ordered(reserve, seed), public, _files([prompts, *plain]), limits)


def room(prompts: Sequence[Prompt], target: Path, reply_tokens: int) -> Room:
    """That every prompt fits the target's context, its reply included.

    Raises:
        PromptTooLongError: one does not.
        ModelNotFoundError: `target` holds no tokenizer.
    """
    from specdecode.governance.vault_page import Room
    from specdecode.models.fingerprint import tokenizer_sha256
    from specdecode.workload.compile import load_tokenizer
    from specdecode.workload.held_out import longest

    tokenizer, context_tokens = load_tokenizer(target)
    return Room(
        context_tokens=context_tokens,
        reply_tokens=reply_tokens,
        longest_prompt_tokens=longest(prompts, tokenizer, context_tokens, reply_tokens),
        tokenizer_sha256=tokenizer_sha256(target),
    )


def refuse_keys_beside(keys: Sequence[Path], out: Path) -> None:
    """A key that is committed with its vault holds nothing back.

    Raises:
        ConfigError: a key lies in the repository that the vault goes to.
    """
    from specdecode.cli.plan_seal import repository

    there = next(folder for folder in out.absolute().parents if folder.is_dir())
    try:
        root = repository(there / "vault")
    except (ConfigError, MissingPrerequisiteError):
        return  # no repository, so nothing that would be pushed or cloned
    for path in keys:
        if path.resolve().is_relative_to(root.resolve()):
            raise ConfigError(
                f"{path}: lies in the repository of the vault, so whoever clones one has both. "
                "Move the key out, or lock with --demonstration if the set shall be open to all"
            )


def _ordered(prompts: list[Prompt], seed: int) -> list[Prompt]:
    from specdecode.workload.split import seeded_hash

    return sorted(
        prompts, key=lambda prompt: (seeded_hash(seed, prompt.prompt_id), prompt.prompt_id)
    )


def _files(paths: Sequence[Path]) -> list[Path]:
    return [file for path in paths for file in (sorted(path.rglob("*.jsonl")) or [path])]


def _named(path: Path) -> str:
    """Relative to the working folder where that can be said."""
    try:
        return path.resolve().relative_to(Path.cwd().resolve()).as_posix()
    except ValueError:
        return path.as_posix()
