"""tools/check_commands.py runs what a page prints, as it says, and finds what does not exist."""

import json
import textwrap
import unittest

import tree

commands = tree.load("check_commands.py")


class Pages(unittest.TestCase):
    def read(self, text):
        return commands.read_page("page.md", textwrap.dedent(text))

    def shown(self, text):
        return [(c.text, c.how) for c in self.read(text).commands]

    def test_indented_and_fenced_lines_are_commands_and_diagrams_are_not(self):
        page = """\
            Text.

                tools/soak --hours 1
                +---------+ a picture
                key: value

            ```sh
            echo fenced
            ```
            ```cpp
            // sum.cpp
            int main() {}
            ```
            """
        self.assertEqual(self.shown(page), [("tools/soak --hours 1", "run"), ("echo fenced", "run")])
        self.assertEqual(self.read(page).files, {"sum.cpp": "int main() {}\n"})

    def test_an_annotation_applies_to_its_block_only(self):
        page = """\
            <!-- runs: 5 s -->
                tools/a --x
                tools/b

            Text.

                tools/c
            """
        self.assertEqual(self.shown(page), [("tools/a --x", "runs"), ("tools/b", "runs"), ("tools/c", "run")])

    def test_an_annotation_without_its_reason_is_a_problem(self):
        for wrong in ("<!-- not run -->", "<!-- full -->", "<!-- runs: long -->", "<!-- run: 5 s -->"):
            with self.subTest(annotation=wrong):
                self.assertEqual(len(self.read(wrong).problems), 1)

    def test_code_in_a_sentence_is_checked(self):
        self.assertEqual(self.shown("See `tools/soak --hours 8`."), [("tools/soak --hours 8", "code")])


class Tree(tree.TreeTest):
    """A tree with one program, which has the option --good."""

    def setUp(self):
        super().setUp()
        self.write("CMakePresets.json", json.dumps({"configurePresets": [{"name": "release"}]}))
        self.program('case "$1" in --good) echo fine >made ;; *) exit 3 ;; esac')

    def program(self, body):
        self.write("tools/program", f"#!/bin/sh\n# --good --sleep\n{body}\n", mode=0o755)

    def problems(self, text, **options):
        page = self.write("README.md", text)
        return commands.check(self.root, [page], **options)

    def test_a_working_command_is_no_problem_and_leaves_nothing_in_the_tree(self):
        self.assertEqual(self.problems("    tools/program --good && test -e made\n    test -e made\n"), 0)
        self.assertFalse((self.root / "made").exists())

    def test_a_failing_command_is_a_problem(self):
        self.assertEqual(self.problems("    tools/program\n"), 1)

    def test_files_shown_on_a_page_exist_for_its_commands(self):
        self.assertEqual(self.problems("```cpp\n// a.txt\nx\n```\n\n    tools/program --good; grep -q x a.txt\n"), 0)

    def test_names_that_do_not_exist_are_reported_without_running(self):
        for wrong in ("tools/missing", "tools/program --bad", "cmake --preset none", "tools/program configs/none.yaml"):
            with self.subTest(command=wrong):
                self.assertEqual(self.problems(f"<!-- not run: a test -->\n    {wrong}\n"), 1)
                if wrong.startswith("tools/") and "configs" not in wrong:
                    self.assertEqual(self.problems(f"Call `{wrong}`.\n"), 1)

    def test_programs_that_the_page_builds_need_not_be_there_before(self):
        self.write("build/release/build.ninja", "rule make\n  command = true\nbuild some_test: make\n")
        use = "    build/release/bin/some_test && ctest --preset release -R '^some_test.Suite'\n"
        self.assertEqual(self.problems(f"<!-- not run: a test -->\n    cmake --build --preset release --target some_test\n{use}"), 0)
        self.assertEqual(self.problems(f"<!-- not run: a test -->\n{use}"), 2)

    def test_a_path_that_does_not_exist_is_reported(self):
        self.assertEqual(self.problems("See `docs/none.md` and `tools/program`.\n"), 1)

    def test_a_command_with_a_time_is_stopped_after_it(self):
        self.program("sleep 60")
        self.assertEqual(self.problems("<!-- runs: 1 s -->\n    tools/program --sleep\n"), 0)

    def test_a_long_command_that_fails_at_once_is_a_problem(self):
        self.assertEqual(self.problems("<!-- runs: 5 s -->\n    tools/program --sleep\n"), 1)

    def test_full_runs_the_long_commands_too(self):
        page = "<!-- full: long -->\n    tools/program\n"
        self.assertEqual(self.problems(page), 0)
        self.assertEqual(self.problems(page, full=True), 1)

    def test_commands_marked_together_run_at_the_same_time(self):
        self.program('case "$1" in --sleep) echo >begun; sleep 60 ;; --good) test -e begun ;; esac')
        self.assertEqual(self.problems("<!-- together -->\n    tools/program --sleep\n    tools/program --good\n"), 0)
        self.assertEqual(self.problems("    tools/program --good\n"), 1)


if __name__ == "__main__":
    unittest.main()
