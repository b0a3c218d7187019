"""Metrics in the text format, as strict as evidence has to be."""

from __future__ import annotations

import contextlib
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specdecode.workload.engines.errors import ProtocolError
from specdecode.workload.engines.metrics_text import parse_metrics
from specdecode.workload.engines.unknown import Unknown


class TestValues:
    def test_label_values_with_everything_that_is_escaped(self):
        scrape = parse_metrics('a_total{x="q\\"b\\\\s\\nn",y="}{,="} 1\n')

        assert scrape.series["a_total"] == {(("x", 'q"b\\s\nn'), ("y", "}{,=")): 1.0}

    @pytest.mark.parametrize(
        ("text", "value"),
        [
            ("3", 3.0),
            ("3.5e2", 350.0),
            ("+Inf", math.inf),
            ("-Inf", -math.inf),
            ("3 1700000000", 3.0),
        ],
    )
    def test_numbers(self, text, value):
        assert parse_metrics(f"a {text}\n").series["a"][()] == value

    def test_nan(self):
        assert math.isnan(parse_metrics("a NaN\n").series["a"][()])

    def test_a_histogram_keeps_its_buckets(self):
        text = (
            '# TYPE h histogram\nh_bucket{le="1.0"} 2\nh_bucket{le="+Inf"} 3\nh_sum 4\nh_count 3\n'
        )
        scrape = parse_metrics(text)

        assert scrape.series["h_bucket"] == {(("le", "1.0"),): 2.0, (("le", "+Inf"),): 3.0}
        assert scrape.total("h_sum") == 4
        assert scrape.total("h_count") == 3


class TestCounters:
    @pytest.mark.parametrize("written", ["a_total", "a"])
    @pytest.mark.parametrize("asked", ["a_total", "a"])
    @pytest.mark.parametrize("typed", ["", "# TYPE a_total counter\n", "# TYPE a counter\n"])
    def test_with_and_without_total(self, written, asked, typed):
        assert parse_metrics(f"{typed}{written} 3\n").total(asked) == 3

    def test_created_and_longer_names_are_others(self):
        text = "# TYPE a_created gauge\na_created 1.7e9\na_per_pos_total 9\n"

        assert isinstance(parse_metrics(text).total("a"), Unknown)

    def test_a_gauge_is_no_counter(self):
        assert isinstance(parse_metrics("# TYPE a gauge\na 3\n").total("a"), Unknown)

    def test_sums_over_labels(self):
        assert parse_metrics('a_total{e="0"} 3\na_total{e="7"} 4\n').total("a") == 7

    @pytest.mark.parametrize("value", ["NaN", "+Inf", "-1", "0.5", "1e300"])
    def test_what_is_no_count_is_not_told(self, value):
        assert isinstance(parse_metrics(f"a_total {value}\n").total("a"), Unknown)

    def test_the_newest_name_wins(self):
        assert parse_metrics("old_total 1\nnew_total 2\n").total("new", "old") == 2

    def test_one_that_has_counted_nothing_yet(self):
        scrape = parse_metrics("# HELP a_total x\n# TYPE a_total counter\n")

        assert scrape.at_zero("a_total")
        assert isinstance(scrape.total("a_total"), Unknown)


class TestOtherWriters:
    """What proxies, newer formats and other libraries make of the same metrics."""

    OPEN_METRICS = (
        "# HELP a Steps.\n# TYPE a counter\n# UNIT a steps\n"
        'a_total{e="0"} 3.0 # {trace_id="x"} 1.0 1700000000.123\n'
        'a_total{e="1"} 4.0 1700000000.123\na_created{e="0"} 1.7e9\n'
        "# TYPE g gauge\ng 2.0\n"
        '# TYPE h histogram\nh_bucket{le="+Inf"} 2 # {trace_id="x"} 0.5\nh_sum 5.0\nh_count 2\n'
        "# EOF\n"
    )

    def test_open_metrics_with_exemplars_and_fractions_of_seconds(self):
        scrape = parse_metrics(self.OPEN_METRICS)

        assert (scrape.total("a"), scrape.total("h_sum"), scrape.total("h_count")) == (7, 5, 2)
        assert scrape.gauge("g") == {(): 2.0}

    def test_a_name_declared_twice(self):
        once = "# HELP a_total Steps.\n# TYPE a_total counter\n"
        text = once + 'a_total{e="0"} 3\n' + once + 'a_total{e="1"} 4\n'

        assert parse_metrics(text).total("a") == 7

    def test_a_name_declared_as_two_things_is_not_believed(self):
        text = '# TYPE a counter\na{e="0"} 3\n# TYPE a gauge\na{e="1"} 4\n'

        assert isinstance(parse_metrics(text).total("a"), Unknown)

    def test_line_ends_of_another_system(self):
        assert parse_metrics("# TYPE a_total counter\r\na_total 3\r\n").total("a") == 3

    def test_a_last_line_without_its_end(self):
        assert parse_metrics("a_total 3").total("a") == 3

    def test_blanks_and_tabs(self):
        assert parse_metrics('  a_total { e = "0" ,}\t3  \n').total("a") == 3

    @pytest.mark.parametrize("value", ["1e3", "1.0E+03", "1000.0"])
    def test_exponents(self, value):
        assert parse_metrics(f"a_total {value}\n").total("a") == 1000


class TestRefused:
    @pytest.mark.parametrize(
        "text",
        [
            "<!doctype html>\n<html>",
            '{"error": "not found"}',
            "a",
            "a one",
            "a 1_0",
            "a{x=1} 2",
            'a{x="1" 2',
            'a{x="1",x="2"} 3',
            "1a 2",
            "{} 3",
            "a{",
            'a{x="1"}',
        ],
    )
    def test_what_is_not_the_format(self, text):
        with pytest.raises(ProtocolError, match="is this the metrics address"):
            parse_metrics(text, "http://x/metrics")

    def test_a_series_that_occurs_twice(self):
        with pytest.raises(ProtocolError, match="occurs twice"):
            parse_metrics('a{x="1",y="2"} 1\na{y="2",x="1"} 1\n')

    @settings(deadline=None)
    @given(st.text(max_size=60) | st.text('aT{}="\\, 1#.\n', max_size=40))
    def test_any_text_is_read_or_refused(self, text):
        with contextlib.suppress(ProtocolError):
            parse_metrics(text)


@settings(deadline=None)
@given(
    st.dictionaries(
        st.text(st.characters(exclude_categories=("Cs",)), max_size=8),
        st.floats(allow_nan=False),
        max_size=5,
    )
)
def test_what_is_written_is_read(values):
    def escaped(text):
        return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')

    text = "".join(f'a{{x="{escaped(x)}"}} {v!r}\n' for x, v in values.items())

    assert parse_metrics(text).series.get("a", {}) == {(("x", x),): v for x, v in values.items()}
