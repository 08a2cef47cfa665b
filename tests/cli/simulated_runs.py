"""Runs of `braid sim` that tests make, and all applications at sizes that take little time."""

import json
import os
import pathlib
import subprocess
import tempfile

SMALL = {
    "jacobi": ["--size", "96", "--iterations", "4"],
    "matmul": ["--size", "64"],
    "gauss": ["--size", "64"],
    "tsp": ["--cities", "7"],
    "fft": ["--points", "4096"],
    "unstructured": ["--nodes", "300", "--edges", "1800", "--iterations", "2"],
    "barnes": ["--bodies", "100", "--iterations", "2"],
    "water": ["--molecules", "27", "--iterations", "1"],
}


class Simulator:
    """`braid sim` of one folder of commands."""

    def __init__(self, commands):
        self.commands = commands

    def __call__(self, *words, expect=0, environment=None, before=None):
        """Runs `braid sim words`, `before` in the process that becomes it; returns (report, output, errors). Any status is right if
        `expect` is None."""
        with tempfile.TemporaryDirectory() as folder:
            report = pathlib.Path(folder, "report.json")
            run = subprocess.run([self.commands / "braid", "sim", "--report", report, *words], capture_output=True, text=True,
                                 timeout=120, env={**os.environ, **(environment or {})}, check=False, preexec_fn=before)
            if expect is not None and run.returncode != expect:
                raise AssertionError(f"status {run.returncode}\n{run.stdout}\n{run.stderr}")
            text = report.read_text() if report.is_file() else ""
            return json.loads(text) if text else None, run.stdout, run.stderr
