"""tools/check counts what ran, and one failure anywhere is a failure of the whole."""

import json
import pathlib
import signal
import unittest

import tree

run_checks = tree.load("run_checks.py")

# Tests of each choice of builds.
PROJECT = """
cmake_minimum_required(VERSION 3.25)
project(small LANGUAGES NONE)
enable_testing()
add_test(NAME not_for_asan COMMAND sh -c "test $PRESET != asan")
set_tests_properties(not_for_asan PROPERTIES LABELS "live;no-asan")
add_test(NAME not_for_tsan COMMAND sh -c "test $PRESET != tsan")
add_test(NAME for_all COMMAND sh -c "exit 0")
set_tests_properties(for_all PROPERTIES LABELS threads)
"""
SKIPPED = """
add_test(NAME skipped COMMAND sh -c "exit 77")
set_tests_properties(skipped PROPERTIES SKIP_RETURN_CODE 77 LABELS threads)
"""
FAILING = """
add_test(NAME bad COMMAND sh -c "exit 1")
set_tests_properties(bad PROPERTIES LABELS threads)
"""
MISSING = """
add_test(NAME missing COMMAND ${CMAKE_BINARY_DIR}/no_such_program)
set_tests_properties(missing PROPERTIES LABELS threads)
"""
BROKEN_BUILD = 'add_custom_target(broken ALL COMMAND sh -c "exit 1")\n'

# A GoogleTest program with two tests: each process of it writes a line, and results if it was asked for them.
GOOGLETEST = """
add_test(NAME unit.A.one COMMAND ${CMAKE_SOURCE_DIR}/unit --gtest_filter=A.one)
add_test(NAME unit.A.two COMMAND ${CMAKE_SOURCE_DIR}/unit --gtest_filter=A.two)
set_tests_properties(unit.A.one unit.A.two PROPERTIES LABELS threads)
"""
UNIT = """#!/bin/sh
echo "$*" >>{root}/processes
grep SigIgn /proc/self/status >>{root}/ignored
for word; do case $word in --gtest_output=xml:*) results=${{word#--gtest_output=xml:}};; esac; done
[ -z "$results" ] || cat >"$results" <<END
<?xml version="1.0"?><testsuites><testsuite name="A">{cases}</testsuite></testsuites>
END
exit {status}
"""
PASSED = '<testcase name="one" classname="A" status="run" result="completed"/>'

JUNIT = """<?xml version="1.0"?><testsuite tests="{count}">{cases}</testsuite>"""


def case(name, status, inside=""):
    return f'<testcase name="{name}" status="{status}">{inside}</testcase>'


class TallyTest(unittest.TestCase):
    def tally(self, *cases):
        tally = run_checks.Tally()
        self.assertEqual(tally.add_junit("release", JUNIT.format(count=len(cases), cases="".join(cases))), len(cases))
        return tally

    def test_each_outcome_is_counted_in_its_category(self):
        tally = self.tally(
            case("a", "run"),
            case("b", "run"),
            case("c", "fail", '<failure message=""/>'),
            case("d", "notrun", '<skipped message="SKIP_REGULAR_EXPRESSION_MATCHED"/>'),
            case("e", "disabled", '<skipped message="Disabled"/>'),
        )
        self.assertEqual(tally.passed, 2)
        self.assertEqual(tally.failed, ["release: c"])
        self.assertEqual(tally.skipped, ["release: d", "release: e"])
        self.assertEqual(tally.closing_line(), "2 passed, 1 failed, 2 skipped")

    def test_a_test_whose_program_is_missing_counts_as_failed(self):
        tally = self.tally(case("a", "notrun", '<skipped message="Unable to find executable"/>'))
        self.assertEqual(tally.failed, ["release: a"])

    def test_without_skips_the_line_does_not_mention_them(self):
        self.assertEqual(self.tally(case("a", "run")).closing_line(), "1 passed, 0 failed")


class RunChecks(tree.TreeTest):
    """The whole script, on a project of a few lines with the same presets."""

    def setUp(self):
        super().setUp()
        presets = ("release", "asan", "tsan", "debug", "fuzz")
        self.write("CMakePresets.json", json.dumps({
            "version": 6,
            "configurePresets": [
                {"name": p, "generator": "Ninja", "binaryDir": "${sourceDir}/build/${presetName}"} for p in presets
            ],
            "buildPresets": [{"name": p, "configurePreset": p} for p in presets],
            "testPresets": [
                {"name": p, "configurePreset": p, "environment": {"PRESET": p}} for p in presets
            ],
        }))
        for script in ("check_layers.py", "check_format", "check_headers.py", "check_quickstart.py",
                       "check_commands.py", "install_packages", "quickstart"):
            self.stub(f"tools/{script}")
        self.stub(".ci/run")
        self.write("tools/check", (tree.TOOLS / "check").read_text(), mode=0o755)
        self.write("tools/run_checks.py", (tree.TOOLS / "run_checks.py").read_text(), mode=0o755)

    def stub(self, path, status=0):
        self.write(path, f"#!/bin/sh\nexit {status}\n", mode=0o755)

    def check(self, *tests):
        self.write("CMakeLists.txt", PROJECT + "".join(tests))
        return self.run_tool(self.root / "tools/check", cwd="/")

    def assert_closes(self, result, status, line):
        self.assertEqual(result.stdout.splitlines()[-1], line, result.stdout + result.stderr)
        self.assertEqual(result.returncode, status)

    # 2 x 3 configured and built, 5 source checks, quickstart and its commands; tests: 3 in release, 2 in asan, 1 in tsan.
    ALL = 6 + 5 + 2 + 6

    def test_a_run_without_failures_passes(self):
        self.assert_closes(self.check(), 0, f"{self.ALL} passed, 0 failed")

    def test_a_skipped_test_is_counted_separately(self):
        self.assert_closes(self.check(SKIPPED), 0, f"{self.ALL} passed, 0 failed, 3 skipped")

    def test_only_a_full_run_has_all_tests_in_two_builds(self):
        self.write("CMakeLists.txt", PROJECT + 'file(APPEND ${CMAKE_SOURCE_DIR}/configured "${CMAKE_BINARY_DIR} [$ENV{BRAID_TESTS_OF}]\\n")\n')
        for words, values in (((), ("commands", "units", "")), (("--full",), ("", "", ""))):
            (self.root / "configured").unlink(missing_ok=True)
            self.run_tool(self.root / "tools/check", *words)
            lines = (self.root / "configured").read_text().splitlines()
            for preset, value in zip(("release", "asan", "tsan"), values):
                self.assertIn(f"{self.root}/build/{preset} [{value}]", lines)

    def test_a_failing_test_fails_the_run_and_is_named(self):
        result = self.check(FAILING)
        self.assert_closes(result, 1, f"{self.ALL} passed, 3 failed")
        for preset in ("release", "asan", "tsan"):
            self.assertIn(f"{preset}: bad", result.stdout)

    def test_a_test_that_cannot_start_fails_the_run(self):
        self.assert_closes(self.check(MISSING), 1, f"{self.ALL} passed, 3 failed")

    def test_a_broken_build_fails_the_run_and_the_other_checks_still_run(self):
        result = self.check(BROKEN_BUILD)
        self.assert_closes(result, 1, f"{3 + 5} passed, 3 failed")
        self.assertIn("build asan", result.stdout)

    def test_a_project_that_cannot_be_configured_fails_the_run(self):
        self.assert_closes(self.check("message(FATAL_ERROR no)\n"), 1, "5 passed, 3 failed")

    def test_each_check_fails_the_run(self):
        for script in ("check_layers.py", "check_format", "check_headers.py", "check_quickstart.py", "quickstart",
                       "check_commands.py"):
            with self.subTest(script=script):
                self.stub(f"tools/{script}", status=1)
                self.assert_closes(self.check(), 1, f"{self.ALL - 1} passed, 1 failed")
                self.stub(f"tools/{script}")

    def test_packages_that_cannot_be_installed_fail_the_run(self):
        self.stub("tools/install_packages", status=1)
        self.assert_closes(self.check(), 1, "0 passed, 1 failed")

    def test_a_project_without_tests_fails(self):
        self.write("CMakeLists.txt", "cmake_minimum_required(VERSION 3.25)\nproject(none LANGUAGES NONE)\n"
                   "enable_testing()\n")
        result = self.run_tool(self.root / "tools/check")
        self.assertEqual(result.returncode, 1)
        self.assertRegex(result.stdout.splitlines()[-1], r"^\d+ passed, 3 failed$")

    def test_full_adds_the_debug_preset_and_the_longer_checks(self):
        self.write("CMakeLists.txt", PROJECT)
        self.write("build/release/bin/braid_run_stress_test", "#!/bin/sh\ntest \"$BRAID_STRESS_ALL\" = 1\n", mode=0o755)
        self.write("build/release/bin/dsm_engine_allocation_test", "#!/bin/sh\ntest \"$BRAID_LOCK_OPERATIONS\" = 100000000\n",
                   mode=0o755)
        self.write("build/release/bin/fault_simulation", f"#!/bin/sh\necho $* >>{self.root}/worlds\n", mode=0o755)
        self.write("build/release/bin/engine_explorer", f"#!/bin/sh\necho $* >>{self.root}/machines\n", mode=0o755)
        self.write("tests/live/failing_start_test.py", "import os\nassert os.environ['BRAID_FAIL_ALL'] == os.environ['BRAID_LONG_TESTS'] == '1'\n")
        self.write("tests/live/random_kills_test.py", "import sys\nassert sys.argv[2:] == ['--moments', '1000', '--seed', '0']\n")
        self.write("tests/cli/study_bytes_test.py", "import sys\nassert sys.argv[2:6] == ['--moments', '20', '--seed', '0']\n")
        self.write("tests/hosts/packet_hosts_test.py", "import os\nassert os.environ['BRAID_OUTAGE_SECONDS'] == '20'\n")
        self.stub("tools/fuzz_coverage")
        result = self.run_tool(self.root / "tools/check", "--full")
        # debug: configured, built, 2 tests; every process killed; 10^8 lock operations; lazy machines and worlds, twice each; 1,000 random moments; a study
        # at 20; every start refused something; a link down; long commands; lines that fuzzers reach; and the live tests repeated.
        self.assert_closes(result, 0, f"{self.ALL + 5 + 13} passed, 0 failed")
        self.assertEqual((self.root / "worlds").read_text(), "--seeds 10000 --jobs 2\n--shared-memory --seeds 5000 --jobs 2\n")
        self.assertEqual((self.root / "machines").read_text(), "--suite 1 --lazy\n--suite 2 --lazy\n")
        self.assertIn("every process killed once", result.stdout)
        self.assertIn("killed at 1,000 random moments", result.stdout)
        self.assertIn("failing_start_test.py", result.stdout)
        self.assertIn("live tests, repeated", result.stdout)

    def unit(self, cases, status=0):
        self.write("unit", UNIT.format(root=self.root, cases=cases, status=status), mode=0o755)
        return self.check(GOOGLETEST)

    def test_the_tests_of_a_program_run_in_one_process(self):
        result = self.unit(PASSED + PASSED.replace("one", "two"))
        self.assert_closes(result, 0, f"{self.ALL + 6} passed, 0 failed")
        processes = (self.root / "processes").read_text().splitlines()
        whole = [words for words in processes if words.startswith("--gtest_output=xml:")]
        self.assertEqual(len(whole), 2, "release and asan")
        self.assertEqual(sorted(set(processes) - set(whole)), ["--gtest_filter=A.one", "--gtest_filter=A.two"], "tsan: each by ctest")

    def test_programs_do_not_inherit_ignored_signals(self):
        self.write("unit", UNIT.format(root=self.root, cases=PASSED + PASSED.replace("one", "two"), status=0), mode=0o755)
        self.write("CMakeLists.txt", PROJECT + GOOGLETEST)
        result = self.run_tool("env", "--ignore-signal=QUIT", self.root / "tools/check")
        self.assert_closes(result, 0, f"{self.ALL + 6} passed, 0 failed")
        quit_is_ignored = [int(line.split()[1], 16) >> (signal.SIGQUIT - 1) & 1 for line in (self.root / "ignored").read_text().splitlines()]
        self.assertEqual(quit_is_ignored, [0] * 4)  # ctest does it, too

    def test_a_failed_test_of_a_program_is_named_with_what_it_said(self):
        result = self.unit(PASSED + '<testcase name="two" classname="A" status="run" result="completed">'
                           '<failure message="one is not two"/></testcase>', status=1)
        self.assert_closes(result, 1, f"{self.ALL + 2} passed, 4 failed")
        self.assertIn("release: unit.A.two", result.stdout)
        self.assertIn("one is not two", result.stdout)

    def test_a_skipped_test_of_a_program_is_counted_separately(self):
        result = self.unit(PASSED + '<testcase name="two" classname="A" status="run" result="skipped"><skipped/></testcase>')
        self.assert_closes(result, 0, f"{self.ALL + 4} passed, 0 failed, 2 skipped")

    def test_a_program_that_dies_fails_the_run(self):
        result = self.unit(PASSED, status=134)
        self.assert_closes(result, 1, f"{self.ALL + 2} passed, 4 failed")
        self.assertIn("unit ended with status 134 after 1 of 2 tests", result.stdout)

    def long_program(self, status=0):
        """node_test, one of SHARDS_OF: its first part has a test, its second another, and its third ends with that status."""
        self.write("node_test", f"""#!/bin/sh
results=${{1#--gtest_output=xml:}}
case $GTEST_SHARD_INDEX/$GTEST_TOTAL_SHARDS in
  0/4) cases='{PASSED}' ;;
  1/4) cases='{PASSED.replace("one", "two")}' ;;
esac
[ "$results" = "$1" ] || echo "<testsuites><testsuite>$cases</testsuite></testsuites>" >"$results"
[ "$GTEST_SHARD_INDEX" != 2 ] || exit {status}
""", mode=0o755)
        return self.check(GOOGLETEST.replace("unit", "node_test"))

    def test_a_long_program_runs_in_parts(self):
        self.assert_closes(self.long_program(), 0, f"{self.ALL + 6} passed, 0 failed")

    def test_a_part_of_a_long_program_that_dies_fails_the_run(self):
        result = self.long_program(status=134)
        self.assert_closes(result, 1, f"{self.ALL + 6} passed, 2 failed")
        self.assertIn("node_test ended with status 134 after 2 of 2 tests", result.stdout)

    def test_the_tests_of_a_program_that_must_run_alone_have_processes_of_their_own(self):
        self.write("unit", UNIT.format(root=self.root, cases="", status=0), mode=0o755)
        result = self.check(GOOGLETEST, "set_tests_properties(unit.A.two PROPERTIES RUN_SERIAL TRUE)\n")
        self.assert_closes(result, 0, f"{self.ALL + 6} passed, 0 failed")
        processes = (self.root / "processes").read_text().splitlines()
        self.assertEqual(sorted(set(processes)), ["--gtest_filter=A.one", "--gtest_filter=A.two"])

    def test_what_is_not_built_in_time_is_skipped_and_named(self):
        self.write("tests/fuzz/small_fuzz.cpp", "")
        slow = 'if(CMAKE_BINARY_DIR MATCHES "tsan")\nadd_custom_target(slow ALL COMMAND sleep 1000)\nendif()\n'
        self.write("CMakeLists.txt", PROJECT + slow)
        result = self.run_tool(self.root / "tools/check", "--most-minutes", "0.25", cwd="/")
        # As ever but for ThreadSanitizer's build with its test, and a fuzzer's.
        self.assert_closes(result, 0, f"{self.ALL - 3} passed, 0 failed, 2 skipped")
        for preset in ("tsan", "fuzz"):
            self.assertIn(f"{preset}: not ready for its tests after 0.25 minutes", result.stdout)

    def test_builds_beside_tests_have_the_lowest_priority_among_sessions_too(self):
        if not pathlib.Path("/proc/self/autogroup").is_file():
            self.skipTest("this kernel has no groups of sessions")
        # Asan's is built beside the tests of release, which wait for what it writes.
        build = ('if(CMAKE_BINARY_DIR MATCHES "asan")\nadd_custom_target(look ALL COMMAND sh -c '
                 '"sleep 0.5 && cat /proc/self/autogroup >${CMAKE_SOURCE_DIR}/group && nice >${CMAKE_SOURCE_DIR}/nice" VERBATIM)\nendif()\n'
                 'add_test(NAME waits COMMAND sh -c "until [ -s ${CMAKE_SOURCE_DIR}/nice ]; do sleep 0.1; done")\n'
                 'set_tests_properties(waits PROPERTIES TIMEOUT 60)\n')
        self.write("CMakeLists.txt", PROJECT + build)
        result = self.run_tool(self.root / "tools/check", cwd="/")
        self.assert_closes(result, 0, f"{self.ALL + 2} passed, 0 failed")
        self.assertRegex((self.root / "group").read_text(), r" nice 19\n")
        self.assertEqual((self.root / "nice").read_text(), "19\n")

    def fuzzer(self, body):
        """A fuzzer that the build of any preset "makes": a script."""
        self.write("tests/fuzz/small_fuzz.cpp", "")
        self.write("fuzz_small", f"#!/bin/sh\necho \"$@\" >{self.root}/words\n{body}\n", mode=0o755)
        return "file(COPY ${CMAKE_SOURCE_DIR}/fuzz_small DESTINATION ${CMAKE_BINARY_DIR}/bin)\n"

    def test_a_fuzzer_that_finds_nothing_passes(self):
        result = self.check(self.fuzzer("echo '#77 DONE'"))
        # Configured, built, run.
        self.assert_closes(result, 0, f"{self.ALL + 3} passed, 0 failed")
        self.assertIn("fuzz_small: status 0, 77 inputs", result.stdout)
        words = (self.root / "words").read_text().split()
        self.assertIn("-max_total_time=20", words)
        self.assertEqual(words[-1], str(self.root / "tests/fuzz/corpus/small"), "from the kept inputs")

    def test_a_fuzzer_that_crashes_fails_the_run_and_prints_how_to_repeat_it(self):
        result = self.check(self.fuzzer("echo 'Test unit written to found/small-crash-1'; exit 77"))
        self.assert_closes(result, 1, f"{self.ALL + 2} passed, 1 failed")
        self.assertIn("to repeat it: build/fuzz/bin/fuzz_small found/small-crash-1", result.stdout)
        self.assertIn("tests/fuzz/corpus/small/", result.stdout)

    def test_a_fuzzer_that_was_not_built_fails_the_run(self):
        self.write("tests/fuzz/small_fuzz.cpp", "")
        self.assert_closes(self.check(), 1, f"{self.ALL + 2} passed, 1 failed")


if __name__ == "__main__":
    unittest.main()
