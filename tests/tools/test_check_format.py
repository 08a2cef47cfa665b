"""tools/check_format reports the file that clang-format would change, and changes it only when told to."""

import shutil
import unittest

import tree

NEAT = "int one() { return 1; }\n"
UNTIDY = "int   one( ){return 1;}\n"


@unittest.skipUnless(shutil.which("clang-format") and shutil.which("git"), "clang-format or git is missing")
class CheckFormat(tree.TreeTest):
    def setUp(self):
        super().setUp()
        self.script = self.write("tools/check_format", (tree.TOOLS / "check_format").read_text(), mode=0o755)
        self.write(".clang-format", "BasedOnStyle: Google\n")
        self.write(".gitignore", "/build/\n")
        self.write("base/neat.cpp", NEAT)
        self.write("build/generated.cpp", UNTIDY)
        self.run_tool("git", "init", "--quiet", self.root)

    def test_a_formatted_tree_passes_and_build_trees_are_ignored(self):
        result = self.run_tool(self.script, cwd="/")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("1 files", result.stdout)

    def test_an_unformatted_file_is_named_once(self):
        self.write("base/untidy.h", UNTIDY)
        result = self.run_tool(self.script)
        self.assertEqual(result.returncode, 1)
        self.assertEqual(result.stderr.count("base/untidy.h"), 1)
        self.assertNotIn("neat.cpp", result.stderr)
        self.assertEqual((self.root / "base/untidy.h").read_text(), UNTIDY)

    def test_fix_formats_the_file(self):
        self.write("base/untidy.h", UNTIDY)
        self.assertEqual(self.run_tool(self.script, "--fix").returncode, 0)
        self.assertEqual((self.root / "base/untidy.h").read_text(), NEAT)
        self.assertEqual(self.run_tool(self.script).returncode, 0)

    def test_a_removed_file_that_is_still_in_the_index_is_ignored(self):
        self.run_tool("git", "-C", self.root, "add", "base/neat.cpp")
        self.write("base/other.cpp", NEAT)
        (self.root / "base/neat.cpp").unlink()
        result = self.run_tool(self.script)
        self.assertEqual(result.returncode, 0, result.stderr)

    def test_a_tree_without_files_fails(self):
        (self.root / "base/neat.cpp").unlink()
        self.assertEqual(self.run_tool(self.script).returncode, 2)


if __name__ == "__main__":
    unittest.main()
