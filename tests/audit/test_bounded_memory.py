"""Memory does not grow with the number of rows."""

import tracemalloc

import numpy as np

from specdecode.audit.carriers import REST, Carriers
from specdecode.audit.rows import RowReader, read_rows
from specdecode.audit.tolerance import sample_pairs
from tests.audit.toys import ToyScorer, tables

SAMPLED = {"temperature": 1.0}


def records(count):
    for index in range(count):
        yield {
            "prompt_id": f"p{index}",
            "prompt_token_ids": [index % 24, 3],
            "output_token_ids": [(index * 7 + t) % 24 for t in range(200)],
            "sampling": SAMPLED,
            "order_index": count - index,
        }


def held(count):
    """Bytes that Python holds after all rows were read, and the most while going through them."""
    scorer = ToyScorer(tables()[0])
    tracemalloc.start()
    try:
        reader = RowReader(scorer)
        for record in records(count):
            reader.add(record)
        found = reader.finish()
        last = None
        for row in found.rows:
            assert last is None or row.order_index > last
            last = row.order_index
        assert len(sample_pairs(found.rows, 8, 24)) == 8
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_six_times_the_rows_take_no_more_memory():
    few, many = held(150), held(900)

    assert many < 1.5 * few


def test_the_sample_is_spread_over_all_rows():
    found = read_rows(records(100), ToyScorer(tables()[0]))
    places = [row.order_index for row, _ in sample_pairs(found.rows, 4, 24)]

    assert places == [1, 26, 51, 76]


def test_groups_beyond_the_limit_are_counted_as_one():
    found = read_rows(
        ({**record, "category": record["prompt_id"]} for record in records(300)),
        ToyScorer(tables()[0]),
    )
    carriers = Carriers()
    for row in found.rows:
        carriers.add(row, 0, ["unknown"], np.array([0.5]))
    strata = carriers.to_json()["strata"]

    assert len(strata) == 201
    assert strata[REST] == {"tokens": 100, "log_e_value": 50.0}
