"""Evaluations in MLflow: an experiment per plan, a run per release, stages and arms nested in it.

MLflow is a view. The record is what lies in reports/ and in the evidence bundle, and everything
here can be written again from it.

    experiment  the plan's name
    └── release     one candidate under one manifest: its last verdict, and what decided
        └── stage       what was judged there: rows, report, plots, bundle, data sets
            └── arm         an arm's own numbers, and its evidence token by token
"""

from pipelines.tracking.content import RunContent
from pipelines.tracking.store import Store, store_of
from pipelines.tracking.write import record

__all__ = ["RunContent", "Store", "record", "store_of"]
