"""Small source trees to feed the checkers with, and the way to load a tool that is a script."""

import importlib.util
import pathlib
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOOLS = ROOT / "tools"


def load(script):
    """The module that a Python script of tools/ is."""
    spec = importlib.util.spec_from_file_location(pathlib.Path(script).stem, TOOLS / script)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class TreeTest(unittest.TestCase):
    """A test with a folder of its own that vanishes afterwards."""

    def setUp(self):
        holder = tempfile.TemporaryDirectory(prefix="braid-tools-")
        self.addCleanup(holder.cleanup)
        self.root = pathlib.Path(holder.name)

    def write(self, path, text, mode=None):
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        if mode is not None:
            file.chmod(mode)
        return file

    def run_tool(self, *command, **options):
        return subprocess.run(
            [str(part) for part in command], capture_output=True, text=True, timeout=100, check=False, **options
        )
