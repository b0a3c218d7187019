"""The kinds of rule a plan may use: one file and one line here each."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from specdecode.governance.rules.acceptance_length import AcceptanceLength
from specdecode.governance.rules.efficiency_gain import EfficiencyGain
from specdecode.governance.rules.error_rate import ErrorRate
from specdecode.governance.rules.losslessness import Losslessness
from specdecode.governance.rules.quality import QualityNonInferiority
from specdecode.governance.rules.speed_ratio import SpeedRatio
from specdecode.governance.rules.strata import Strata
from specdecode.governance.rules.tail_latency import TailLatency
from specdecode.governance.rules.token_amplification import TokenAmplification

AnyRule = Annotated[
    AcceptanceLength
    | EfficiencyGain
    | ErrorRate
    | Losslessness
    | QualityNonInferiority
    | SpeedRatio
    | Strata
    | TailLatency
    | TokenAmplification,
    Field(discriminator="kind"),
]
