"""Quantiles of all resamples at once."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as st_numpy

from specdecode.governance.study_draws import weighted_quantile


@settings(max_examples=60)
@given(
    values=st_numpy.arrays(np.float64, st.integers(1, 12), elements=st.floats(-9, 9)),
    data=st.data(),
    quantile=st.floats(0, 1),
)
def test_a_weighted_quantile_is_the_quantile_of_repeated_values(values, data, quantile):
    clusters = data.draw(
        st_numpy.arrays(np.int64, len(values), elements=st.integers(0, 3)), "clusters"
    )
    weights = data.draw(st_numpy.arrays(np.int64, (3, 4), elements=st.integers(0, 3)), "weights")
    weights[:, clusters[0]] += 1  # so that no resample is empty
    found = weighted_quantile(values, clusters, weights, quantile)

    for row, own in enumerate(weights):
        repeated = np.repeat(values, own[clusters])
        assert found[row] == pytest.approx(np.quantile(repeated, quantile), abs=1e-9)
