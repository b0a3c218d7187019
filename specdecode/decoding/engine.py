"""The engine: a target, a drafter and a verification rule behind one call."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from specdecode.decoding.calibration import measure_costs
from specdecode.decoding.clock import now
from specdecode.decoding.costs import CostTable, StepCosts
from specdecode.decoding.faults import GuardedDrafter
from specdecode.decoding.intake import make_requests
from specdecode.decoding.lengths import Lengths, MakeLength
from specdecode.decoding.loop import Batch, decode
from specdecode.decoding.memory import cannot_fit, decode_what_fits, is_out_of_memory
from specdecode.decoding.modification import CarriedModifications, refuse_silent_drafter
from specdecode.decoding.params import SamplingParams
from specdecode.decoding.prompts import Prompt
from specdecode.decoding.request import Request
from specdecode.decoding.result import GenerationResult, finished
from specdecode.decoding.running import RunningBatch, taken_over
from specdecode.decoding.settings import ADAPTIVE, GREEDY_BLOCK, most_speculative_tokens
from specdecode.drafting import Drafter, make_drafter
from specdecode.errors import ConfigError
from specdecode.models import LoadedModel, load_model
from specdecode.verification import RULES

log = logging.getLogger("specdecode.decoding")


@dataclass(frozen=True)
class StepEvent:
    """What one step added to a streamed reply.

    Attributes:
        token_ids: the new tokens; several at once when a draft was accepted.
        result: the whole result, with the last event only.
    """

    token_ids: tuple[int, ...]
    result: GenerationResult | None


class Engine:
    """Decodes prompts, speculatively or plainly. Make one with `Engine.load`.

    Args:
        target: the model whose distribution the output follows.
        drafter: what proposes tokens; None decodes plainly.
        verification: name of the rule.
        num_speculative_tokens: most draft tokens a step (γ).
        costs: None drafts γ tokens in every step; a table chooses for every step, up to γ.

    Raises:
        ConfigError: an unknown rule or one that the drafter cannot serve, or γ out of range.
    """

    def __init__(
        self,
        target: LoadedModel,
        drafter: Drafter | None,
        verification: str,
        num_speculative_tokens: int,
        costs: CostTable | None = None,
    ) -> None:
        most_speculative_tokens(verification, 1 if drafter is None else num_speculative_tokens)
        if drafter is not None and verification == GREEDY_BLOCK:
            refuse_silent_drafter(drafter)
        self.target = target
        self.drafter = drafter
        self.verification = verification
        self.num_speculative_tokens = num_speculative_tokens if drafter is not None else 0
        self._warned: set[str] = set()
        self._in_use: GuardedDrafter | None = None  # the drafter, for the batch begun last
        self._costs = costs if drafter is not None else None

    @property
    def costs(self) -> Mapping[int, StepCosts]:
        """Seconds of a step by batch size, as far as measured or given; empty if γ is fixed.

        Another engine given these costs makes the same choices, and so the same replies.
        """
        return {} if self._costs is None else self._costs.known

    @property
    def is_adaptive(self) -> bool:
        """Whether it chooses draft lengths by their costs."""
        return self._costs is not None

    @classmethod
    def load(
        cls,
        target: str | Path | LoadedModel,
        draft: str | Path | None = None,
        *,
        verification: str = "block",
        num_speculative_tokens: int | str = 5,
        device: str = "auto",
        dtype: str = "auto",
        costs: Mapping[int, StepCosts] | None = None,
    ) -> Self:
        """Load models and check that they fit together.

        Args:
            target: a model source (see `specdecode.models.source`), or a loaded model to share.
            draft: a drafter spec (see `specdecode.drafting.registry`), or None for plain decoding.
            verification: "token", "block", "greedy-block" or "match".
            num_speculative_tokens: draft tokens a step, 1 to 64, or "adaptive": 0 to 16, whatever
                promises the most tokens per second. Before its first batch of a new size such an
                engine measures what a step costs here. Replies follow the target as with a fixed
                number, but token ids for a seed may differ between machines, engines and batches,
                whose costs differ; only verification "match" gives the same ids everywhere.
            device: "auto", "cpu" or "cuda[:index]"; ignored for a loaded target.
            dtype: "auto", "bfloat16", "float16", "float32" or "float64"; likewise.
            costs: with "adaptive", seconds of a step by batch size, instead of measured ones.

        Raises:
            ConfigError: an argument out of range.
            ModelNotFoundError, ModelMismatchError: see `load_model` and `make_drafter`.
        """
        gamma = most_speculative_tokens(verification, num_speculative_tokens)
        adaptive = num_speculative_tokens == ADAPTIVE
        if costs is not None and not adaptive:
            raise ConfigError("costs are of use with num_speculative_tokens='adaptive' only")
        model = target if isinstance(target, LoadedModel) else load_model(target, device, dtype)
        drafter = None if draft is None else make_drafter(draft, model)
        return cls(
            model, drafter, verification, gamma, CostTable(gamma, costs) if adaptive else None
        )

    def generate(
        self,
        prompts: Sequence[Prompt],
        params: SamplingParams | Sequence[SamplingParams] | None = None,
        *,
        trace: bool = False,
    ) -> list[GenerationResult]:
        """Decode prompts together, each as if it were alone.

        Replies that do not fit in memory together are decoded in smaller batches (`batch_size` of a
        result says in which). A drafter that fails is left out from then on (`draft_failure`).
        Either is logged as a warning, once an engine, and neither changes what a reply is.

        Args:
            prompts: texts, token-id lists or chat-message lists, of any lengths.
            params: for all, or one each; None for the defaults.
            trace: keep what every step did.

        Returns:
            One result a prompt, in order; with `n` > 1, n consecutive ones, by `sample_index`.

        Raises:
            ConfigError, PromptTooLongError: before any compute, naming the prompt.
            NumericalError: the target produced NaN or infinity.
            OutOfMemoryError: one request alone does not fit in memory.
            EngineError: the drafter failed, and what it drew can be neither kept nor dropped (see
                `specdecode.decoding.faults`).
        """
        started = time.perf_counter()

        def run(requests: list[Request]) -> None:
            for _ in self._decode(self._batch(requests, trace=trace, started=started)):
                pass

        finished_ones = decode_what_fits(
            make_requests(self.target, prompts, params), run, self._say_halved
        )
        return [self._result(r, trace=trace) for r in finished_ones]

    def stream(
        self, prompt: Prompt, params: SamplingParams | None = None, *, trace: bool = False
    ) -> Iterator[StepEvent]:
        """Decode one prompt and hand out tokens as they come; arguments as in `generate`.

        Raises:
            ConfigError: `n` is more than 1: replies would be mixed up. Or the stream goes on after
                another call of this engine has begun and taken over its drafter.
        """
        requests = make_requests(self.target, [prompt], params)
        if len(requests) > 1:
            raise ConfigError(f"n={len(requests)}: a stream is one reply; call generate for more")
        request, started = requests[0], time.perf_counter()
        try:
            for added in self._decode(self._batch([request], trace=trace, started=started)):
                done = request.finish_reason is not None
                result = self._result(request, trace=trace) if done else None
                yield StepEvent(tuple(added[0][1]), result)
        except Exception as error:
            if is_out_of_memory(error):
                raise cannot_fit(request) from error
            raise

    def open(self, *, slots: int, lengths: MakeLength | None = None) -> RunningBatch:
        """A batch that requests join and leave while it runs.

        Args:
            slots: most requests in it at a time.
            lengths: makes what chooses a request's draft lengths; None for the engine's own.

        Raises:
            ConfigError: the rule is "greedy-block".
        """
        if self.drafter is not None and self.verification == GREEDY_BLOCK:
            raise ConfigError(
                "verification 'greedy-block' ties a request's steps together; use 'block' where "
                "requests join and leave a running batch"
            )
        if self._costs is not None:
            self._costs.prepare(slots, self.measure)

        def begin(requests: list[Request]) -> Batch:
            own = None
            if lengths is not None:
                seconds = (lambda _size: ()) if self._costs is None else self._costs.seconds
                own = Lengths(requests, lengths, seconds)
            return self._batch(requests, trace=False, lengths=own)

        return RunningBatch(self.target, slots, begin, lambda batch: batch.drafter is self._in_use)

    def measure(self, size: int) -> StepCosts:
        """Time the stages of a step with `size` requests. Not while a batch is running.

        It drops the drafter's state.
        """
        gamma, network = self.num_speculative_tokens, self.target.network

        def make(requests: list[Request]) -> Batch:
            return self._batch(requests, trace=False, lengths=Lengths.fixed(requests, gamma))

        return measure_costs(
            make, size, gamma, self.target.max_context, lambda: now(network.device)
        )

    def _decode(self, batch: Batch) -> Iterator[list[tuple[Request, list[int]]]]:
        """`decode`, as long as no later batch has taken the drafter over.

        The drafter's state is then the other batch's, and with a self-draft so is the target's
        cache: drafts for this one would be written over tokens of that one.
        """
        for added in decode(batch):
            yield added
            if batch.requests and batch.drafter is not self._in_use:
                raise taken_over()

    def _batch(
        self,
        requests: list[Request],
        *,
        trace: bool,
        started: float | None = None,
        lengths: Lengths | None = None,
    ) -> Batch:
        plain = self.drafter is None
        if lengths is None:
            lengths = self._lengths(requests)
        if started is not None:
            for request in requests:
                request.started = started
        return Batch(
            network=self.target.network,
            drafter=self._guarded(),
            rule=RULES[self.verification],
            requests=requests,
            gamma=self.num_speculative_tokens,
            lengths=lengths,
            by_position=plain or self.verification == "match",
            trace=trace,
            carried=None if plain or self.verification != GREEDY_BLOCK else CarriedModifications(),
        )

    def _lengths(self, requests: list[Request]) -> Lengths:
        if self._costs is None:
            return Lengths.fixed(requests, self.num_speculative_tokens)
        self._costs.prepare(len(requests), self.measure)
        return Lengths.adaptive(requests, self._costs.seconds)

    def _guarded(self) -> GuardedDrafter | None:
        if self.drafter is None:
            return None
        network = self.target.network
        self._in_use = GuardedDrafter(
            self.drafter,
            self.verification,
            network.vocab_size,
            network.device,
            self._say_failed,
        )
        return self._in_use

    def _say_failed(self, reason: str) -> None:
        name = "" if self.drafter is None else self.drafter.name
        self._warn_once(
            "draft",
            f"drafter '{name}' failed ({reason}); going on without drafts, which changes the speed "
            "and not the distribution of the replies",
        )

    def _say_halved(self, size: int, smaller: int) -> None:
        self._warn_once(
            "memory",
            f"{size} requests do not fit in memory together; trying {smaller} (give fewer prompts "
            "a call, or shorter ones, to avoid decoding some of them twice)",
        )

    def _warn_once(self, about: str, message: str) -> None:
        if about not in self._warned:
            self._warned.add(about)
            log.warning("%s", message)

    def _result(self, request: Request, *, trace: bool) -> GenerationResult:
        return finished(request, self.num_speculative_tokens, trace=trace)
