"""tools/check_headers.py reports the header that needs another one first, and only that one."""

import json
import sys
import unittest

import tree


class CheckHeaders(tree.TreeTest):
    def setUp(self):
        super().setUp()
        self.write("base/good.h", "#pragma once\n#include <cstdint>\ninline std::uint32_t one() { return 1; }\n")
        self.write("base/good.cpp", '#include "base/good.h"\n')
        self.write("apps/also_good.h", '#pragma once\n#include "base/good.h"\ninline auto two() { return one() + one(); }\n')
        self.configure(["-std=c++20", "-Wall", "-Werror"])

    def configure(self, flags, launcher=()):
        command = [*launcher, "c++", f"-I{self.root}", *flags, "-o", "base/good.o", "-c", f"{self.root}/base/good.cpp"]
        self.write(
            "build/release/compile_commands.json",
            json.dumps([{"directory": str(self.root), "file": "base/good.cpp", "command": " ".join(command)}]),
        )

    def check(self, *headers):
        return self.run_tool(sys.executable, tree.TOOLS / "check_headers.py", "--root", self.root, *headers)

    def assert_reported(self, header, reason):
        result = self.check()
        self.assertEqual(result.returncode, 1, result.stdout + result.stderr)
        self.assertIn(f"{header}: does not compile alone:", result.stdout)
        self.assertIn(reason, result.stdout)
        self.assertIn("3 headers, 1 do not compile alone", result.stdout)

    def test_headers_that_compile_alone_pass(self):
        result = self.check()
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertIn("2 headers, 0 do not compile alone", result.stdout)

    def test_a_header_that_needs_another_first_is_reported(self):
        self.write("base/bad.h", "#pragma once\ninline std::uint32_t three() { return 3; }\n")
        self.assert_reported("base/bad.h", "uint32_t")

    def test_a_header_without_a_guard_is_reported(self):
        self.write("base/twice.h", "inline int four() { return 4; }\n")
        self.assert_reported("base/twice.h", "redefinition")

    def test_a_header_that_warns_under_the_projects_flags_is_reported(self):
        self.write("base/warns.h", "#pragma once\ninline int five() { int unused; return 5; }\n")
        self.assert_reported("base/warns.h", "unused")

    def test_the_flags_are_those_of_the_build(self):
        self.write("base/defined.h", "#pragma once\n#ifndef FROM_THE_BUILD\n#error not the flags of the build\n#endif\n")
        self.assert_reported("base/defined.h", "not the flags of the build")
        self.configure(["-std=c++20", "-DFROM_THE_BUILD"], launcher=["/usr/bin/ccache"])
        self.assertEqual(self.check().returncode, 0)

    def test_a_precompiled_header_does_not_hide_what_is_missing(self):
        self.write("pch/standard.hxx", "#include <cstdint>\n")
        self.configure(["-std=c++20", "-Winvalid-pch", "-include", f"{self.root}/pch/standard.hxx"])
        self.write("base/bad.h", "#pragma once\ninline std::uint32_t three() { return 3; }\n")
        self.assert_reported("base/bad.h", "uint32_t")
        (self.root / "base/bad.h").unlink()
        (self.root / "pch/standard.hxx").unlink()  # it is made when it is built, and this check needs no build
        self.assertEqual(self.check().returncode, 0)

    def test_what_many_headers_include_does_not_hide_what_one_lacks(self):
        for number in range(8):
            self.write(f"base/many{number}.h", f"#pragma once\n#include <map>\n#include <string>\ninline std::map<int, std::string> m{number};\n")
        self.write("base/bad.h", '#pragma once\n#include <string>\ninline std::map<int, std::string> bad;\n')
        self.write("base/above_bad.h", '#pragma once\n#include <map>\n#include "base/bad.h"\n')
        result = self.check()
        self.assertEqual(result.returncode, 1, result.stdout + result.stderr)
        self.assertIn("base/bad.h: does not compile alone:", result.stdout)
        self.assertIn("12 headers, 1 do not compile alone", result.stdout)

    def test_only_the_named_headers_are_checked(self):
        self.write("base/bad.h", "#pragma once\ninline std::uint32_t three() { return 3; }\n")
        self.assertEqual(self.check("base/good.h").returncode, 0)
        self.assertEqual(self.check("base/bad.h").returncode, 1)

    def test_without_a_configured_build_it_prints_the_cure(self):
        (self.root / "build/release/compile_commands.json").unlink()
        result = self.check()
        self.assertEqual(result.returncode, 2)
        self.assertIn("cmake --preset release", result.stderr)

    def test_a_tree_without_headers_fails(self):
        for header in ("base/good.h", "apps/also_good.h"):
            (self.root / header).unlink()
        self.assertEqual(self.check().returncode, 2)


if __name__ == "__main__":
    unittest.main()
