"""What `decide` takes: settings measured as named, tables of any make, a manifest that is one."""

from __future__ import annotations

import pyarrow as pa
import pytest

from specdecode.errors import ConfigError
from specdecode.governance import Status, decide
from specdecode.measurement.records import to_table
from tests.governance.plans import small_plan
from tests.measurement.factories import MANIFEST, audit, run

PLAN = small_plan()
ROWS = run(20)
TABLE = to_table(ROWS)
AUDIT = audit(ROWS)
MANIFEST_DOCUMENT = {"manifest_sha256": MANIFEST}


def with_temperature(setting, temperature):
    return run(
        20,
        change=lambda fields: (
            fields | {"sampling": fields["sampling"] | {"temperature": temperature}}
            if fields["sampling"]["name"] == setting
            else fields
        ),
    )


@pytest.mark.parametrize(
    ("setting", "temperature", "reason"),
    [
        ("sampled", 0.0, "the setting sampled was measured greedily"),
        ("greedy", 0.7, "the setting greedy was measured with sampling"),
    ],
)
def test_a_setting_was_measured_as_its_name_says(setting, temperature, reason):
    rows = with_temperature(setting, temperature)
    verdict = decide(PLAN, to_table(rows), audit(rows))

    assert verdict.status is Status.INVALID
    assert any(reason in line for line in verdict.reasons)


@pytest.mark.parametrize(("temperature", "status"), [(0.0, Status.GO), (0.7, Status.INCONCLUSIVE)])
def test_a_setting_of_another_name_is_judged_by_its_temperature(temperature, status):
    def warm(fields):
        name = "warm" if fields["sampling"]["name"] == "sampled" else "greedy"
        at = temperature if name == "warm" else 0.0
        return fields | {
            "sampling": fields["sampling"] | {"name": name, "temperature": at},
            "request_id": f"{fields['prompt_id']}/{name}/{fields['arm']}",
        }

    rows = run(20, change=warm)
    arms = {arm: {"verdict": "lossless", "tokens_read": 0} for arm in AUDIT["arms"]}
    plan = small_plan(sampling=["greedy", "warm"])

    assert decide(plan, to_table(rows), {**audit(rows), "arms": arms}).status is status


@pytest.mark.parametrize("manifest", [[MANIFEST], "manifest", 3])
def test_a_manifest_that_is_no_object_is_invalid(manifest):
    verdict = decide(PLAN, TABLE, AUDIT, manifest)

    assert verdict.status is Status.INVALID
    assert any("the manifest is not an object" in line for line in verdict.reasons)


@pytest.mark.parametrize("entries", [{"a": "\ud800"}, {"a": object()}, {"a": float("nan")}])
def test_entries_that_cannot_be_hashed_are_not_those_that_were_sealed(entries):
    verdict = decide(PLAN, TABLE, AUDIT, MANIFEST_DOCUMENT | {"entries": entries})

    assert verdict.status is Status.INVALID
    assert any("not those it was sealed with" in line for line in verdict.reasons)


def test_settings_nested_without_end_are_no_settings():
    texts = TABLE.column("sampling").to_pylist()
    texts[3] = '{"name": "greedy", "x": ' + "[" * 100_000 + "]" * 100_000 + "}"
    place = TABLE.schema.get_field_index("sampling")
    deep = TABLE.set_column(place, TABLE.schema.field(place), pa.array(texts))

    assert decide(PLAN, deep, AUDIT).status is Status.INVALID


def test_rows_may_be_a_frame_or_a_list_of_mappings():
    pandas = pytest.importorskip("pandas")
    wanted = decide(PLAN, TABLE, AUDIT, MANIFEST_DOCUMENT).to_bytes()
    mappings = [record.model_dump() for record in ROWS]

    for rows in (mappings, pandas.DataFrame(mappings), TABLE.to_pandas(), TABLE.to_pylist()):
        assert decide(PLAN, rows, AUDIT, MANIFEST_DOCUMENT).to_bytes() == wanted


def test_a_field_that_only_the_last_row_has_is_not_dropped_unseen():
    mappings = [record.model_dump() for record in ROWS]
    mappings[-1]["surprise"] = 1
    verdict = decide(PLAN, mappings, AUDIT)

    assert verdict.status is Status.INVALID
    assert any("surprise" in line for line in verdict.reasons)


@pytest.mark.parametrize("rows", [None, "rows.parquet", [1, 2], 5, [{"seed": 1}, {"seed": "x"}]])
def test_rows_of_another_kind_are_a_wrong_argument(rows):
    with pytest.raises(ConfigError, match="rows"):
        decide(PLAN, rows, AUDIT)
