"""From a draft spec to a drafter. A new kind of drafter is one file and one line here.

| spec | drafter |
|---|---|
| `self-int4`, `self-int8` | the target with quantised weights, over the target's own cache |
| `early-exit:K`           | the target's first K layers, its norm and its head |
| `prompt-lookup`          | copies from prompt and output; no model |
| anything else            | a model source (`specdecode.models.source`), target's tokenizer |
"""

from __future__ import annotations

from pathlib import Path

from specdecode.drafting.base import Drafter
from specdecode.drafting.draft_model import ModelDrafter
from specdecode.drafting.prompt_lookup import PromptLookupDrafter
from specdecode.drafting.self_draft import SelfDrafter
from specdecode.errors import ConfigError, ModelMismatchError
from specdecode.models.generic import refuse_unsupported
from specdecode.models.linear import fastest_exact, int4, int4_rounded, int8, int8_rounded
from specdecode.models.load import LoadedModel, load_model
from specdecode.models.network import CausalNetwork
from specdecode.models.source import EARLY_EXIT


def make_drafter(spec: str | Path, target: LoadedModel) -> Drafter:
    """Build the drafter that `spec` names, for `target`.

    Raises:
        ConfigError: a malformed spec, or a drafter that does not exist yet.
        ModelNotFoundError: a draft model that is not there.
        ModelMismatchError: a draft model that speaks another vocabulary.
    """
    spec = str(spec)
    if spec == "suffix":
        raise ConfigError("draft 'suffix' is not available yet: use 'prompt-lookup'")
    if spec == "self-int4":
        return SelfDrafter(spec, target.build_network(int4, int8))
    if spec == "self-int8":
        return SelfDrafter(spec, target.build_network(int8, int8))
    if spec == "prompt-lookup":
        return PromptLookupDrafter(target.vocab_size, target.device)
    if spec.startswith(EARLY_EXIT):
        layers = _exit_layer(spec, target)
        return SelfDrafter(spec, target.build_network(fastest_exact, fastest_exact, layers))
    dtype = str(target.dtype).removeprefix("torch.")
    draft = load_model(spec, device=str(target.device), dtype=dtype)
    check_same_vocabulary(target, draft)
    refuse_unsupported(draft.config)
    return ModelDrafter(spec, draft.network, draft.max_context)


def scoring_network(spec: str, target: LoadedModel) -> CausalNetwork | None:
    """The network behind a drafter, laid out to score long texts rather than single tokens.

    Returns:
        None for drafters without a network (prompt lookup).
    """
    if spec == "self-int4":
        return target.build_network(int4_rounded, int8_rounded)
    if spec == "self-int8":
        return target.build_network(int8_rounded, int8_rounded)
    drafter = make_drafter(spec, target)
    return drafter.network if isinstance(drafter, SelfDrafter | ModelDrafter) else None


def check_same_vocabulary(target: LoadedModel, draft: LoadedModel) -> None:
    """Refuse a draft whose token ids mean something else than the target's.

    Raises:
        ModelMismatchError: naming the sizes, or the first token ids that differ.
    """
    advice = "use a draft trained with the target's tokenizer, or 'self-int4' / 'prompt-lookup'"
    if target.vocab_size != draft.vocab_size:
        raise ModelMismatchError(
            f"target '{target.path}' scores {target.vocab_size} tokens, draft '{draft.path}' "
            f"{draft.vocab_size}: {advice}"
        )
    if target.tokenizer is None or draft.tokenizer is None:
        return
    ours, theirs = target.tokenizer.get_vocab(), draft.tokenizer.get_vocab()
    if ours == theirs:
        return
    different = sorted(ours.items() ^ theirs.items(), key=lambda item: (item[1], item[0]))
    token, index = different[0]
    raise ModelMismatchError(
        f"target '{target.path}' and draft '{draft.path}' have different tokenizers: "
        f"{len(different)} entries differ, first at id {index} ({token!r}); {advice}"
    )


def _exit_layer(spec: str, target: LoadedModel) -> int:
    depth = int(target.config.num_hidden_layers)
    text = spec.removeprefix(EARLY_EXIT)
    if not text.isdigit() or not 1 <= int(text) < depth:
        raise ConfigError(
            f"draft '{spec}': write early-exit:K with K from 1 to {depth - 1} "
            f"(the target has {depth} layers)"
        )
    return int(text)
