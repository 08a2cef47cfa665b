"""tools/quickstart believes only a program that ends well and says that its result was verified."""

import os
import unittest

import tree

# Stands in for the compiler: "building" puts the program of the test where the build would.
CMAKE = """#!/bin/sh
echo "cmake $*" >>"$STATE"
case "$1" in --build) [ -e broken ] && exit 1; mkdir -p build/release/bin; cp braid.sh build/release/bin/braid ;; esac
exit 0
"""


class Quickstart(tree.TreeTest):
    def setUp(self):
        super().setUp()
        self.script = self.write("tools/quickstart", (tree.TOOLS / "quickstart").read_text(), mode=0o755)
        self.write("tools/install_packages", '#!/bin/sh\necho install >>"$STATE"\n', mode=0o755)
        self.write("bin/cmake", CMAKE, mode=0o755)
        self.program("echo 'jacobi 2048 x 2048: verified'")

    def program(self, body):
        self.write("braid.sh", f'#!/bin/sh\necho "braid $*" >>"$STATE"\n{body}\n', mode=0o755)

    def start(self):
        environment = {**os.environ, "PATH": f"{self.root}/bin:{os.environ['PATH']}", "STATE": f"{self.root}/log"}
        return self.run_tool(self.script, env=environment, cwd="/")

    def assert_fails(self, reason):
        result = self.start()
        self.assertEqual(result.returncode, 1, result.stdout)
        self.assertIn("quickstart: FAILED", result.stderr)
        self.assertIn(reason, result.stderr)

    def test_installs_builds_runs_and_reports_it(self):
        result = self.start()
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(
            [line.split(" --parallel")[0] for line in (self.root / "log").read_text().splitlines()],
            [
                "install",
                "cmake --preset release",
                "cmake --build --preset release --target quickstart",
                "braid run --clusters 2 --compute 2 --proxies 1 jacobi",
            ],
        )
        self.assertIn("jacobi 2048 x 2048: verified", result.stdout)
        self.assertIn("sequential run of the same program: verified.", result.stdout)
        self.assertTrue((self.root / "build/release/bin/braid").is_file())

    def test_a_wrong_result_fails_even_with_status_0(self):
        self.program("echo 'jacobi: WRONG, not verified'")
        self.assert_fails("did not print that its result was verified")

    def test_a_run_that_does_not_print_verified_fails(self):
        self.program("echo done")
        self.assert_fails("did not print that its result was verified")

    def test_a_failing_program_fails_it_whatever_it_prints(self):
        self.program("echo verified; exit 3")
        self.assert_fails("ended with status 3")

    def test_a_broken_build_fails_it(self):
        self.write("broken", "")
        self.assert_fails("the build broke")

    def test_packages_that_cannot_be_installed_fail_it(self):
        self.write("tools/install_packages", "#!/bin/sh\nexit 1\n", mode=0o755)
        self.assert_fails("could not be installed")


if __name__ == "__main__":
    unittest.main()
