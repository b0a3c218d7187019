"""From a draft spec to a drafter. A new kind of drafter is one file and one line here.

One that is made from the target has its line in `specdecode.models.source.is_derived`, too.

| spec | drafter |
|---|---|
| `self-int4`, `self-int8` | the target with quantised weights, over the target's own cache |
| `early-exit:K`           | the target's first K layers, its norm and its head |
| `prompt-lookup`          | copies from prompt and output; no model |
| `suffix`                 | likewise, by the longest repetition of any length |
| `suffix:shared`          | likewise, and from earlier replies to anybody |
| `cascade:BOTTOM,MIDDLE`  | BOTTOM drafts for MIDDLE, which drafts for the target |
| anything else            | a model source (`specdecode.models.source`), target's tokenizer |
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch

from specdecode.drafting.base import Drafter
from specdecode.drafting.cascade import CascadeDrafter
from specdecode.drafting.draft_model import ModelDrafter
from specdecode.drafting.prompt_lookup import PromptLookupDrafter
from specdecode.drafting.self_draft import SelfDrafter
from specdecode.drafting.suffix import SuffixDrafter
from specdecode.errors import ConfigError, ModelMismatchError
from specdecode.models.generic import refuse_unsupported
from specdecode.models.linear import (
    fastest_exact,
    int4,
    int4_rounded,
    int8,
    int8_rounded,
    rescored,
)
from specdecode.models.load import LoadedModel, load_model
from specdecode.models.network import CausalNetwork
from specdecode.models.source import CASCADE, EARLY_EXIT, cascade_parts
from specdecode.models.sub_vocabulary import draft_network

REMEMBERED_TOKENS = 32_768

# How layers and head multiply, and drafters without a network.
_QUANTISED = {"self-int4": (int4, rescored(int4)), "self-int8": (int8, int8)}
_COPYING: dict[str, Callable[[int, torch.device], Drafter]] = {
    "prompt-lookup": PromptLookupDrafter,
    "suffix": SuffixDrafter,
    "suffix:shared": partial(SuffixDrafter, remember=REMEMBERED_TOKENS),
}
_EXAMPLE = "'cascade:prompt-lookup,self-int4'"


def make_drafter(spec: str | Path, target: LoadedModel) -> Drafter:
    """Build the drafter that `spec` names, for `target`.

    Raises:
        ConfigError: a malformed spec, or a drafter that does not exist yet.
        ModelNotFoundError: a draft model that is not there.
        ModelMismatchError: a draft model that speaks another vocabulary.
    """
    if not isinstance(spec, str | Path):
        raise ConfigError(
            f"draft is of type {type(spec).__name__}: give a spec such as 'self-int4', or a model "
            "folder"
        )
    spec = str(spec)
    if spec in _QUANTISED:
        return SelfDrafter(spec, target.build_network(*_QUANTISED[spec]))
    if spec in _COPYING:
        return _COPYING[spec](target.vocab_size, target.device)
    if spec.startswith(CASCADE):
        return _cascade(spec, target)
    if spec.startswith(EARLY_EXIT):
        layers = _exit_layer(spec, target)
        return SelfDrafter(spec, target.build_network(fastest_exact, fastest_exact, layers))
    dtype = str(target.dtype).removeprefix("torch.")
    draft = load_model(spec, device=str(target.device), dtype=dtype)
    check_same_vocabulary(target, draft)
    refuse_unsupported(draft.config)
    return ModelDrafter(spec, draft_network(target, draft), draft.max_context)


def scoring_network(spec: str, target: LoadedModel) -> CausalNetwork | None:
    """The network behind a drafter, laid out to score long texts rather than single tokens.

    Returns:
        None for drafters without a network (prompt lookup, suffix). A cascade follows the law of
        the drafter in its middle.
    """
    if spec.startswith(CASCADE):
        return scoring_network(cascade_parts(spec)[1], target)
    if spec == "self-int4":
        return target.build_network(int4_rounded, rescored(int4_rounded))
    if spec == "self-int8":
        return target.build_network(int8_rounded, int8_rounded)
    drafter = make_drafter(spec, target)
    return drafter.network if isinstance(drafter, SelfDrafter | ModelDrafter) else None


def drafting_network(spec: str, target: LoadedModel) -> tuple[CausalNetwork, bool]:
    """The network that a drafter draws with, in the engine's own layout.

    Returns:
        The network, and whether it reads the target's cache in place of one of its own. A cascade
        is taken for the drafter in its middle.

    Raises:
        ConfigError: the drafter has none.
    """
    if spec.startswith(CASCADE):
        return drafting_network(cascade_parts(spec)[1], target)
    drafter = make_drafter(spec, target)
    if not isinstance(drafter, SelfDrafter | ModelDrafter):
        raise ConfigError(f"draft '{spec}' copies tokens and has no network")
    return drafter.network, isinstance(drafter, SelfDrafter)


def check_same_vocabulary(target: LoadedModel, draft: LoadedModel) -> None:
    """Refuse a draft whose token ids mean something else than the target's.

    The vocabularies may differ in size, as they are padded differently within families of models,
    if every token that the draft can propose is the target's token of the same id.

    Raises:
        ModelMismatchError: naming the sizes, or the first token ids that differ.
    """
    advice = "use a draft trained with the target's tokenizer, or 'self-int4' / 'prompt-lookup'"
    ours, theirs = _vocabulary(target), _vocabulary(draft)
    if target.vocab_size != draft.vocab_size:
        shared = min(target.vocab_size, draft.vocab_size)
        if ours is None or theirs is None or any(index >= shared for index in theirs.values()):
            raise ModelMismatchError(
                f"target '{target.path}' scores {target.vocab_size} tokens, draft '{draft.path}' "
                f"{draft.vocab_size}, and not only for padding that the draft's tokenizer leaves "
                f"unused: {advice}"
            )
        ours = {token: index for token, index in ours.items() if index < shared}
    if ours is None or theirs is None or ours == theirs:
        return
    different = sorted(ours.items() ^ theirs.items(), key=lambda item: (item[1], item[0]))
    token, index = different[0]
    raise ModelMismatchError(
        f"target '{target.path}' and draft '{draft.path}' have different tokenizers: "
        f"{len(different)} entries differ, first at id {index} ({token!r}); {advice}"
    )


def _vocabulary(model: LoadedModel) -> dict[str, int] | None:
    return None if model.tokenizer is None else dict(model.tokenizer.get_vocab())


def _cascade(spec: str, target: LoadedModel) -> CascadeDrafter:
    """Build both drafters and refuse pairs in which the lower one cannot help the upper one."""
    below, verifying = cascade_parts(spec)
    if not below or not verifying:
        raise ConfigError(f"draft '{spec}': write cascade:BOTTOM,MIDDLE, such as {_EXAMPLE}")
    if below.startswith(CASCADE) or verifying.startswith(CASCADE):
        raise ConfigError(f"draft '{spec}': a cascade has two drafters, none of them a cascade")
    bottom, middle = make_drafter(below, target), make_drafter(verifying, target)
    if not isinstance(middle, SelfDrafter | ModelDrafter):
        raise ConfigError(
            f"draft '{spec}': '{verifying}' has no network to verify with; write it first, and a "
            f"model or self-draft second, such as {_EXAMPLE}"
        )
    if isinstance(bottom, SelfDrafter) and not (
        below.startswith(EARLY_EXIT) and _is_deeper(verifying, below, target)
    ):
        raise ConfigError(
            f"draft '{spec}': '{below}' is no cheaper than '{verifying}'; the bottom may be "
            "prompt-lookup, suffix, a model, or early-exit:K with fewer layers than the middle"
        )
    return CascadeDrafter(spec, bottom, middle)


def _is_deeper(verifying: str, below: str, target: LoadedModel) -> bool:
    if not verifying.startswith(EARLY_EXIT):
        return True
    return _exit_layer(verifying, target) > _exit_layer(below, target)


def _exit_layer(spec: str, target: LoadedModel) -> int:
    depth = int(target.config.num_hidden_layers)
    text = spec.removeprefix(EARLY_EXIT)
    if not text.isdecimal() or not 1 <= int(text) < depth:
        raise ConfigError(
            f"draft '{spec}': write early-exit:K with K from 1 to {depth - 1} "
            f"(the target has {depth} layers)"
        )
    return int(text)
