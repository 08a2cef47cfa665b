"""tools/study_table puts the right points beside the paper's figures, and says which are missing."""

import os
import subprocess
import sys
import unittest

import tree

HEAD = "application,arguments,clusters,compute,proxies,simulation.mode,parallel_cycles,message_cycles,queue_of_messages,utilisation"
# The paper's figures themselves, so deviations are nought; at 2 and 8 the neighbours lie evenly about them.
POINTS = [
    ("water", 16, 1, 1, "real", 2403, 8920, 0.534, 0.352),
    ("water", 16, 1, 1, "no-delay", 1000, 1, 0, 0),
    ("water", 8, 2, 1, "real", 2256 + 41, 9232 + 82, 0.636 + 0.041, 0.387 + 0.0041),
    ("water", 8, 2, 2, "real", 2256 - 59, 9232 - 118, 0.636 - 0.059, 0.387 - 0.0059),
    ("water", 8, 2, 1, "no-delay", 1000, 1, 0, 0),
    ("water", 8, 2, 2, "no-delay", 1000, 1, 0, 0),
    ("water", 4, 4, 2, "real", 1918 * 2, 8017, 0.502, 0.362),
    ("water", 4, 4, 2, "no-delay", 2000, 1, 0, 0),
    ("water", 2, 8, 2, "real", 1567 + 83, 8243 + 83, 0.556 + 0.083, 0.382 + 0.083),
    ("water", 2, 8, 3, "real", 1567 - 17, 8243 - 17, 0.556 - 0.017, 0.382 - 0.017),
    ("water", 2, 8, 2, "no-delay", 1000, 1, 0, 0),
    # Neither is Water on 16 compute nodes.
    ("jacobi", 16, 1, 1, "real", 7, 7, 7, 7),
    ("water", 8, 1, 1, "real", 7, 7, 7, 7),
]


def row(application, clusters, compute, proxies, mode, *figures):
    return ",".join(map(str, (application, "", clusters, compute, proxies, mode, *figures)))


class StudyTable(tree.TreeTest):
    def table(self, points, *options, head=HEAD, extra=""):
        self.write("water/points.csv", "\n".join([head, *(row(*p) + extra for p in points)]) + "\n")
        return self.run_tool(tree.TOOLS / "study_table", self.root / "water", *options)

    def test_the_papers_own_figures_have_no_deviation(self):
        result = self.table(POINTS)
        self.assertEqual(result.returncode, 0, result.stderr)
        lines = result.stdout.splitlines()
        self.assertEqual(lines[0], "| paper / ours (deviation), cluster size | 1 | 2 | 4 | 8 |")
        self.assertEqual(lines[2], "| proxies per cluster | 1 | 1.41 | 2 | 2.83 |")
        self.assertEqual(
            lines[3],
            "| message time (cycles) | 8920 / 8920 (+0.0 %) | 9232 / 9232 (+0.0 %) | 8017 / 8017 (+0.0 %) "
            "| 8243 / 8243 (+0.0 %) |",
        )
        self.assertEqual(
            lines[6],
            "| slowdown against no delay | 2.403 / 2.403 (+0.0 %) | 2.256 / 2.256 (+0.0 %) | 1.918 / 1.918 (+0.0 %) "
            "| 1.567 / 1.567 (+0.0 %) |",
        )
        self.assertEqual(len(lines), 7)
        self.assertEqual(result.stdout.count("(+0.0 %)"), 16)

    def test_any_figure_of_any_study(self):
        points = [("/apps/fft", 4, c, p, "real", 100 * p + c, 1, 0.5 * p, 1) for c in (1, 2) for p in (1, 2)]
        result = self.table(points, "--figure", "queue_of_messages")
        self.assertEqual(result.stdout.splitlines(), [
            "| program | compute | proxies 1 | proxies 2 |", "|---|---|---|---|", "| fft | 1 | 0.5 | 1 |", "| fft | 2 | 0.5 | 1 |"])
        result = self.table(points, "--figure", "parallel_cycles", "--over", "compute", "--where", "proxies=2")
        self.assertEqual(result.stdout.splitlines()[0::2], ["| program | compute 1 | compute 2 |", "| fft | 201 | 202 |"])
        for words, cure in ((("--figure", "queu"), "no column 'queu'"), (("--figure", "queue_of_messages", "--over", "x"), "no column 'x'"),
                            (("--figure", "application"), "is no number"), (("--over", "compute"), "belongs to --figure")):
            result = self.table(points, *words)
            self.assertEqual(result.returncode, 2)
            self.assertIn(cure, result.stderr)

    def test_any_figure_is_the_median_over_seeds(self):
        points = [("fft", 4, 1, 1, "real", cycles, 1, 1, 1) for cycles in (10, 30, 12)]
        rows = [row(*p) + f",{seed}" for seed, p in enumerate(points)]
        head = HEAD.replace(",parallel_cycles", ",faults.seed,parallel_cycles")
        rows = [",".join([*r.split(",")[:6], r.split(",")[-1], *r.split(",")[6:-1]]) for r in rows]
        self.write("water/points.csv", "\n".join([head, *rows]) + "\n")
        result = self.run_tool(tree.TOOLS / "study_table", self.root / "water", "--figure", "parallel_cycles")
        self.assertEqual(result.stdout.splitlines()[2], "| fft | 12 |")

    def test_a_deviation_is_relative_to_the_papers_figure(self):
        points = [(*p[:6], 10704, *p[7:]) if p[1:5] == (16, 1, 1, "real") else p for p in POINTS]
        self.assertIn("| message time (cycles) | 8920 / 10704 (+20.0 %) |", self.table(points).stdout)

    def test_a_missing_point_is_named(self):
        result = self.table([p for p in POINTS if p[1:5] != (2, 8, 3, "real")])
        self.assertEqual(result.returncode, 2)
        self.assertIn("no point for water in clusters of 8, proxies 3, simulation.mode real", result.stderr)
        result = self.table([p for p in POINTS if p[1:5] != (4, 4, 2, "no-delay")])
        self.assertIn("no point for water in clusters of 4, simulation.mode no-delay", result.stderr)

    def test_several_matching_points_are_refused(self):
        head = HEAD + ",dispatch"
        both = "\n".join([head, *(row(*p) + ",rr" for p in POINTS), *(row(*p) + ",fixed" for p in POINTS)])
        self.write("water/points.csv", both + "\n")
        command = (tree.TOOLS / "study_table", self.root / "water")
        result = self.run_tool(*command)
        self.assertEqual(result.returncode, 2)
        self.assertIn("2 points for water in clusters of 1, proxies 1", result.stderr)
        self.assertIn("--where KEY=VALUE", result.stderr)
        self.assertEqual(self.run_tool(*command, "--where", "dispatch=rr").returncode, 0)
        result = self.run_tool(*command, "--where", "despatch=rr")
        self.assertEqual(result.returncode, 2)
        self.assertIn("no column 'despatch'", result.stderr)

    def of_seeds(self, *options, leave_out=()):
        """A study of three seeds: with the second all real runs take twice as long as with the first, with the third thrice."""
        rows = [
            row(*p[:5], p[5] * (seed if p[4] == "real" else 1), *p[6:]) + f",{seed}"
            for seed in (3, 1, 2)
            for p in POINTS
            if (seed, *p[1:5]) not in leave_out
        ]
        self.write("water/points.csv", "\n".join([HEAD + ",faults.seed", *rows]) + "\n")
        return self.run_tool(tree.TOOLS / "study_table", self.root / "water", *options)

    def test_it_prints_the_median_of_several_seeds(self):
        result = self.of_seeds()
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("| message time (cycles) | 8920 / 8920 (+0.0 %) |", result.stdout)
        self.assertIn("| slowdown against no delay | 2.403 / 4.806 (+100.0 %) |", result.stdout)
        self.assertIn("2.403 / 7.209 (", self.of_seeds("--where", "faults.seed=3").stdout)

    def test_each_seed_needs_its_points(self):
        result = self.of_seeds(leave_out=[(2, 4, 4, 2, "real")])
        self.assertEqual(result.returncode, 2)
        self.assertIn("no point for water in clusters of 4, proxies 2, simulation.mode real", result.stderr)

    def test_programs_by_cluster_size_and_proxies(self):
        millions = [
            ("jacobi", 8, 2, 1, "no-delay", 2e6, 0, 0, 0),
            ("jacobi", 8, 2, 1, "no-contention", 3e6, 0, 0, 0),
            ("jacobi", 8, 2, 1, "real", 4.5e6, 0, 0, 0),
            ("jacobi", 8, 2, 2, "real", 4e6, 0, 0, 0),
            ("jacobi", 1, 16, 1, "no-delay", 1e6, 0, 0, 0),
            ("/elsewhere/tsp", 8, 2, 2, "real", 7e6, 0, 0, 0),
        ]
        result = self.table(millions, "--programs")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(
            result.stdout.splitlines(),
            [
                "| program | cluster size | no delay | no contention | 1 | 2 | contention | seeds apart |",
                "|---|---|---|---|---|---|---|---|",
                "| jacobi | 2 | 2.00 | 3.00 | 4.50 | 4.00 | 1.50 |  |",
                "| jacobi | 16 | 1.00 |  |  |  |  |  |",
                "| tsp | 2 |  |  |  | 7.00 |  |  |",
            ],
        )

    def test_programs_by_the_median_of_seeds(self):
        rows = [
            row("tsp", 8, 2, 1, mode, cycles, 0, 0, 0) + f",{seed}"
            for seed, free, real in ((1, 1e6, 3e6), (2, 2e6, 4e6), (3, 4e6, 4.4e6))
            for mode, cycles in (("no-contention", free), ("real", real))
        ]
        self.write("tsp/points.csv", "\n".join([HEAD + ",faults.seed", *rows]) + "\n")
        result = self.run_tool(tree.TOOLS / "study_table", self.root / "tsp", "--programs")
        # Contention is 3, 2 and 1.1.
        self.assertEqual(result.stdout.splitlines()[2], "| tsp | 2 |  | 2.00 | 4.00 | 2.00 | 150.0 % |", result.stderr)

    def of_protocols(self, *protocols):
        head = "application,arguments,clusters,protocol,messages,message_bytes,parallel_cycles"
        rows = {
            "eager": "/elsewhere/water,--molecules 64,4,eager,2000,500,8e6",
            "lazy": "/elsewhere/water,--molecules 64,4,lazy,1500,600,4e6",
        }
        self.write("protocols/points.csv", "\n".join([head, *(rows[p] for p in protocols)]) + "\n")
        return self.run_tool(tree.TOOLS / "study_table", self.root / "protocols", "--protocols")

    def test_messages_by_protocol(self):
        result = self.of_protocols("lazy", "eager")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(
            result.stdout.splitlines()[2], "| water --molecules 64 | 4 | 2000 | 1500 | 0.75 | 1000 | 900 | 0.90 | 0.50 |"
        )

    def test_a_protocol_without_points_is_reported(self):
        result = self.of_protocols("lazy")
        self.assertEqual(result.returncode, 2)
        self.assertIn("has 0 and 1 points for water --molecules 64 on 4 clusters, eager and lazy", result.stderr)
        self.assertIn("no column 'protocol'", self.table([("tsp", 8, 2, 2, "real", 7e6, 0, 0, 0)], "--protocols").stderr)

    def claims(self, *folders):
        """By (source, claim): ours, the verdict and the evidence."""
        result = self.run_tool(tree.TOOLS / "study_table", "--claims", *(self.root / name for name in folders))
        self.assertEqual(result.returncode, 0, result.stderr)
        lines = result.stdout.splitlines()
        self.assertEqual(lines[0], "| | claim | paper | ours | verdict | evidence |")
        cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]
        return {(source, claim): (ours, verdict, evidence) for source, claim, _, ours, verdict, evidence in cells}

    def write_points(self, name, points, head=HEAD):
        self.write(name + "/points.csv", "\n".join([head, *(row(*p) for p in points)]) + "\n")

    MVA_HEAD = ("application,arguments,clusters,compute,proxies,simulation.mode,faults.seed,message_cycles,mva_message_cycles,"
                "utilisation,mva_utilisation,point")

    def mva(self, *lines):
        self.write("water/mva.csv", "\n".join([self.MVA_HEAD, *lines]) + "\n")
        return self.run_tool(tree.TOOLS / "study_table", self.root / "water", "--mva")

    def test_mean_value_analysis_stands_beside_the_simulation(self):
        result = self.mva("a,,2,1,1,real,1,2900,3000,0.6,0.667,p", "a,,2,1,1,real,2,3100,3300,0.7,0.767,q", "a,,2,1,1,real,3,2000,2100,0.5,0.1,r",
                          "a,,4,1,1,real,1,3400,3400,0.4,0.370,s")
        self.assertEqual(result.stdout.splitlines(), [
            "| program | clusters | message time, simulated | MVA | deviation | utilisation, simulated | MVA |", "|---|---|---|---|---|---|---|",
            "| a | 2 | 2900 | 3000 | +3.4 % | 0.600 | 0.667 |", "| a | 4 | 3400 | 3400 | +0.0 % | 0.400 | 0.370 |"], result.stderr)

    def test_mean_value_analysis_needs_a_run_without_contention(self):
        result = self.mva()
        self.assertEqual(result.returncode, 2)
        self.assertIn("in simulation.mode real and no-contention; vary that mode", result.stderr)
        (self.root / "water" / "mva.csv").unlink()
        result = self.run_tool(tree.TOOLS / "study_table", self.root / "water", "--mva")
        self.assertEqual(result.returncode, 2)
        self.assertIn("mva.csv: No such file or directory; name the folder that 'braid study' of this version wrote", result.stderr)

    def test_claims_about_table_2(self):
        slower = [(*p[:5], p[5] * 1.2 if p[1:5] == (4, 4, 2, "real") else p[5], *p[6:]) for p in POINTS]
        self.write_points("water", slower)
        claims = self.claims("water")
        self.assertEqual(claims["Table 2", "slowdown against no delay at cluster size 1"], ("2.403, +0 %", "agrees", "water"))
        self.assertEqual(claims["Table 2", "slowdown against no delay at cluster size 4"], ("2.302, +20 %", "differs", "water"))
        self.assertEqual(claims["Table 2", "queue length at a proxy at cluster size 8"], ("0.556, +0 %", "agrees", "water"))
        self.assertEqual(
            claims["Table 2", "with square-root proxies the slowdown does not grow with the cluster (5 %)"],
            ("2.40, 2.26, 2.30, 1.57", "agrees", "water"),
        )
        self.assertEqual(claims["figure 8", "jacobi is insensitive to the number of proxies (5 %)"], ("", "not run", ""))
        self.assertEqual({v for (source, _), (_, v, _) in claims.items() if source.startswith("figure") and source != "figure 13"}, {"not run"})

    def test_claims_about_programs(self):
        times = {"jacobi": (10, 11, 12, 11.5), "gauss": (10, 11, 14, 12), "fft": (10, 12, 20, 14), "barnes": (10, 9, 20, 19.6),
                 "matmul": (1000, 996, 1100, 1100)}
        modes = (("no-delay", 1), ("no-contention", 1), ("real", 1), ("real", 2))
        self.write_points("matrix", [(name, 8, 2, proxies, mode, cycles, 0, 0, 0)
                                     for name, all_times in times.items() for (mode, proxies), cycles in zip(modes, all_times)])
        self.write_points("water", POINTS[:-2])
        claims = self.claims("water", "matrix")
        for program, figure, verdict in (("jacobi", 8, "agrees"), ("gauss", 10, "differs")):
            self.assertEqual(claims[f"figure {figure}", f"{program} is insensitive to the number of proxies (5 %)"][1], verdict)
        for program, figure, ours, verdict in (("fft", 11, "30 % less (size 2)", "agrees"), ("barnes", 14, "2 % less (size 2)", "differs")):
            self.assertEqual(claims[f"figure {figure}", f"{program} takes less time with more proxies (5 % at each size)"],
                             (ours, verdict, "matrix"))
        self.assertEqual(claims["figure 11", "fft: no delay <= no contention <= real (0.5 %)"][1], "agrees")
        self.assertEqual(claims["figure 9", "matmul: no delay <= no contention <= real (0.5 %)"][1], "agrees")
        self.assertEqual(claims["figure 14", "barnes: no delay <= no contention <= real (0.5 %)"],
                         ("size 2: 0.00, 0.00, 0.00", "differs", "matrix"))

    def test_claims_about_water_as_clusters_grow(self):
        def points(contention):
            return [("water", 16 // size, size, 1, mode, cycles, 0, 0, 0)
                    for size, times in zip((1, 2, 4), contention) for mode, cycles in (("real", times * 10), ("no-contention", 10))]
        claim = ("section 6", "with one proxy contention grows with the cluster: Water")
        self.write_points("water", points((1.2, 1.4, 1.6)))
        self.assertEqual(self.claims("water")[claim], ("1.20, 1.40, 1.60 times no contention at 1, 2, 4", "agrees", "water"))
        self.write_points("water", points((1.2, 1.4, 1.3)))
        self.assertEqual(self.claims("water")[claim][1], "differs")
        head = HEAD.replace("message_cycles", "messages_per_million_cycles")
        for rates, verdicts in (((50, 90, 200, 450), ["agrees", "agrees"]), ((50, 90, 80, 900), ["differs", "differs"])):
            self.write_points("load", [("water", 2, size, 1, "no-delay", 1, rate, 0, 0) for size, rate in zip((1, 2, 4, 8), rates)], head)
            found = [v for (source, _), (_, v, _) in self.claims("load").items() if source == "figure 1"]
            self.assertEqual(found, verdicts)

    def test_claims_about_an_idle_message(self):
        for latency, edges, verdict in ((720, (1400, 2900), "agrees"), (800, (1400, 2000), "differs")):
            rows = [(size, 3000 + size + min(size, edges[0]) + 400 * sum(size > edge for edge in edges), 1, latency, 1) for size in range(0, 4001, 100)]
            self.write("idle/idle.csv", "\n".join(["bytes,cycles,send,network,receive", *(",".join(map(str, r)) for r in rows)]) + "\n")
            claims = self.claims("idle")
            self.assertEqual([claims[key][1] for key in claims if key[0] in ("figure 6", "figure 7") and "matmul" not in key[1]], [verdict] * 2)

    def test_only_claims_take_several_folders(self):
        result = self.run_tool(tree.TOOLS / "study_table", self.root / "a", self.root / "b")
        self.assertEqual(result.returncode, 2)
        self.assertIn("several folders belong to --claims", result.stderr)

    def test_a_missing_study_is_reported(self):
        result = self.run_tool(tree.TOOLS / "study_table", self.root / "nowhere")
        self.assertEqual(result.returncode, 2)
        self.assertIn("nowhere/points.csv: No such file or directory; name the folder", result.stderr)

    def test_a_damaged_table_is_named(self):
        self.write("short/points.csv", HEAD + "\nwater,,16\n")
        (self.root / "bytes").mkdir()
        (self.root / "bytes" / "points.csv").write_bytes(b"\xff\xfe")
        for folder, text in (("short", "point 1 has not as many values as there are columns"), ("bytes", "is no table of text")):
            result = self.run_tool(tree.TOOLS / "study_table", self.root / folder, "--figure", "parallel_cycles")
            self.assertEqual(result.returncode, 2)
            self.assertIn(f"{folder}/points.csv: {text}; let 'braid study' write it again", result.stderr)
            self.assertNotIn("Traceback", result.stderr)

    def test_a_condition_without_points_is_named(self):
        result = self.table(POINTS, "--where", "clusters=7")
        self.assertEqual(result.returncode, 2)
        self.assertIn("--where clusters=7: no point is left; 'clusters' is 16, 8, 4, 2", result.stderr)

    def test_an_output_that_takes_nothing_is_named(self):
        self.table(POINTS)
        reader, writer = os.pipe()
        os.close(reader)
        for output, text in ((os.open("/dev/full", os.O_WRONLY), "No space left on device"), (writer, "Broken pipe")):
            result = subprocess.run([str(tree.TOOLS / "study_table"), str(self.root / "water")], stdout=output,
                                    stderr=subprocess.PIPE, text=True, timeout=100, check=False)
            os.close(output)
            self.assertEqual(result.returncode, 73)
            self.assertEqual(result.stderr, f"study_table: standard output cannot be written: {text}\n")


if __name__ == "__main__":
    unittest.main()
