"""tools/check_protocol.py finds each way in which rules, code and tests can disagree, and nothing else."""

import sys
import unittest

import tree

protocol = tree.load("check_protocol.py")

TABLE = "| rule | what | code | test |\n|---|---|---|---|\n"
CLEAN = {
    "docs/PROTOCOL.md": "# Rules\n\n"
    + TABLE
    + "| SW-1 | What is lost is retransmitted. | `stack/window.h` (`poll`) | `ResendsTheHole` |\n"
    + "| CN-1 | Who knocks is let in. | `ports.cpp` | `Doors.*`, `Ports.LetsIn` |\n",
    "docs/protocol_dsm.md": TABLE + "| PG-1 | One at a time. | `dsm/engine/pages.cpp` | `OneAtATime` |\n",
    "stack/window.h": "// Rules CN-1 .. are in docs/PROTOCOL.md.\nint poll();  // SW-1\n",
    "convergence/ports.cpp": "// CN-1\nvoid knock() {}\n",
    "dsm/engine/pages.cpp": "// PG-1, and no SWX-1 or ASW-2\n",
    "tests/stack/window_test.cpp": "// Windows.\nTEST(Window, ResendsTheHole) {  // SW-1\n  f();\n}\n",
    "tests/convergence/ports_test.cpp": "TEST_F(Ports, LetsIn) {\n  knock();  // CN-1\n}\nTEST(Doors, Open) {  // CN-1\n}\n",
    "tests/dsm/pages_test.cpp": "TEST(Pages, OneAtATime) {  // PG-1\n}\n",
}


class CheckProtocol(tree.TreeTest):
    def setUp(self):
        super().setUp()
        for path, text in CLEAN.items():
            self.write(path, text)

    def problems(self):
        return protocol.check_tree(self.root)[1]

    def change(self, path, old, new):
        self.assertIn(old, CLEAN[path])
        self.write(path, CLEAN[path].replace(old, new))

    def test_a_clean_tree_passes_and_its_rules_are_listed(self):
        rules, problems = protocol.check_tree(self.root)
        self.assertEqual(problems, [])
        self.assertEqual(sorted(rules), ["CN-1", "PG-1", "SW-1"])
        self.assertEqual(rules["CN-1"].code, {"convergence/ports.cpp"})
        self.assertEqual(rules["CN-1"].tests, {"Ports.LetsIn", "Doors.Open"})

    def test_a_rule_without_code(self):
        self.change("convergence/ports.cpp", "// CN-1\n", "")
        self.assertEqual(self.problems(), ["docs/PROTOCOL.md:6: CN-1: no code carries the number"])

    def test_a_rule_without_a_test(self):
        self.change("tests/stack/window_test.cpp", "  // SW-1", "")
        self.assertEqual(self.problems(), ["docs/PROTOCOL.md:5: SW-1: no test carries the number"])

    def test_a_number_outside_a_test_does_not_count(self):
        self.change("tests/stack/window_test.cpp", "  // SW-1", "")
        self.write("tests/stack/fixture.h", "// for SW-1\n")
        self.assertEqual(self.problems(), ["docs/PROTOCOL.md:5: SW-1: no test carries the number"])
        self.write("tests/stack/window_test.cpp", "// SW-1\n" + "TEST(Window, ResendsTheHole) {\n}\n// SW-1\n")
        self.assertEqual(self.problems(), ["docs/PROTOCOL.md:5: SW-1: no test carries the number"])

    def test_a_number_without_a_rule_is_reported(self):
        self.write("stack/other.cpp", "int a;\n// SW-7\n")
        self.write("tests/stack/other_test.cpp", "TEST(A, B) {  // LK-3\n}\n")
        self.assertEqual(
            self.problems(),
            ["stack/other.cpp:2: SW-7 is not the number of a rule", "tests/stack/other_test.cpp:1: LK-3 is not the number of a rule"],
        )

    def test_a_rule_defined_twice(self):
        self.change("docs/protocol_dsm.md", "| PG-1 |", "| SW-1 | Again. | `window.h` | `ResendsTheHole` |\n| PG-1 |")
        self.assertEqual(
            self.problems(), ["docs/protocol_dsm.md:3: SW-1: is defined at docs/PROTOCOL.md:5 too"]
        )

    def test_a_row_that_names_a_missing_file_or_test(self):
        self.change("docs/PROTOCOL.md", "`stack/window.h`", "`stack/gone.h`")
        self.assertEqual(self.problems(), ["docs/PROTOCOL.md:5: SW-1: no file stack/gone.h"])
        self.change("docs/PROTOCOL.md", "`ResendsTheHole`", "`ResendsNothing`")
        self.assertEqual(self.problems(), ["docs/PROTOCOL.md:5: SW-1: no test ResendsNothing"])
        self.change("docs/PROTOCOL.md", "`Doors.*`", "`Windows.*`")
        self.assertEqual(self.problems(), ["docs/PROTOCOL.md:6: CN-1: no test Windows.*"])
        self.change("docs/PROTOCOL.md", "`ResendsTheHole`", "none")
        self.assertEqual(self.problems(), ["docs/PROTOCOL.md:5: SW-1: the row names no test"])

    def test_a_rule_of_an_unlisted_series(self):
        self.change("docs/PROTOCOL.md", "| SW-1 |", "| XY-1 |")
        self.assertIn("docs/PROTOCOL.md:5: XY-1: its series is not in SERIES, so nothing checks it", self.problems())

    def test_every_series_of_the_documents_is_checked(self):
        self.assertIn("FO", protocol.SERIES)
        self.change("convergence/ports.cpp", "// CN-1\n", "// CN-1, FO-3\n")
        self.assertEqual(self.problems(), ["convergence/ports.cpp:1: FO-3 is not the number of a rule"])

    def test_a_row_with_the_wrong_number_of_cells(self):
        self.change("docs/PROTOCOL.md", " | `ResendsTheHole` |", " |")
        found = self.problems()
        self.assertIn("docs/PROTOCOL.md:5: SW-1: a rule's row has four cells: rule, what, code, test", found)

    def test_a_document_that_is_missing(self):
        (self.root / "docs/protocol_dsm.md").unlink()
        self.assertIn("docs/protocol_dsm.md: is missing", self.problems())

    def test_as_a_command_it_prints_the_rules_and_fails(self):
        script = tree.TOOLS / "check_protocol.py"
        clean = self.run_tool(sys.executable, script, self.root)
        self.assertEqual(clean.returncode, 0, clean.stdout + clean.stderr)
        self.assertIn("SW-1   stack/window.h\n       Window.ResendsTheHole\n", clean.stdout)
        self.assertIn("3 rules, 0 problems", clean.stdout)
        self.change("convergence/ports.cpp", "// CN-1\n", "")
        broken = self.run_tool(sys.executable, script, self.root, "--quiet")
        self.assertEqual(broken.returncode, 1)
        self.assertEqual(len(broken.stdout.splitlines()), 2)
        empty = self.root / "empty"
        empty.mkdir()
        self.assertEqual(self.run_tool(sys.executable, script, empty).returncode, 1)


if __name__ == "__main__":
    unittest.main()
