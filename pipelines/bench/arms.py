"""What is compared: this engine in any setting, and transformers' own decoding."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, Protocol

import torch

from specdecode import Engine, SamplingParams
from specdecode.errors import EngineError
from specdecode.models import LoadedModel


@dataclass(frozen=True)
class Outcome:
    """One reply of one arm.

    Attributes:
        tokens: output tokens.
        seconds: from the call to the last token, prompt included.
        decoding_s: from the first token to the last; None where the arm does not tell.
        steps: verify steps; None where the arm does not tell.
        drafted: draft tokens proposed; likewise.
        accepted: draft tokens kept; likewise.
    """

    tokens: int
    seconds: float
    decoding_s: float | None = None
    steps: int | None = None
    drafted: int | None = None
    accepted: int | None = None


class Arm(Protocol):
    """Something that decodes a prompt."""

    name: str

    def run(self, prompt: list[int], tokens: int, temperature: float, seed: int) -> Outcome:
        """Decode exactly `tokens` tokens, whatever they are."""
        ...


class EngineArm:
    """This engine.

    Args:
        name: of the arm.
        engine: in the setting to measure.
    """

    def __init__(self, name: str, engine: Engine) -> None:
        self.name, self.engine = name, engine

    def run(self, prompt: list[int], tokens: int, temperature: float, seed: int) -> Outcome:
        """See `Arm.run`.

        Raises:
            EngineError: the drafter failed, so that the time is that of plain decoding.
        """
        params = SamplingParams(
            max_tokens=tokens, temperature=temperature, seed=seed, ignore_eos=True
        )
        started = time.perf_counter()
        result = self.engine.generate([prompt], params)[0]
        seconds = time.perf_counter() - started
        if result.draft_failure is not None:
            raise EngineError(f"arm '{self.name}': the drafter failed ({result.draft_failure})")
        acceptance = result.acceptance
        return Outcome(
            tokens=len(result.token_ids),
            seconds=seconds,
            decoding_s=result.timing.e2e_s - result.timing.ttft_s,
            steps=acceptance.steps,
            drafted=acceptance.drafted,
            accepted=acceptance.accepted,
        )


class TransformersArm:
    """`generate` of transformers, assisted where a draft model is given.

    Args:
        name: of the arm.
        target: the same weights and precision as this engine's.
        draft: assistant; None for plain decoding.
        gamma: draft tokens a step, held constant, with transformers' confidence stop off.
    """

    def __init__(
        self, name: str, target: LoadedModel, draft: LoadedModel | None = None, gamma: int = 0
    ) -> None:
        self.name, self._target, self._draft = name, target, draft
        if draft is not None:
            settings = draft.module.generation_config
            settings.num_assistant_tokens = gamma
            settings.num_assistant_tokens_schedule = "constant"
            settings.assistant_confidence_threshold = 0.0

    def run(self, prompt: list[int], tokens: int, temperature: float, seed: int) -> Outcome:
        """See `Arm.run`."""
        from transformers import GenerationConfig

        sampling: dict[str, Any] = {"do_sample": False}
        if temperature > 0:
            sampling = {"do_sample": True, "temperature": temperature, "top_k": 0, "top_p": 1.0}
        config = GenerationConfig(
            max_new_tokens=tokens, eos_token_id=None, pad_token_id=0, **sampling
        )
        assistant = {} if self._draft is None else {"assistant_model": self._draft.module}
        ids = torch.tensor([prompt], device=self._target.device)
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            started = time.perf_counter()
            output = self._target.module.generate(
                ids, attention_mask=torch.ones_like(ids), generation_config=config, **assistant
            )
            seconds = time.perf_counter() - started
        return Outcome(tokens=int(output.shape[1]) - len(prompt), seconds=seconds)
