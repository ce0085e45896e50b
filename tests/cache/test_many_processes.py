"""Sixteen processes share a cache folder, some are killed; `many_processes.py` is the long run."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_no_wrong_result_no_damage_no_lock() -> None:
    script = Path(__file__).with_name("many_processes.py")
    done = subprocess.run(
        [sys.executable, str(script), "--seconds", "3"], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    counts = re.match(r"(\d+) launches, (\d+) processes killed, .* 0 faults", done.stdout)
    assert counts and int(counts[1]) > 0 and int(counts[2]) > 3, done.stdout
