# SPDX-License-Identifier: GPL-2.0-only
"""Settings of hypothesis: every run tries the same examples, unless asked to search for more."""

import os

from hypothesis import HealthCheck, settings

settings.register_profile(
    "steady",
    derandomize=True,
    deadline=None,
    database=None,
    max_examples=100,
    suppress_health_check=[HealthCheck.too_slow],  # says nothing of the code on a busy machine
)
# HYPOTHESIS_PROFILE=search looks at other examples in every run, and at many more of them.
settings.register_profile("search", deadline=None, max_examples=3000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "steady"))
