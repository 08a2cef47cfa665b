"""tools/check_quickstart.py sees tests, benches, too many objects and missing programs in the first command."""

import unittest

import tree

check_quickstart = tree.load("check_quickstart.py")


def compile_line(source):
    return f"ccache c++ -O2 -o {source.replace('/', '_')}.o -c /tree/{source}"


PROGRAMS = [f"c++ x.o -o {output}  -lm" for output in check_quickstart.MUST_BUILD]
GOOD = [compile_line("base/check.cpp"), compile_line("bench/stage_times.cpp"), *PROGRAMS]


class Problems(unittest.TestCase):
    def problems(self, *commands, most=10):
        return list(check_quickstart.problems_of([*commands], "/tree", most))

    def test_programs_and_their_libraries_pass(self):
        self.assertEqual(self.problems(*GOOD), [])

    def test_a_test_or_a_bench_is_a_problem(self):
        for source in ("tests/base/seq_test.cpp", "bench/service_bench.cpp"):
            with self.subTest(source=source):
                (problem,) = self.problems(*GOOD, compile_line(source))
                self.assertIn(f"{source} is compiled", problem)

    def test_too_many_objects_are_a_problem(self):
        (problem,) = self.problems(*GOOD, most=1)
        self.assertIn("2 objects are compiled, and 1 are allowed", problem)

    def test_owners_of_precompiled_headers_are_not_counted(self):
        self.assertEqual(self.problems(*GOOD, compile_line("build/release/braid_precompiled_quickly.cpp"), most=2), [])

    def test_a_program_that_is_not_built_is_a_problem(self):
        for output in check_quickstart.MUST_BUILD:
            with self.subTest(output=output):
                (problem,) = self.problems(*[line for line in GOOD if f"-o {output} " not in line])
                self.assertIn(f"{output} is not built", problem)


class ThisTree(tree.TreeTest):
    def test_it_configures_without_the_packages_of_tests(self):
        commands, problem = check_quickstart.configured_without_tests(tree.ROOT)
        self.assertIsNone(problem)
        self.assertEqual(list(check_quickstart.problems_of(commands, tree.ROOT)), [])


if __name__ == "__main__":
    unittest.main()
