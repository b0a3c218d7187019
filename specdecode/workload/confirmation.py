"""Decode confirmation prompts, which come one at a time and as JSON, by every arm.

Seeds and the order of arms are those `measure` would give the same prompt: they hang on the master
seed and the prompt's name, not on what was decoded before.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pydantic import ValidationError

from specdecode.errors import ConfigError, EngineError
from specdecode.measurement.records import Record
from specdecode.workload.compile import ChatTokenizer, encode
from specdecode.workload.offline import Generator, failed_record, generate_record, warm_up
from specdecode.workload.prompts import Prompt
from specdecode.workload.sampling import SamplingSetting
from specdecode.workload.schedule import Generation, plan_generations

STAGE = "confirmation"
WARM_UP_TEXT = "Hello."
"""Not a prompt of the set: none may be decoded before it is on record."""


class ConfirmationRun:
    """Every arm, ready to decode.

    Args:
        engines: arm name to engine.
        settings: named sampling settings; every prompt gets each.
        tokenizer: of the target.
        context_tokens: the target's context window.
        master_seed: source of all seeds and orders.
        manifest_sha256: names the inputs under which the rows are measured.
        profile: size of the run, such as "full".

    Raises:
        ConfigError: there is no arm or no setting, or a name occurs twice.
    """

    def __init__(
        self,
        engines: Mapping[str, Generator],
        settings: Sequence[SamplingSetting],
        tokenizer: ChatTokenizer,
        context_tokens: int,
        *,
        master_seed: int,
        manifest_sha256: str,
        profile: str,
    ) -> None:
        self._engines, self._settings = engines, settings
        self._tokenizer, self._context_tokens = tokenizer, context_tokens
        self._seed = master_seed
        self._fields = {"stage": STAGE, "profile": profile, "manifest_sha256": manifest_sha256}
        plan_generations(["check"], settings, list(engines), master_seed=master_seed)

    def warm_up(self) -> None:
        """One short generation per arm and setting, of a text that is no prompt of the set.

        Raises:
            EngineError: an arm cannot decode; with it the set would be consumed for nothing.
        """
        text = Prompt(question_id="warm-up", category="none", turns=(WARM_UP_TEXT,))
        failed = warm_up(self._engines, encode(text, self._tokenizer), self._settings)
        if failed:
            raise EngineError(
                "not all arms can decode, so nothing was opened: "
                + "; ".join(f"{arm}: {why}" for arm, why in failed.items())
            )

    def rows(self, index: int, document: Mapping[str, Any]) -> Iterator[Record]:
        """Decode one prompt by every arm under every setting; each row is given at once.

        A prompt that leaves no room for its reply gives failed rows, as every other failure does.

        Args:
            index: place of the prompt in the sealed order, from 0.
            document: the prompt.

        Raises:
            ConfigError: it is none; `specdecode vault lock` lets no such object in.
        """
        prompt, row = self._row(document)
        longest = max(setting.params.max_tokens for setting in self._settings)
        room = self._context_tokens - longest
        if row["prompt_tokens"] > room:
            yield from self.failed_rows(
                index,
                document,
                f"PromptTooLongError: {row['prompt_tokens']} tokens leave no room for a reply "
                f"(at most {room})",
            )
            return
        for generation in self._generations(index, prompt):
            engine = self._engines[generation.arm]
            yield generate_record(generation, row, engine, prompt.checker, self._fields)

    def failed_rows(self, index: int, document: Mapping[str, Any], error: str) -> Iterator[Record]:
        """The rows `rows` gives, had every generation failed with that error."""
        prompt, row = self._row(document)
        for generation in self._generations(index, prompt):
            yield failed_record(generation, row, self._fields, error)

    def _generations(self, index: int, prompt: Prompt) -> list[Generation]:
        own = plan_generations(
            [prompt.prompt_id], self._settings, list(self._engines), master_seed=self._seed
        )
        return [replace(g, order_index=index * len(own) + g.order_index) for g in own]

    def _row(self, document: Mapping[str, Any]) -> tuple[Prompt, dict[str, Any]]:
        try:
            prompt = Prompt.model_validate(document)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            field = ".".join(str(part) for part in first["loc"])
            raise ConfigError(f"not a prompt: {field}: {first['msg']}") from error
        ids = encode(prompt, self._tokenizer)
        return prompt, {
            "category": prompt.category,
            "difficulty": prompt.difficulty,
            "language": prompt.language,
            "prompt_tokens": len(ids),
            "prompt_token_ids": ids,
        }
