"""The data frame that the expectations see: the table's columns, made safe, plus derived ones.

Text and tokens become counts, so that no prompt is copied into a validation result. What a plain
column check cannot say (coverage per half, order, agreement of two columns) is precomputed here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sized
from typing import TYPE_CHECKING

import pyarrow as pa

from specdecode.workload.split import SPLITS

if TYPE_CHECKING:
    import pandas as pd

STRATA = ("category", "language", "difficulty")
NEEDS_REFERENCE = ("exact", "numeric")
"""Checks with one right answer: a person reading a failure must be able to see it."""

DERIVED = (
    "_order_expected",
    "_imbalance",
    "_cluster_halves",
    "_checker_missing",
    "_checker_kept",
    "_reference_missing",
    "_personal_data",
    *(f"_{stratum}_{what}" for stratum in STRATA for what in ("half", "rows")),
)


def frame_of(table: pa.Table) -> pd.DataFrame:
    """Build the frame.

    A column that is missing is left out together with what derives from it; the expectations on
    them then raise, which counts as failed.
    """
    frame = table.to_pandas()
    have = set(frame.columns)
    if {"split", "order_index"} <= have:
        by_split = frame.groupby("split")["order_index"]
        frame["_order_expected"] = by_split.rank(method="first") - 1
    if "split" in have:
        sizes = [int((frame["split"] == split).sum()) for split in SPLITS]
        frame["_imbalance"] = abs(sizes[0] - sizes[1]) / len(frame)
        for stratum in STRATA:
            if stratum in have:
                frame[f"_{stratum}_half"] = frame["split"] + "/" + frame[stratum]
                frame[f"_{stratum}_rows"] = frame.groupby(["split", stratum])["split"].transform(
                    "size"
                )
    if {"split", "cluster"} <= have:
        frame["_cluster_halves"] = frame.groupby("cluster")["split"].transform("nunique")
    if {"checker_declared", "checker_present"} <= have:
        missing = frame["checker_declared"].eq(True) & ~frame["checker_present"].eq(True)
        frame["_checker_missing"] = missing.astype("int64")
    if {"checker_type", "reference"} <= have:
        needed = frame["checker_type"].isin(NEEDS_REFERENCE) & frame["reference"].isna()
        frame["_reference_missing"] = needed.astype("int64")
    if {"checker", "checker_type"} <= have:
        frame["_checker_kept"] = frame["checker"].notna() & frame["checker_type"].notna()
    if "pii_hits" in have:
        frame["_personal_data"] = frame["pii_hits"].map(_length)
    for column in have & {"turns", "prompt_token_ids", "reference"}:
        frame[column] = frame[column].map(_length)
    for column in have & {"system", "checker"}:
        frame[column] = frame[column].notna()
    if "pii_hits" in have:
        frame["pii_hits"] = frame["pii_hits"].map(_joined)
    return frame


def _length(value: Sized | None) -> int | None:
    return None if value is None else len(value)


def _joined(kinds: Iterable[str] | None) -> str | None:
    return None if kinds is None else ", ".join(kinds)
