"""tools/install_packages asks for exactly what is missing, once, in the way that this user may."""

import os
import unittest

import tree

TEST_LIST = "valgrind  # for tests\n"
LIST = "# a comment\ng++\ncmake   # with a reason\n\nninja-build\n"

# A machine in a folder: what is installed is a file in $STATE/installed; what apt-get was asked for is in $STATE/log.
DPKG_QUERY = """#!/bin/sh
for last; do :; done
[ -e "$STATE/installed/$last" ] && cat "$STATE/installed/$last"
"""
APT_GET = """#!/bin/sh
echo "apt-get $* [$DEBIAN_FRONTEND]" >>"$STATE/log"
[ -e "$STATE/broken" ] && exit 100
for word; do
  case $word in install|update|-*) ;; *) [ -e "$STATE/lies" ] || printf installed >"$STATE/installed/$word" ;; esac
done
"""
SUDO = '#!/bin/sh\necho "sudo" >>"$STATE/log"\nexec "$@"\n'
ID = '#!/bin/sh\ncat "$STATE/uid"\n'


class InstallPackages(tree.TreeTest):
    def setUp(self):
        super().setUp()
        self.write("list.txt", LIST)
        self.write("test_list.txt", TEST_LIST)
        for name, text in (("dpkg-query", DPKG_QUERY), ("apt-get", APT_GET), ("id", ID)):
            self.write(f"bin/{name}", text, mode=0o755)
        for tool in ("env", "sh", "bash", "sed", "dirname", "cat"):
            (self.root / "bin" / tool).symlink_to(f"/usr/bin/{tool}")
        self.write("state/uid", "0\n")
        self.write("state/log", "")
        (self.root / "state/installed").mkdir()

    def installed(self, *packages, state="installed"):
        for package in packages:
            self.write(f"state/installed/{package}", state)

    def log(self):
        return (self.root / "state/log").read_text().splitlines()

    def install(self, *arguments):
        environment = {
            **os.environ,
            "PATH": str(self.root / "bin"),  # nothing of the real machine
            "STATE": str(self.root / "state"),
            "BRAID_PACKAGES": str(self.root / "list.txt"),
            "BRAID_TEST_PACKAGES": str(self.root / "test_list.txt"),
        }
        return self.run_tool("/bin/bash", tree.TOOLS / "install_packages", *arguments, env=environment, cwd="/")

    def test_without_missing_packages_nothing_is_called(self):
        self.installed("g++", "cmake", "ninja-build")
        self.assertEqual(self.install().returncode, 0)
        self.assertEqual(self.log(), [])

    def test_only_the_missing_are_installed_after_one_update(self):
        self.installed("cmake")
        result = self.install()
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(
            self.log(),
            [
                "apt-get update --quiet=2 [noninteractive]",
                "apt-get install --yes --quiet=2 --no-install-recommends g++ ninja-build [noninteractive]",
            ],
        )

    def test_packages_of_tests_are_installed_on_request(self):
        self.installed("g++", "cmake", "ninja-build")
        self.assertEqual(self.install("--missing").stdout.split(), [])
        self.assertEqual(self.install("--tests", "--missing").stdout.split(), ["valgrind"])
        self.assertEqual(self.install("--tests").returncode, 0)
        self.assertIn("--no-install-recommends valgrind [noninteractive]", self.log()[-1])

    def test_an_unknown_option_installs_nothing(self):
        self.assertEqual(self.install("--test").returncode, 2)
        self.assertEqual(self.log(), [])

    def test_a_package_that_was_removed_counts_as_missing(self):
        self.installed("g++", "cmake")
        self.installed("ninja-build", state="config-files")
        self.assertEqual(self.install("--missing").stdout.split(), ["ninja-build"])
        self.assertEqual(self.log(), [])

    def test_a_user_installs_through_sudo(self):
        self.write("state/uid", "1000\n")
        self.write("bin/sudo", SUDO, mode=0o755)
        self.assertEqual(self.install().returncode, 0)
        self.assertEqual(self.log()[0], "sudo")
        self.assertIn("[noninteractive]", self.log()[1])

    def test_without_root_or_sudo_the_command_for_root_is_printed(self):
        self.write("state/uid", "1000\n")
        result = self.install()
        self.assertEqual(result.returncode, 1)
        self.assertIn("apt-get install g++ cmake ninja-build", result.stderr)
        self.assertEqual(self.log(), [])

    def test_a_failing_apt_get_is_a_failure(self):
        self.write("state/broken", "")
        self.assertNotEqual(self.install().returncode, 0)

    def test_an_apt_get_that_installs_nothing_is_detected(self):
        self.write("state/lies", "")
        result = self.install()
        self.assertEqual(result.returncode, 1)
        self.assertIn("still missing: g++ cmake ninja-build", result.stderr)

    def test_the_projects_own_lists_are_readable_and_disjoint(self):
        words = [line.split("#")[0].split() for name in ("packages.txt", "test_packages.txt")
                 for line in (tree.TOOLS / name).read_text().splitlines()]
        packages = [w for w in words if w]
        self.assertTrue(all(len(w) == 1 for w in packages), "one package a line")
        names = [w[0] for w in packages]
        self.assertEqual(len(names), len(set(names)))
        self.assertIn("g++", names)


if __name__ == "__main__":
    unittest.main()
