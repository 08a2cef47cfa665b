#!/usr/bin/env python3
"""Benchmarks of latencies run, print percentiles, and write figures and percentiles. How high they are is not judged.

    benches_test.py BIN [unittest arguments]
"""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "hosts"))
from network import missing_namespaces, missing_xdp  # noqa: E402

BIN = pathlib.Path(sys.argv[1]).resolve()
RUN = [BIN / "braid", "run", "--quiet", "--clusters", "2", "--compute", "1", "--proxies", "1"]
LIMIT_S = 60


class Benches(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def start(self, words, **environment):
        run = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=LIMIT_S,
                             env={**os.environ, **environment}, check=False)
        self.assertEqual(run.returncode, 0, run.stderr)
        return run.stdout

    def measured(self, *words, operations, **environment):
        """Figures and texts of percentiles of a run of one round."""
        file = self.folder / "figures.json"
        output = self.start([*words, "--rounds", "1", "--json", file, "--percentiles", self.folder], **environment)
        self.assertRegex(output, r"p50 +p99 +p99\.9 +most +p99 \* +p99\.9 \*")
        texts = sorted(self.folder.glob("*.hgrm"))
        self.assertEqual(len(texts), 2 * operations, texts)
        self.assertEqual(len([text for text in texts if text.name.endswith(".corrected.hgrm")]), operations)
        for text in texts:
            self.assertIn("1/(1-Percentile)", text.read_text())
        return json.loads(file.read_text())

    def test_service_bench(self):
        figures = self.measured(BIN / "service_bench", "--trips", 200, "--messages", 2000,
                                operations=2)
        self.assertGreater(figures["round_trip_us"], 0)

    def test_service_bench_of_sealed_packets(self):
        figures = self.measured(BIN / "service_bench", "--sealed", "--trips", 200, operations=2)
        self.assertGreater(figures["sealed_over_plain_and_sealing"], 0)
        self.assertGreater(figures["sealed_round_trip_us"], 0)

    @unittest.skipUnless(shutil.which("valgrind"), "valgrind counts instructions")
    def test_messages_do_not_pay_for_other_protocols(self):
        script = pathlib.Path(__file__).resolve().parents[2] / "bench" / "sub_connection_instructions"
        output = self.start([script, "--protocols", "--messages", 3200, "--bench", BIN / "sub_connection_bench"])
        self.assertEqual(len(re.findall(r"^ +(?:4|8|16) (?:batched|single) ", output, re.M)), 6, output)

    @unittest.skipUnless(shutil.which("valgrind"), "valgrind counts instructions")
    def test_a_hello_without_the_secret_costs_one_hash(self):
        script = pathlib.Path(__file__).resolve().parents[2] / "bench" / "seal_instructions"
        output = self.start([script, "--bench", BIN / "seal_bench"])
        self.assertIn("refused_hello", output)

    def test_thread_programs(self):
        script = pathlib.Path(__file__).resolve().parents[2] / "bench" / "thread_programs"
        file = self.folder / "figures.json"
        self.start([script, BIN, "--small", "--rounds", 1, "--clusters", "1,2", "--programs", "rays,sort", "--json", file,
                    "--", "--page-bytes", 16384])
        figures = json.loads(file.read_text())
        self.assertEqual(sorted(figures), ["rays / 1", "rays / 2", "sort / 1", "sort / 2"])
        self.assertTrue(all(figure["ratio"] > 0 for figure in figures.values()), figures)

    def test_thread_programs_in_virtual_time(self):
        script = pathlib.Path(__file__).resolve().parents[2] / "bench" / "thread_programs"
        ratios = []
        for options in ([], [], ["--", "--page-bytes", 16384]):
            file = self.folder / "figures.json"
            self.start([script, BIN, "--small", "--simulated", "modern", "--clusters", "2", "--programs", "transform", "--json", file,
                        *options])
            ratios.append(json.loads(file.read_text())["transform / 2"]["ratio"])
        self.assertGreater(ratios[0], 1)
        self.assertEqual(ratios[0], ratios[1], "it is exact")
        self.assertLess(ratios[2], ratios[0], "a transposition reads long rows")

    def test_wake_bench(self):
        figures = self.measured(BIN / "wake_bench", "--messages", 3, "--idle-s", 1, operations=2)
        self.assertGreater(figures["first_message_over_three_wakes"], 0)

    def test_transport_bench(self):
        figures = self.measured(BIN / "transport_bench", "--no-memif", "--trips", 100, "--milliseconds", 5, operations=8)
        self.assertGreater(figures["systems"]["udp service"]["round_trip_us_percentiles"]["p50"], 0)
        self.assertGreater(figures["systems"]["shm stack"]["round_trip_us_percentiles"]["p99.9"], 0)

    def test_transport_bench_over_a_veth(self):
        if reason := missing_namespaces() or missing_xdp():
            self.skipTest(reason)
        figures = self.measured(BIN / "transport_bench", "--veth", "--trips", 100, "--milliseconds", 5, operations=10)
        self.assertGreater(figures["systems"]["af_xdp stack"]["round_trip_us_percentiles"]["p50"], 0)
        self.assertGreater(figures["systems"]["af_packet stack"]["round_trip_us_percentiles"]["p50"], 0)

    def test_dsm_bench(self):
        figures = self.measured(*RUN, BIN / "dsm_bench", "--pages", 40, operations=6)
        self.assertGreater(figures["remote read fault"]["p50"], 0)

    def test_dsm_service_bench(self):
        figures = self.measured(*RUN, BIN / "dsm_service_bench", "--scan-mib", 1, operations=9)
        self.assertGreater(figures["over floor"]["read miss"], 0)

    def test_dsm_invoker_bench(self):
        figures = self.measured(BIN / "dsm_invoker_bench", "--pages", 64, operations=12)
        self.assertGreater(figures["fetch-and-add"]["p99"], 0)

    def test_local_sync_bench(self):
        figures = self.measured(BIN / "local_sync_bench", operations=4, BRAID_COMPUTE="2")
        self.assertGreater(figures["lock and unlock"]["ratio"], 0)

    def test_protection_bench(self):
        figures = self.measured(BIN / "protection_bench", operations=24)
        self.assertGreater(figures["read fault, mprotect"]["p50"], 0)

    def test_a_program_of_a_run_is_compared_with_another_build(self):
        output = self.start([BIN / "dsm_bench", "--pages", 10, "--rounds", 1, "--against", BIN / "dsm_bench"])
        self.assertIn("/remote read fault/p50", output)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
