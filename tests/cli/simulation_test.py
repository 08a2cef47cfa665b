#!/usr/bin/env python3
"""`braid sim` as a user has it: real programs in shells, on the engine, in virtual time.

    simulation_test.py BIN NINJA_DIRECTORY [unittest arguments]
"""

import json
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import unittest

from simulated_runs import SMALL, Simulator

BIN = pathlib.Path(sys.argv[1])
BUILD = pathlib.Path(sys.argv[2])


sim = Simulator(BIN)


class Programs(unittest.TestCase):
    def test_each_result_is_right_on_every_machine(self):
        for name, arguments in SMALL.items():
            for clusters, compute, proxies in ((1, 4, 1), (2, 2, 1), (4, 1, 1), (2, 3, 2)):
                with self.subTest(program=name, clusters=clusters, compute=compute):
                    report, output, _ = sim("--clusters", str(clusters), "--compute", str(compute), "--proxies",
                                            str(proxies), name, *arguments)
                    self.assertIn("verified", output)
                    self.assertGreater(report["parallel_cycles"], 0)
                    self.assertEqual(len(report["nodes"]), clusters * compute)
                    # SW-10: no frame was lost.
                    self.assertEqual(report["messages"]["retransmissions"], 0)

    def test_each_result_is_right_with_the_lazy_protocol(self):
        for name, arguments in SMALL.items():
            for clusters, compute in ((4, 1), (2, 2)):
                with self.subTest(program=name, clusters=clusters, compute=compute):
                    shape = ("--clusters", str(clusters), "--compute", str(compute))
                    report, output, _ = sim(*shape, "--protocol", "lazy", name, *arguments)
                    self.assertIn("verified", output)
                    self.assertEqual(report["config"]["protocol"], "lazy")

    def test_an_option_of_braid_behind_the_programs_name_is_explained(self):
        _, _, errors = sim("--clusters", "1", "jacobi", "--size", "32", "--clusters", "4", "--proxies", "2", expect=None)
        self.assertIn("jacobi: --clusters is not an option of jacobi; see 'jacobi --help'. Options of 'braid run' and 'braid sim' "
                      "stand before the program's name", errors)
        _, _, errors = sim("--clusters", "1", "jacobi", "256", "512", expect=None)
        self.assertIn("jacobi: '256' is not expected; see 'jacobi --help'", errors)
    def test_each_result_is_right_with_the_papers_protocol(self):
        for name, arguments in {**SMALL, "water": [*SMALL["water"], "--updates", "pair"]}.items():
            for clusters, compute in ((4, 1), (2, 2)):
                with self.subTest(program=name, clusters=clusters, compute=compute):
                    shape = ("--clusters", str(clusters), "--compute", str(compute))
                    report, output, _ = sim(*shape, "--protocol", "mgs", "--handlers", "own", name, *arguments)
                    self.assertIn("verified", output)
                    self.assertEqual(report["config"]["protocol"], "mgs")
                    self.assertEqual(sum(c["cluster_counts"]["fetched_ahead"] for c in report["clusters"]), 0)
                    if name != "barnes":  # its tree is placed by first touch
                        self.assertEqual(sum(c["cluster_counts"]["homes_given"] for c in report["clusters"]), 0)

    def test_each_result_is_right_with_longer_pages(self):
        for page_bytes, protocol in (("8192", "eager"), ("16384", "lazy"), ("65536", "eager")):
            for name in ("jacobi", "gauss", "water", "barnes"):
                with self.subTest(program=name, page_bytes=page_bytes):
                    report, output, _ = sim("--clusters", "3", "--compute", "1", "--protocol", protocol, "--page-bytes",
                                            page_bytes, "--window-kib", "512", name, *SMALL[name])
                    self.assertIn("verified", output)
                    self.assertEqual(report["config"]["engine"]["page_bytes"], int(page_bytes))

    def test_longer_pages_need_fewer_messages_for_what_is_used_in_order(self):
        def pages_sent(*options):
            report, _, _ = sim("--clusters", "2", "--compute", "1", *options, "matmul", "--size", "128")
            return sum(c["cluster_counts"]["pages_sent"] for c in report["clusters"])

        short = pages_sent()
        self.assertEqual(pages_sent("--page-bytes", "4096"), short)
        self.assertLess(pages_sent("--set", "engine.page_bytes=16384"), short / 2)

    def test_a_length_that_no_page_can_have_is_refused(self):
        for words, text in ((("--page-bytes", "131072"), "1024 to 65536"),
                            (("--page-bytes", "512"), "1024 to 65536"),
                            (("--page-bytes", "5000"), "is not a power of two; take 4096 or 8192"),
                            (("--page-bytes", "32768", "--window-kib", "64"), "take at least 256")):
            _, _, errors = sim(*words, "jacobi", "--size", "32", expect=None)
            self.assertIn(text, errors)

    def test_a_lock_for_every_pair_takes_more_messages(self):
        def messages(updates):
            report, output, _ = sim("--clusters", "4", "--compute", "1", "water", *SMALL["water"], "--updates", updates)
            self.assertIn("verified", output)
            return report["messages"]["count"]

        self.assertGreater(messages("pair"), 2 * messages("step"))

    def test_own_handlers_hold_nobody_up(self):
        def held_up(handlers):
            report, _, _ = sim("--clusters", "4", "--compute", "1", "--handlers", handlers, "jacobi", "--size", "96")
            self.assertEqual(report["config"]["simulation"]["handlers"], handlers)
            return sum(node["handling"] for node in report["nodes"])

        self.assertGreater(held_up("compute"), 0)
        self.assertEqual(held_up("own"), 0)

    def test_the_report_says_what_was_simulated(self):
        report, _, _ = sim("--clusters", "2", "--compute", "1", "--protocol", "mgs", "--set",
                           "cycles.unit=5,engine.flush_window=4,transport.ack_every=3", "jacobi", "--size", "96")
        config = report["config"]
        self.assertEqual(config["transport"]["ack_every"], 3)
        self.assertEqual(config["transport"]["mtu_bytes"], 1500, "the model's")
        self.assertEqual(config["transport"]["fragmentation"], "ip", "the model's")
        self.assertEqual(config["engine"]["flush_window"], 4)
        self.assertEqual(config["engine"]["fetch_ahead"], 0, "the protocol's")
        self.assertEqual(config["engine"]["release_at_unlock"], "yes", "the protocol's")
        self.assertEqual(config["cycles"]["unit"], 5)
        self.assertEqual(config["cycles"]["latency"], 720, "the model's")
        self.assertEqual(report["cycles_per_unit"], 5)
        # One cluster sends nothing.
        alone, _, _ = sim("--clusters", "1", "--compute", "2", "jacobi", "--size", "96")
        self.assertEqual(alone["config"]["simulation"]["mode"], "no-delay")

    def test_tsp_with_the_optimal_bound_searches_no_more(self):
        def parts(*words):
            _, output, _ = sim("--clusters", "2", "--compute", "2", "tsp", "--cities", "9", *words)
            self.assertIn("verified", output)
            return int(re.search(r", (\d+) parts", output)[1])

        free, bounded = parts(), parts("--optimal-bound")
        self.assertGreater(bounded, 0)
        self.assertLessEqual(bounded, free)

    def test_loops_of_a_team_run_on_compute_nodes(self):
        for name in ("jacobi", "matmul"):
            with self.subTest(program=name):
                _, output, _ = sim("--clusters", "2", "--compute", "3", name, "--intra", "tbb", *SMALL[name])
                self.assertIn("verified", output)

    def test_thirty_two_clusters_that_start_together_send_nothing_again(self):  # SW-10
        report, output, _ = sim("--clusters", "32", "--compute", "1", "water", "--molecules", "64", "--iterations", "1")
        self.assertIn("verified", output)
        self.assertEqual(report["messages"]["retransmissions"], 0)

    def test_sixty_four_compute_nodes(self):
        report, output, _ = sim("--clusters", "16", "--compute", "4", "--proxies", "2", "jacobi", "--size", "128",
                                "--iterations", "2")
        self.assertIn("verified", output)
        self.assertEqual(len(report["nodes"]), 64)

    def test_forces_without_energy_count(self):
        # In a lattice of 6 x 6 x 6 some molecules are at each other's cut-off, and with 128 nodes one finds nothing else.
        for updates in ("step", "pair"):
            _, output, _ = sim("--clusters", "1", "--compute", "128", "water", "--molecules", "216", "--iterations", "1",
                               "--updates", updates)
            self.assertIn("verified", output)

    def test_many_clusters_are_connected_at_first_use(self):
        def events(*words):
            report, output, _ = sim("--clusters", "70", "--compute", "1", *words, "jacobi", "--size", "142",
                                    "--iterations", "2")
            self.assertIn("verified", output)
            return report["events"]

        self.assertLess(events(), events("--connect", "at-start") / 2)

    def test_a_parent_may_ignore_the_ends_of_children(self):
        _, output, _ = sim("--clusters", "2", "--compute", "1", "jacobi", *SMALL["jacobi"],
                           before=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN))
        self.assertIn("verified", output)


class Determinism(unittest.TestCase):
    WATER = ["water", "--molecules", "64", "--iterations", "1"]
    SHAPE = ["--clusters", "4", "--compute", "2", "--proxies", "2"]

    def test_the_same_command_gives_the_same_trace(self):
        first, _, _ = sim(*self.SHAPE, *self.WATER)
        if not first["deterministic"]:
            self.skipTest("the compiler plug-in is not built: compute time comes from the processor's clock")
        # An environment of another size moves the stacks, as address-space randomisation also does.
        second, _, _ = sim(*self.SHAPE, *self.WATER, environment={"BRAID_TEST_PADDING": "x" * 5000})
        self.assertEqual(first["trace_hash"], second["trace_hash"])
        self.assertEqual(first["parallel_cycles"], second["parallel_cycles"])

    def test_a_run_by_the_processors_clock_is_reported(self):
        report, _, text = sim(*self.SHAPE, *self.WATER)
        self.assertEqual("runs differ, and computing takes" in text, not report["deterministic"])

    def test_a_seed_decides_which_frames_are_lost(self):
        def lossy(seed):
            return sim(*self.SHAPE, "--loss", "0.02", "--seed", str(seed), *self.WATER)[0]

        one, again, other = lossy(1), lossy(1), lossy(2)
        if not one["deterministic"]:
            self.skipTest("the compiler plug-in is not built")
        self.assertGreater(one["messages"]["frames_lost"], 0)
        self.assertEqual(one["trace_hash"], again["trace_hash"])
        self.assertNotEqual(one["trace_hash"], other["trace_hash"])

    def test_a_seed_draws_the_jitter(self):
        def seeded(seed, *words):
            return sim(*self.SHAPE, "--seed", str(seed), *words, *self.WATER)[0]

        one, two = seeded(1), seeded(2)
        if not one["deterministic"]:
            self.skipTest("the compiler plug-in is not built")
        self.assertNotEqual(one["trace_hash"], two["trace_hash"])
        exact = [seeded(seed, "--jitter", "0")["trace_hash"] for seed in (1, 2)]
        self.assertEqual(exact[0], exact[1], "nothing else is drawn where no frame is lost")
        self.assertNotEqual(one["trace_hash"], exact[0])

    def test_windows_and_strict_order_give_the_same_trace(self):
        for mode, connect in (("real", "at-start"), ("no-delay", "at-start"), ("real", "at-first-use")):
            with self.subTest(mode=mode, connect=connect):
                words = ["--clusters", "2", "--compute", "2", "--mode", mode, "--connect", connect, "jacobi", "--size",
                         "32", "--iterations", "1"]
                windows, _, _ = sim(*words)
                if not windows["deterministic"]:
                    self.skipTest("the compiler plug-in is not built")
                strict, _, _ = sim("--strict", *words)
                self.assertEqual(windows["trace_hash"], strict["trace_hash"])
                self.assertLess(windows["hand_overs"], strict["hand_overs"] / 10)


class Modes(unittest.TestCase):
    WATER = ["--clusters", "4", "--compute", "2", "water", "--molecules", "64", "--iterations", "1"]

    def test_without_delay_is_fastest_and_contention_costs(self):
        cycles = {mode: sim("--mode", mode, *self.WATER)[0] for mode in ("real", "no-delay", "no-contention")}
        self.assertLess(cycles["no-delay"]["parallel_cycles"], cycles["no-contention"]["parallel_cycles"])
        self.assertLess(cycles["no-contention"]["parallel_cycles"], cycles["real"]["parallel_cycles"])
        self.assertGreater(cycles["no-contention"]["fixed_delay_cycles"], 720)
        # The traced run is another run, equal to this one only if runs are deterministic.
        mean = cycles["real"]["messages"]["mean_bytes"]
        self.assertAlmostEqual(cycles["no-contention"]["message_bytes"], mean,
                               delta=1 if cycles["real"]["deterministic"] else 0.3 * mean)

    def test_the_messages_length_may_be_that_of_many_pages(self):
        words = ["--model", "modern", "--mode", "no-contention", "jacobi", "--size", "64"]
        delays = [sim("--message-bytes", str(bytes), *words)[0]["fixed_delay_cycles"] for bytes in (6584, 65536)]
        self.assertGreater(delays[1], 2 * delays[0])

    def test_faster_proxies_take_less_of_a_messages_time(self):
        slow, fast = (sim("--proxy-speed", speed, *self.WATER)[0] for speed in ("0.5", "2"))
        self.assertGreater(slow["messages"]["mean_send"], 2 * fast["messages"]["mean_send"])
        self.assertGreater(slow["mean_utilisation"], fast["mean_utilisation"])

    def test_shared_memory_counts_are_reported(self):
        report, _, _ = sim(*self.WATER)
        counts = [cluster["cluster_counts"] for cluster in report["clusters"]]
        total = {name: sum(c[name] for c in counts) for name in counts[0]}
        self.assertEqual(total["diffs_sent"], total["diffs_applied"])
        self.assertEqual(total["invalidations_sent"], total["invalidations_received"])
        self.assertGreater(total["diffs_sent"], 0)
        self.assertGreater(total["pages_sent"], 0)
        self.assertGreaterEqual(total["fetched_ahead"], 0)
        self.assertGreaterEqual(total["homes_given"], 0)
        self.assertGreaterEqual(total["forwarded"], 0)
        self.assertEqual(total["bad_messages"], 0)
        # By kind: every diff and every request is answered, and a run of pages is one message.
        self.assertEqual(total["sent_diff"], total["diffs_sent"])
        self.assertEqual(total["sent_diff_done"], total["diffs_sent"])
        self.assertLessEqual(total["sent_invalidate"], total["invalidations_sent"])
        self.assertLessEqual(total["sent_page_reply"], total["pages_sent"])
        self.assertGreater(total["sent_barrier_arrive"], 0)
        self.assertEqual(total["sent_write_notice"], 0)

    def test_queues_over_time_add_up_to_their_means(self):
        report, _, text = sim("--proxies", "2", *self.WATER)
        cycles = report["parallel_cycles"]
        self.assertEqual(len(report["proxies"]), 8)
        for proxy in report["proxies"]:
            queue = proxy["queue_over_time"]
            width, mean, most = queue["interval_cycles"], queue["mean"], queue["most"]
            self.assertEqual(len(mean), len(most))
            self.assertLess(32, len(mean))
            self.assertLessEqual(len(mean), 64)
            ends = [min(width * (i + 1), cycles) for i in range(len(mean))]
            self.assertAlmostEqual(ends[-1], cycles)
            self.assertLess(width * (len(mean) - 1), cycles)
            area = sum(m * (end - begin) for m, begin, end in zip(mean, [0] + ends, ends))
            # The report rounds cycles to integers, but not the end.
            self.assertAlmostEqual(area / cycles, proxy["mean_queue"], delta=proxy["mean_queue"] * 1e-5)
            self.assertEqual(max(most), proxy["most_queued"])
            self.assertTrue(all(m <= n for m, n in zip(mean, most)))
            self.assertGreater(max(mean), 1.2 * proxy["mean_queue"])
        line = re.search(r"queue over time, @ is (\S+): \[([ .:=+*#%@-]+)\]", text)
        together = [sum(p["queue_over_time"]["mean"][i] for p in report["proxies"]) / 8
                    for i in range(len(report["proxies"][0]["queue_over_time"]["mean"]))]
        self.assertAlmostEqual(float(line[1]), max(together), delta=0.01)
        self.assertEqual(len(line[2]), len(together))
        self.assertEqual(line[2][together.index(max(together))], "@")

    def test_counts_add_up(self):
        report, _, _ = sim("--nis", "2", "--proxies", "2", *self.WATER)
        m, cycles = report["messages"], report["parallel_cycles"]
        self.assertAlmostEqual(m["mean_cycles"],
                               sum(m["mean_" + part] for part in ("wait_to_send", "send", "network", "wait_to_receive",
                                                                  "receive")), delta=0.01)
        self.assertEqual(sum(c["received"] for c in report["clusters"]), m["count"])
        for k, cluster in enumerate(report["clusters"]):
            nodes = report["nodes"][2 * k:2 * k + 2]
            self.assertEqual(cluster["sent"], sum(n["messages"] for n in nodes))
            self.assertAlmostEqual(cluster["sent_per_million_cycles"],
                                   sum(n["messages_per_million_cycles"] for n in nodes))
            self.assertAlmostEqual(cluster["received_per_million_cycles"], cluster["received"] * 1e6 / cycles, delta=0.01)
        busy = sum(p["utilisation"] for p in report["proxies"]) * cycles
        self.assertAlmostEqual(sum(report["stages"].values()) / busy, 1, delta=1e-3)
        self.assertEqual([(link["cluster"], link["ni"]) for link in report["links"]],
                         [(k, n) for k in range(4) for n in range(2)])
        for link in report["links"]:
            self.assertAlmostEqual(link["mean_queue"],
                                   (link["mean_wait"] + link["mean_service"]) * link["frames"] / cycles, delta=1e-6)
        shares = report["shares"]
        self.assertAlmostEqual(sum(shares[key] for key in ("computing", "faults", "locks", "barriers", "syncs")), 1,
                               delta=1e-6)
        self.assertAlmostEqual(shares["communicating"], 1 - shares["computing"] + shares["held_up"])

    def test_a_mutant_changes_its_figures(self):
        right, last, free = (sim("--mutant", mutant, *self.WATER)[0]
                             for mutant in ("none", "last-in-first-out", "forgets-checksums"))
        self.assertLess(free["messages"]["mean_send"], 0.98 * right["messages"]["mean_send"])
        self.assertNotEqual(last["trace_hash"], right["trace_hash"])

    def test_a_trace_has_every_message_and_its_stages(self):
        with tempfile.TemporaryDirectory() as folder:
            trace = pathlib.Path(folder, "trace.jsonl")
            report, _, _ = sim("--trace", str(trace), *self.WATER)
            lines = [json.loads(line) for line in trace.read_text().splitlines()]
        self.assertEqual(len(lines), report["messages"]["count"])
        for m in lines:
            moments = [m[key] for key in ("handed", "served", "left", "on_link", "arrived", "taken", "delivered")]
            self.assertEqual(moments, sorted(moments))
            if m["behind_message"] != 0:
                self.assertGreater(m["ahead"], 0)
        mean = sum(m["delivered"] - m["handed"] for m in lines) / len(lines)
        self.assertAlmostEqual(mean, report["messages"]["mean_cycles"], delta=1)


class Incidents(unittest.TestCase):
    JACOBI = ["jacobi", "--size", "96", "--iterations", "4"]
    BASE = "clusters: 2\ncompute: 2\nproxies: 2\nnis: 2\n"

    def run_it(self, incidents, expect=0, more="", words=()):
        with tempfile.TemporaryDirectory() as folder:
            config, trace = pathlib.Path(folder, "run.yaml"), pathlib.Path(folder, "trace.jsonl")
            config.write_text(self.BASE + f"simulation:\n  incidents: [{incidents}]\n" + more)
            report, output, errors = sim("--config", str(config), "--trace", str(trace), *words, *self.JACOBI, expect=expect)
            lines = [json.loads(line) for line in trace.read_text().splitlines()] if trace.is_file() else []
            return report, output, errors, lines

    def test_a_run_with_a_stopped_proxy_is_right_slower_and_repeatable(self):
        good, output, _, _ = self.run_it("")
        self.assertIn("verified", output)
        self.assertEqual(good["incidents"], [])
        stop = "{at_us: 2000, kind: proxy-stops, cluster: 1, proxy: 0, for_us: 30000}"
        stopped, output, text, trace = self.run_it(stop)
        again = self.run_it(stop)[0]
        self.assertIn("verified", output)
        if good["deterministic"]:
            self.assertEqual(stopped["trace_hash"], again["trace_hash"])
            self.assertEqual(stopped["parallel_cycles"], again["parallel_cycles"])
            self.assertNotEqual(stopped["trace_hash"], good["trace_hash"])
        # 30 ms of a machine of 20 MHz.
        self.assertGreater(stopped["whole_cycles"], good["whole_cycles"] + 500_000)
        incident = stopped["incidents"][0]
        self.assertEqual([incident[key] for key in ("kind", "cluster", "proxy")], ["proxy-stops", 1, 0])
        self.assertEqual(incident["ended"] - incident["began"], 600_000)
        self.assertIn(f"incident: proxy 0 of cluster 1 stopped for 30000 us, {incident['began']} cycles after", text)
        self.assertEqual([line for line in trace if "incident" in line], [{"incident": 0, **incident}])

    def test_proxies_and_interfaces_that_never_return_are_replaced(self):
        for incident in ("kind: proxy-stops, cluster: 1, proxy: 0", "kind: ni-fails, cluster: 0, ni: 1"):
            with self.subTest(incident=incident):
                report, output, _, _ = self.run_it(f"{{at_us: 2000, {incident}}}")
                self.assertIn("verified", output)
                self.assertEqual(len(report["incidents"]), 1)
                self.assertNotIn("ended", report["incidents"][0])

    def test_the_last_message_of_a_failed_interface_is_sent_by_another_proxy(self):
        # No node sends anything until that message has arrived.
        with tempfile.TemporaryDirectory() as folder:
            config = pathlib.Path(folder, "run.yaml")
            config.write_text("clusters: 2\ncompute: 1\nproxies: 2\nnis: 2\nsimulation:\n"
                              "  incidents: [{at_us: 20000, kind: ni-fails, cluster: 0, ni: 0}]\n")
            _, output, _ = sim("--config", str(config), "water", "--molecules", "64", "--iterations", "1")
            self.assertIn("verified", output)

    def test_the_number_of_active_proxies_changes(self):
        report, output, _, _ = self.run_it("{at_us: 0, kind: active-proxies, cluster: 0, active: 1}, "
                                           "{at_us: 0, kind: active-proxies, cluster: 1, active: 1}")
        self.assertIn("verified", output)
        served = [proxy["messages"] for proxy in report["proxies"]]
        self.assertEqual(served[1] + served[3], 0)
        self.assertGreater(served[0], 0)

    def test_incidents_after_the_end_of_the_run_are_reported(self):
        report, _, text, _ = self.run_it("{at_us: 80000000, kind: ni-fails, cluster: 0, ni: 0, for_us: 5}")
        self.assertEqual(report["incidents"], [])
        self.assertIn("1 incident(s) did not begin: the run ended before", text)

    def test_invalid_incidents_are_refused_with_key_and_cure(self):
        where = "run.yaml:6:"
        for incident, text in (
            ("at_us: 1, kind: proxy-stops, cluster: 5, proxy: 0", "[0].cluster': 5 does not exist; allowed with clusters 2: 0 to 1"),
            ("at_us: 1, kind: proxy-stops, cluster: 1, proxy: 3", "[0].proxy': 3 does not exist; allowed with proxies 2: 0 to 1"),
            ("at_us: 1, kind: ni-fails, cluster: 1, ni: 2, for_us: 5", "[0].ni': 2 does not exist; allowed with nis 2: 0 to 1"),
            ("at_us: 1, kind: active-proxies, cluster: 1, active: 3", "[0].active': 3 are more than there are; allowed with proxies 2: 1 to 2"),
            ("at_us: 1, kind: active-proxies, cluster: 1, active: 0", "[0].active': 0 proxies serve nobody; set active to 1 or more"),
            ("at_us: -4, kind: proxy-stops, cluster: 1, proxy: 0", "[0].at_us': '-4' is not a whole number; allowed: 0 to"),
            ("at_us: 1, kind: proxy-dies, cluster: 1", "[0].kind': 'proxy-dies' is not allowed; allowed: proxy-stops, ni-fails, active-proxies"),
            ("at_us: 1, kind: proxy-stops, cluster: 1", "[0].kind': proxy-stops needs 'proxy'; add it"),
            ("at_us: 1, kind: ni-fails, cluster: 1, ni: 0, proxy: 0", "[0].proxy': ni-fails has no 'proxy', which is for proxy-stops"),
            ("kind: ni-fails, cluster: 1, ni: 0", "[0]': has no 'at_us'; add it"),
            ("at_us: 1, kind: proxy-stops, cluster: 1, proxy: 0}, {at_us: 2, kind: proxy-stops, cluster: 1, proxy: 1",
             "[1].proxy': leaves cluster 1 without a proxy for ever, and its peers give it up; add 'for_us'"),
            ("at_us: 1, kind: proxy-stops, cluster: 1, proxy: 0}, {at_us: 2, kind: ni-fails, cluster: 1, ni: 1",
             "[1].ni': leaves cluster 1 without a proxy for ever"),
        ):
            with self.subTest(incident=incident):
                _, _, errors, _ = self.run_it("{" + incident + "}", expect=78)
                self.assertIn(where, errors)
                self.assertIn("key 'simulation.incidents" + text, errors)

    def test_incidents_need_proxies(self):
        stop = "{at_us: 1, kind: proxy-stops, cluster: 0, proxy: 0, for_us: 5}"
        for words in (("--mode", "no-delay"), ("--clusters", "1")):
            with self.subTest(words=words):
                _, _, errors, _ = self.run_it(stop, expect=78, words=words)
                self.assertIn("nothing can happen to them; remove the incidents, or set", errors)


class Units(unittest.TestCase):
    def test_a_program_is_priced_by_its_own_unit(self):
        alewife = (BIN / "models/alewife-1997.yaml").read_text()
        with tempfile.TemporaryDirectory() as folder:
            model = pathlib.Path(folder, "units.yaml")
            model.write_text(alewife + "units:\n  jacobi: {value: 5, source: a test}\n")
            words = ["--clusters", "1", "--compute", "1", "jacobi", "--size", "64", "--iterations", "2"]
            usual, _, usual_text = sim(*words)
            own, _, own_text = sim("--model", str(model), *words)
            if not usual["deterministic"]:
                self.skipTest("the compiler plug-in is not built: there are no units")
            other, _, other_text = sim("--model", str(model), "matmul", "--size", "32")
        self.assertEqual(own["cycles_per_unit"], 5)
        self.assertEqual(other["cycles_per_unit"], usual["cycles_per_unit"])
        self.assertAlmostEqual(own["nodes"][0]["computing"] / usual["nodes"][0]["computing"],
                               5 / usual["cycles_per_unit"], delta=0.01)
        self.assertNotIn("has no unit for this one", usual_text + own_text)
        self.assertIn("model alewife-1997 has no unit for this one", other_text)


class Watchdog(unittest.TestCase):
    """Compute nodes of a cluster share a thread: two that wait for each other outside Braid would block for ever."""

    def run_it(self, way, expect, clusters="2", node=0):
        shape = ["--clusters", clusters, "--compute", "2", "--watchdog", "1"]
        _, output, errors = sim(*shape, str(BIN / "cli_stuck_app"), way, str(node), expect=expect)
        left = subprocess.run(["pgrep", "-f", f"cli_stuck_app {way}"], capture_output=True, text=True, check=False)
        self.assertEqual(left.stdout, "")
        return output, errors

    def test_a_mutex_of_the_program_ends_the_run(self):
        output, errors = self.run_it("mutex", 1)
        self.assertNotIn("done", output)
        self.assertRegex(errors, r"braid: cluster [01]: compute node [13] has waited for 1 s for a lock of the program's own")
        self.assertIn("std::mutex", errors)
        self.assertIn("Use locks, conditions, flags and barriers of dsm/api.h", errors)

    def test_a_mutex_that_is_locked_after_finish(self):
        output, errors = self.run_it("end", 1)
        self.assertEqual(output.count("done"), 2)
        self.assertRegex(errors, r"braid: after finish\(\), cluster 0: compute node 0 has waited for 1 s")

    def test_a_spin_lock_of_a_library_ends_the_run(self):
        report, _, _ = sim("jacobi", "--size", "32", "--iterations", "1")
        if not report["deterministic"]:
            self.skipTest("the compiler plug-in is not built: spinning and computing look the same")
        _, errors = self.run_it("spinlock", 1)
        self.assertRegex(errors, r"braid: cluster [01]: compute node [13] has used 1 s of the processor in code that is not charged")
        self.assertIn("--watchdog", errors)

    def test_a_process_that_is_killed_while_all_compute_is_named(self):
        # The baton goes from cluster to cluster meanwhile, without the simulator.
        for cluster in (0, 1, 2):
            _, errors = self.run_it("killed", 137, clusters="3", node=2 * cluster + 1)
            self.assertIn(f"braid: the program of cluster {cluster} was killed by signal 9 (Killed) in the middle of the run", errors)

    def test_long_computing_does_not_end_the_run(self):
        # In one cluster no other event ends a window.
        output, _ = self.run_it("computing", 0, clusters="1")
        self.assertEqual(output.count("done"), 1)


class IdleMessages(unittest.TestCase):
    def test_figure_six(self):
        run = subprocess.run([BIN / "braid", "sim", "--idle-message", "0:4000:100"], capture_output=True, text=True,
                             check=True)
        rows = [[float(cell) for cell in line.split(",")] for line in run.stdout.splitlines()[1:]]
        self.assertEqual([row[0] for row in rows], list(range(0, 4001, 100)))
        for row in rows:
            self.assertAlmostEqual(row[1], sum(row[2:]), delta=2)
        rises = [later[1] - earlier[1] for earlier, later in zip(rows, rows[1:])]
        usual = sorted(rises)[len(rises) // 2]
        steps = [100 * i for i, rise in enumerate(rises) if rise > 2 * usual]
        self.assertEqual(steps, [1400, 2800])

    def test_what_is_no_length_and_what_belongs_to_a_run_is_refused(self):
        for words, status, text in (
            (["9:3:1"], 78, "9:3:1"),
            (["many"], 78, "many"),
            (["100", "jacobi"], 64, "sim: --idle-message runs no application; leave 'jacobi' out"),
            (["100", "--trace", "/dev/null"], 64, "sim: --idle-message runs no application; leave --trace out"),
            (["100", "--report", "/dev/null"], 64, "sim: --idle-message runs no application; leave --report out"),
        ):
            with self.subTest(words=words):
                run = subprocess.run([BIN / "braid", "sim", "--idle-message", *words], capture_output=True, text=True, check=False)
                self.assertEqual(run.returncode, status)
                self.assertIn(text, run.stderr)


class Mistakes(unittest.TestCase):
    def test_bad_input_is_named(self):
        for words, status, text in (
            (["--model", "/nowhere.yaml", "jacobi"], 78, "/nowhere.yaml"),
            (["--model", "alewife", "jacobi"], 78, "no cost model 'alewife'; there are: alewife-1997, alewife-1997-mgs, modern."),
            (["--proxy-speed", "9", "jacobi"], 64, "--proxy-speed"),
            (["nothing-of-that-name"], 64, "bin/sim; there are: barnes, fft, gauss, jacobi, matmul, tsp, unstructured, water."),
            ([], 64, "which application"),
            (["--trace", "/nowhere/trace", "jacobi"], 73, "/nowhere/trace"),
            (["--set", "engine.fetch_ahed=3", "jacobi"], 64, "did you mean 'engine.fetch_ahead'"),
            (["--set", "engine.fetch_ahead=many", "jacobi"], 64, "--set engine.fetch_ahead: 'many' is not allowed"),
            (["--set", "engine.fetch_ahead", "jacobi"], 64, "'engine.fetch_ahead' is not KEY=VALUE"),
            (["--set", "wire=dpdk", "jacobi"], 64, "'wire' has no effect in simulated runs"),
            (["--set", "transport.ack_delay_us=20000", "jacobi"], 78,
             "--set transport.ack_delay_us: ack_delay_us (20000) must be shorter than min_rto_us (20000)"),
            (["--nis", "2", "jacobi"], 78, "--nis: 2 network interfaces for 1 proxies"),
            (["--mode", "no-contention", "--message-bytes", "16385", "--window-kib", "64", "jacobi", "--size", "32"], 78,
             "simulation.message_bytes: 16385: a message is at most 16384 bytes with windows of 64 KiB"),
        ):
            with self.subTest(words=words):
                _, _, errors = sim(*words, expect=status)
                self.assertIn(text, errors)

    def test_settings_are_checked_with_the_models_values(self):
        # The model's min_rto_us is 20000, the default 500.
        report, _, _ = sim("--set", "transport.ack_delay_us=19999", "jacobi", "--size", "32")
        self.assertEqual(report["config"]["transport"]["ack_delay_us"], 19999)
        self.assertEqual(report["config"]["transport"]["min_rto_us"], 20000)

    def test_a_setting_of_live_runs_is_not_ignored_silently(self):
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as config:
            config.write("watchdog_s: 77\nclusters: 1\n")
            config.flush()
            _, _, errors = sim("--config", config.name, "jacobi", "--size", "32")
        self.assertIn(f"{config.name}:1:1: key 'watchdog_s': has no effect in simulated runs", errors)

    def test_live_runs_refuse_the_papers_protocol(self):
        live = subprocess.run([BIN / "braid", "run", "--protocol", "mgs", "jacobi"], capture_output=True, text=True, check=False)
        self.assertEqual(live.returncode, 78)
        self.assertIn("--protocol: 'mgs' is only for `braid sim`; take eager or lazy in a live run", live.stderr)

    def test_the_exit_of_a_program_ends_the_run(self):
        _, _, errors = sim("jacobi", "--size", "1", expect=2)
        self.assertIn("--size", errors)
        self.assertIn("exited with status 2 before its init()", errors)
        self.assertNotIn("as one does that was not built", errors)


class OneImplementation(unittest.TestCase):
    """Daemon, programs and simulator link the same archives, and the simulator defines none of their symbols."""

    def inputs(self, target):
        said = subprocess.run(["ninja", "-C", BUILD, "-t", "inputs", target], capture_output=True, text=True, check=True)
        return set(said.stdout.split())

    def test_the_same_archives(self):
        engine, daemon, program = self.inputs("bin/braid"), self.inputs("bin/braidd"), self.inputs("bin/jacobi")
        for archive in ("stack/libbraid_stack.a", "convergence/libbraid_convergence.a"):
            self.assertIn(archive, engine)
            self.assertIn(archive, daemon)
        self.assertIn("dsm/engine/libbraid_dsm_engine.a", engine)
        self.assertIn("dsm/engine/libbraid_dsm_engine.a", program)

    def test_the_simulator_defines_no_protocol(self):
        said = subprocess.run(["nm", "-C", "--defined-only", BUILD / "sim" / "libbraid_machine.a"], capture_output=True,
                              text=True, check=True).stdout
        theirs = [line for line in said.splitlines()
                  if re.search(r" [TD] braid::(stack|convergence|dsm|proxy)::", line)]
        self.assertEqual(theirs, [])


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
