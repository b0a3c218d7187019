"""The expectations on compiled prompts, each with a name and advice for whoever must repair it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from pipelines.quality.frame import DERIVED, STRATA
from pipelines.quality.settings import ValidateSettings
from specdecode.workload.compile import PROMPTS_SCHEMA
from specdecode.workload.split import SPLITS

if TYPE_CHECKING:
    from great_expectations.expectations import Expectation


def expectations(settings: ValidateSettings) -> dict[str, Expectation]:
    """Expectations by name. All are critical unless said otherwise."""
    import great_expectations.expectations as gxe

    found: dict[str, Expectation] = {}

    def expect(
        name: str,
        kind: Callable[..., Expectation],
        advice: str,
        *,
        severity: str = "critical",
        **arguments: object,
    ) -> None:
        meta = {"name": name, "advice": advice}
        found[name] = kind(severity=severity, meta=meta, **arguments)

    between, equal = gxe.ExpectColumnValuesToBeBetween, gxe.ExpectColumnPairValuesToBeEqual
    again = "run the prompts stage again"

    expect(
        "columns are exactly the schema",
        gxe.ExpectTableColumnsToMatchSet,
        again,
        column_set=[*PROMPTS_SCHEMA.names, *DERIVED],
        exact_match=True,
    )
    expect(
        "there are enough prompts",
        gxe.ExpectTableRowCountToBeBetween,
        "add prompts or lower validate.min_prompts",
        min_value=settings.min_prompts,
    )
    for field in PROMPTS_SCHEMA:
        if not field.nullable:
            expect(
                f"{field.name} is never null",
                gxe.ExpectColumnValuesToNotBeNull,
                again,
                column=field.name,
            )
    expect(
        "ids are unique",
        gxe.ExpectColumnValuesToBeUnique,
        "rename one of the prompts",
        column="prompt_id",
    )
    expect(
        "ids are well formed",
        gxe.ExpectColumnValuesToMatchRegex,
        "use letters, digits and . _ : -",
        column="prompt_id",
        regex=r"^[A-Za-z0-9][A-Za-z0-9._:-]*$",
    )
    expect(
        "texts are unique",
        gxe.ExpectColumnValuesToBeUnique,
        "remove one of the prompts with the same wording",
        column="sha256_norm",
    )
    for name in ("sha256_text", "sha256_norm"):
        expect(
            f"{name} is a SHA-256",
            gxe.ExpectColumnValuesToMatchRegex,
            again,
            column=name,
            regex="^[0-9a-f]{64}$",
        )
    expect(
        "prompt lengths are in range",
        between,
        "shorten or lengthen the prompt, or change validate.min_/max_prompt_tokens",
        column="prompt_tokens",
        min_value=settings.min_prompt_tokens,
        max_value=settings.max_prompt_tokens,
    )
    expect(
        "prompt_tokens counts the tokens",
        equal,
        again,
        column_A="prompt_tokens",
        column_B="prompt_token_ids",
    )
    expect("each prompt has one turn", between, again, column="turns", min_value=1, max_value=1)
    expect(
        "halves are development and reserve",
        gxe.ExpectColumnValuesToBeInSet,
        again,
        column="split",
        value_set=list(SPLITS),
    )
    expect(
        "halves are of like size",
        gxe.ExpectColumnMaxToBeBetween,
        "raise validate.max_split_imbalance or break up large groups of near-duplicates",
        column="_imbalance",
        max_value=settings.max_split_imbalance,
    )
    expect(
        "order_index is a permutation in each half",
        equal,
        again,
        column_A="order_index",
        column_B="_order_expected",
    )
    _coverage(expect, settings)
    expect(
        "no text stands in both halves",
        between,
        "remove one of the copies",
        column="leak_exact",
        min_value=0,
        max_value=0,
    )
    expect(
        "no passage is shared between the halves",
        between,
        "lower prompts.near_duplicate_overlap so that prompts with one passage share a half",
        column="leak_overlap",
        max_value=settings.max_ngram_overlap,
    )
    expect(
        "near-duplicates share a half",
        between,
        again,
        column="_cluster_halves",
        min_value=1,
        max_value=1,
    )
    expect(
        "no personal data",
        between,
        "replace it by invented data of a reserved range (example.com, 555-01xx, 192.0.2.x)",
        column="_personal_data",
        min_value=0,
        max_value=0,
    )
    expect(
        "a checker is present where declared",
        between,
        "give the prompt a checker, or take its category out of prompts.checkable_categories",
        column="_checker_missing",
        min_value=0,
        max_value=0,
    )
    expect(
        "checker_present tells the truth",
        equal,
        again,
        column_A="checker_present",
        column_B="_checker_kept",
    )
    expect(
        "a single right answer is written down",
        between,
        "give the prompt a reference",
        column="_reference_missing",
        min_value=0,
        max_value=0,
    )
    expect(
        "references pass their own checker",
        between,
        "correct the reference or the checker; one of them is wrong",
        column="reference_score",
        min_value=1,
        max_value=1,
    )
    expect(
        "at least half of the prompts can be checked",
        gxe.ExpectColumnMeanToBeBetween,
        "quality is judged on few prompts; add checkers",
        severity="warning",
        column="_checker_kept",
        min_value=0.5,
    )
    return found


def _coverage(expect: Callable[..., None], settings: ValidateSettings) -> None:
    import great_expectations.expectations as gxe

    plural = {"category": "categories", "language": "languages", "difficulty": "difficulties"}
    for stratum in STRATA:
        required = list(getattr(settings, f"required_{plural[stratum]}"))
        expect(
            f"{plural[stratum]} are known ones",
            gxe.ExpectColumnValuesToBeInSet,
            f"correct the {stratum} or add it to validate.required_{plural[stratum]}",
            column=stratum,
            value_set=required,
        )
        expect(
            f"every {stratum} is in both halves",
            gxe.ExpectColumnDistinctValuesToContainSet,
            f"add prompts of the missing {stratum}",
            column=f"_{stratum}_half",
            value_set=[f"{split}/{value}" for split in SPLITS for value in required],
        )
        expect(
            f"every {stratum} has enough prompts in each half",
            gxe.ExpectColumnValuesToBeBetween,
            f"add prompts of this {stratum} or lower validate.min_per_{stratum}",
            column=f"_{stratum}_rows",
            min_value=getattr(settings, f"min_per_{stratum}"),
        )
