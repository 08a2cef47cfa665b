"""tools/check_layers.py finds each kind of violation, at its place, and nothing else."""

import sys
import unittest

import tree

layers = tree.load("check_layers.py")

# A tree with one file in every area that does what the area may do.
CLEAN = {
    "base/bytes.h": "#include <span>\n",
    "base/clock.h": '#include "base/time.h"\n',
    "base/clock.cpp": '#include "base/clock.h"\n#include <ctime>\nint f() { return clock_gettime(0, nullptr); }\n',
    "base/time.h": "#include <cstdint>\n",
    "base/ring.h": "#include <atomic>\n",
    "stack/wire/ipv4.h": '#include "base/bytes.h"\n',
    "stack/stack.h": '#include "stack/wire/ipv4.h"\n#include "base/time.h"\n',
    "convergence/sender.h": '#include "stack/stack.h"\n#include "base/time.h"\n',
    "settings/setting.h": '#include "base/bytes.h"\n#include <span>\n',
    "settings/words.h": '#include "proxy/nic/steering.h"\n#include "convergence/sender.h"\n#include "stack/stack.h"\n',
    "settings/views/yaml.cpp": '#include "settings/setting.h"\n#include <yaml-cpp/yaml.h>\n',
    "proxy/nic/steering.h": '#include "base/bytes.h"\n',
    "proxy/nic/ethdev.cpp": '#include <rte_ethdev.h>\n#include "base/bytes.h"\n',
    "proxy/nic/nic_queue.h": '#include "base/bytes.h"\n',
    "proxy/udp/udp_queue.cpp": '#include "proxy/nic/nic_queue.h"\n#include "stack/wire/ipv4.h"\n#include "base/bytes.h"\n',
    "proxy/channel/channel.h": '#include "convergence/sender.h"\n#include "stack/wire/ipv4.h"\n#include <atomic>\n',
    "proxy/client/client.h": '#include "proxy/channel/channel.h"\n#include "convergence/sender.h"\n#include <thread>\n',
    "proxy/daemon/node_config.h": '#include "settings/setting.h"\n#include "settings/views/yaml.h"\n',
    "proxy/daemon/daemon.cpp": '#include "proxy/nic/nic_queue.h"\n#include "proxy/channel/channel.h"\n'
    '#include "base/clock.h"\n#include <sys/socket.h>\n',
    "proxy/worker/worker.h": '#include "proxy/nic/nic_queue.h"\n#include "stack/stack.h"\n',
    "dsm/api.h": "#include <cstddef>\n",
    "dsm/engine/engine.h": '#include "base/bytes.h"\n#include "convergence/sender.h"\n',
    "dsm/live/runtime.cpp": '#include "dsm/engine/engine.h"\n#include "proxy/client/client.h"\n#include "dsm/api.h"\n'
    '#include "base/clock.h"\n#include <mutex>\n',
    "dsm/engine/types.h": '#include "base/bytes.h"\n',
    "dsm/engine/engine.cpp": '#include "dsm/engine/engine.h"\n#include "dsm/engine/pages.h"\n',
    "dsm/engine/pages.h": '#include "dsm/engine/types.h"\n',
    "dsm/engine/lock_words.h": '#include <atomic>\n#include "dsm/engine/types.h"\n',
    "dsm/program/host.cpp": '#include "dsm/engine/types.h"\n#include "dsm/api.h"\n#include "dsm/threads.h"\n',
    "sim/shell/shell.cpp": '#include "dsm/program/host.h"\n#include "dsm/api.h"\n#include "sim/charge/budget.h"\n',
    "sim/simulated_machine.h": '#include "stack/stack.h"\n#include "proxy/daemon/worker.h"\n#include "proxy/nic/nic_queue.h"\n#include "convergence/sender.h"\n#include "dsm/engine/engine.h"\n',
    "apps/jacobi/jacobi.cpp": '#include "dsm/api.h"\n#include "apps/common/options.h"\n#include <cmath>\n',
    "apps/common/options.h": "#include <string>\n",
    "bench/relay.cpp": '#include "proxy/daemon/daemon.h"\n#include <chrono>\nauto t = std::chrono::steady_clock::now();\n',
    "tests/stack/stack_test.cpp": '#include "stack/stack.h"\n#include "proxy/nic/nic_queue.h"\n#include <rte_mbuf.h>\n',
    "tools/braid/process/process.h": '#include "base/result.h"\n#include "tools/braid/process/descriptor.h"\n',
    "tools/braid/main.cpp": '#include "proxy/daemon/daemon.h"\n#include "dsm/live/runtime.h"\n',
}

# (file, forbidden include, words of the violated rule)
FORBIDDEN_INCLUDES = [
    # not from a higher folder
    ("base/a.h", '"stack/stack.h"', "base may include base"),
    ("base/a.h", '"dsm/api.h"', "base may include base"),
    ("stack/a.h", '"convergence/sender.h"', "stack may include base, stack"),
    ("stack/wire/a.h", '"stack/stack.h"', "stack/wire may include"),
    ("convergence/a.h", '"proxy/client/client.h"', "convergence may include"),
    ("convergence/a.h", '"dsm/engine/engine.h"', "convergence may include"),
    ("proxy/worker/a.h", '"dsm/engine/engine.h"', "proxy may include"),
    ("proxy/daemon/a.cpp", '"dsm/api.h"', "proxy/daemon may include"),
    ("dsm/live/a.cpp", '"apps/common/options.h"', "dsm may include"),
    # settings
    ("proxy/nic/steering.h", '"proxy/nic/nic_queue.h"', "settings name its enumeration"),
    ("proxy/udp/a.h", '"stack/stack.h"', "the kernel makes headers of its own"),
    ("proxy/packet/a.h", '"proxy/nic/ethdev.h"', "like proxy/udp: the kernel has the address"),
    ("proxy/xdp/a.h", '"proxy/nic/ethdev.h"', "like proxy/udp: the kernel has the address"),
    ("settings/a.h", '"proxy/daemon/daemon.h"', "not their views"),
    ("settings/a.h", '"proxy/nic/nic_queue.h"', "not their views"),
    ("settings/a.h", '"settings/views/yaml.h"', "not their views"),
    ("settings/a.cpp", "<yaml-cpp/yaml.h>", "only settings/views"),
    ("settings/a.cpp", "<nlohmann/json.hpp>", "formats of files"),
    ("settings/views/a.cpp", '"proxy/daemon/daemon.h"', "a view of settings"),
    ("tools/braid/a.cpp", "<yaml-cpp/yaml.h>", "only settings/views"),
    ("sim/a.cpp", "<yaml-cpp/yaml.h>", "only settings/views"),
    ("stack/a.h", "<nlohmann/json.hpp>", "formats of files"),
    ("stack/a.h", '"base/json.h"', "formats of files"),
    ("stack/a.h", '"settings/setting.h"', "stack may include base, stack"),
    ("proxy/client/a.h", '"settings/setting.h"', "no NIC, no daemon"),
    # within proxy
    ("proxy/nic/a.h", '"stack/wire/ipv4.h"', "proxy/nic may include"),
    ("proxy/nic/a.h", '"proxy/channel/channel.h"', "proxy/nic may include"),
    ("proxy/channel/a.h", '"stack/stack.h"', "proxy/channel may include"),
    ("proxy/channel/a.h", '"proxy/client/client.h"', "proxy/channel may include"),
    ("proxy/channel/a.h", '"proxy/nic/nic_queue.h"', "proxy/channel may include"),
    ("proxy/client/a.cpp", '"proxy/nic/nic_queue.h"', "no NIC, no daemon"),
    ("proxy/client/a.cpp", '"proxy/daemon/daemon.h"', "no NIC, no daemon"),
    ("proxy/client/a.cpp", '"proxy/worker/worker.h"', "no NIC, no daemon"),
    # dsm
    ("dsm/engine/a.h", '"stack/stack.h"', "dsm/engine may include"),
    ("dsm/engine/a.h", '"proxy/client/client.h"', "dsm/engine may include"),
    ("dsm/engine/a.h", '"dsm/live/runtime.h"', "dsm/engine may include"),
    ("dsm/engine/a.h", '"dsm/api.h"', "dsm/engine may include"),
    ("dsm/engine/a.h", '"dsm/engine/engine.h"', "stand below it"),
    ("dsm/engine/types.h", '"dsm/engine/pages.h"', "none of its parts"),
    ("dsm/engine/page_length.h", '"dsm/engine/types.h"', "a part of the engine's vocabulary"),
    ("stack/secure/a.cpp", '"stack/wire/segment.h"', "nothing of packets"),
    ("stack/a.cpp", "<openssl/evp.h>", "only stack/secure"),
    ("tools/braid/run/ranks/a.cpp", '"proxy/daemon/node.h"', "know no node"),
    ("dsm/engine/engine.cpp", '"dsm/api.h"', "joins its parts"),
    ("dsm/program/a.cpp", '"dsm/engine/engine.h"', "nothing of the host"),
    ("sim/shell/a.cpp", '"dsm/engine/engine.h"', "no protocol"),
    ("dsm/live/a.cpp", '"proxy/channel/channel.h"', "proxy/client's headers only"),
    ("dsm/live/a.cpp", '"proxy/daemon/daemon.h"', "proxy/client's headers only"),
    ("dsm/live/a.cpp", '"stack/stack.h"', "knows nothing of packets"),
    ("dsm/api.h", '"base/bytes.h"', "nothing below dsm"),
    ("dsm/api.h", '"proxy/client/client.h"', "nothing below dsm"),
    ("dsm/api.h", '"dsm/engine/engine.h"', "nothing below dsm"),
    ("dsm/program/a.cpp", '"dsm/live/runtime.h"', "nothing of the host"),
    ("dsm/program/a.cpp", '"proxy/client/client.h"', "nothing of the host"),
    # sim beside proxy
    ("proxy/nic/nic_queue.h", '"proxy/nic/steering.h"', "no kind of queue"),
    ("sim/a.h", '"proxy/nic/shm_wire.h"', "none of its wires"),
    ("sim/a.h", '"dsm/live/runtime.h"', "none of its wires"),
    ("sim/a.h", '"apps/common/options.h"', "none of its wires"),
    ("sim/charge/a.cpp", '"dsm/api.h"', "whatever host"),
    ("sim/shell/a.cpp", '"stack/stack.h"', "no protocol"),
    ("sim/shell/a.cpp", '"sim/event_queue.h"', "no protocol"),
    ("sim/shell/a.cpp", '"dsm/live/runtime.h"', "no protocol"),
    ("sim/races/a.cpp", '"dsm/engine/engine.h"', "between a program and its shell"),
    ("sim/shell/a.cpp", '"dsm/once/clone.h"', "no protocol"),
    ("dsm/once/a.cpp", '"proxy/daemon/node.h"', "on the live runtime"),
    ("dsm/once/fork.h", '"dsm/api.h"', "any host's library"),
    ("dsm/once/host.h", '"dsm/api.h"', "any host's library"),
    ("dsm/once/main_once.h", '"dsm/api.h"', "any host's library"),
    ("dsm/once/early_heap.cpp", '"dsm/live/environment.h"', "is in dsm/once/host.h"),
    ("dsm/once/fork.cpp", '"dsm/live/environment.h"', "is in dsm/once/host.h"),
    ("dsm/parmacs/a.cpp", '"dsm/live/runtime.h"', "whatever host carries them out"),
    ("dsm/pthreads/a.cpp", '"proxy/daemon/node.h"', "on programs' calls"),
    ("dsm/blocks/a.cpp", '"dsm/live/runtime.h"', "on top of programs' calls"),
    # apps
    ("apps/fft/fft.cpp", '"proxy/client/client.h"', "nothing below dsm"),
    ("examples/echo.cpp", '"proxy/daemon/node.h"', "what a user's program may include"),
    ("examples/remote_counter.h", '"dsm/api.h"', "knows its interface only"),
    ("apps/fft/fft.cpp", '"base/time.h"', "nothing below dsm"),
    # tools
    ("tools/braid/process/a.h", '"tools/braid/run/supervisor.h"', "depend on none"),
    ("tools/braid/process/a.cpp", '"proxy/daemon/node_config.h"', "depend on none"),
    # tests are not included elsewhere
    ("dsm/live/a.cpp", '"tests/support/fake.h"', "dsm may include"),
    # sans-I/O
    *[
        (f"{area}/a.h", f"<{header}>", "sans-I/O")
        for area in ("stack", "stack/wire", "convergence", "dsm/engine")
        for header in ("thread", "mutex", "chrono", "atomic", "ctime", "sys/socket.h", "condition_variable", "poll.h")
    ],
    ("dsm/engine/lock_words.h", "<mutex>", "sans-I/O"),
    ("dsm/engine/lock_words.h", '"dsm/engine/pages.h"', "know nothing of the protocol"),
    ("dsm/engine/lock_words.cpp", "<atomic>", "past the engine"),
    ("stack/a.h", '"base/clock.h"', "hands the instant in"),
    ("convergence/a.cpp", '"base/clock.h"', "hands the instant in"),
    ("dsm/engine/a.cpp", '"base/clock.h"', "hands the instant in"),
    ("stack/a.cpp", "<spdlog/spdlog.h>", "no log"),
    # DPDK
    ("stack/a.h", "<rte_mbuf.h>", "only proxy/nic"),
    ("proxy/daemon/a.cpp", "<rte_eal.h>", "only proxy/nic"),
    ("proxy/channel/a.h", '"rte_ring.h"', "only proxy/nic"),
    ("base/a.h", "<rte_cycles.h>", "only proxy/nic"),
]

FORBIDDEN_WORDS = [
    ("proxy/daemon/a.cpp", "clock_gettime(CLOCK_MONOTONIC, &t);", "clock_gettime"),
    ("dsm/live/a.cpp", "auto t = std::chrono::steady_clock::now();", "steady_clock"),
    ("base/prng.cpp", "gettimeofday(&t, nullptr);", "gettimeofday"),
    ("stack/a.cpp", "auto t = system_clock::now();", "system_clock"),
    ("apps/fft/fft.cpp", "srand(time(nullptr));", "time(nullptr"),
    ("proxy/nic/a.cpp", "auto t = rte_rdtsc();", "rte_rdtsc"),
    ("tools/braid/a.cpp", "auto t = __rdtsc();", "__rdtsc"),
]


class CheckLayers(tree.TreeTest):
    def setUp(self):
        super().setUp()
        for path, text in CLEAN.items():
            self.write(path, text)

    def violations(self):
        return layers.check_tree(self.root)[0]

    def test_the_tables_name_only_areas_that_exist(self):
        self.assertEqual(layers.check_tables(), [])

    def test_a_clean_tree_passes(self):
        found, looked_at = layers.check_tree(self.root)
        self.assertEqual([str(v) for v in found], [])
        self.assertEqual(looked_at, len(CLEAN))

    def test_each_forbidden_include_is_reported_with_its_line(self):
        for path, include, rule in FORBIDDEN_INCLUDES:
            with self.subTest(path=path, include=include):
                before = CLEAN.get(path)
                self.write(path, f"// what it is for\n#include <span>\n#include {include}\n")
                found = self.violations()
                self.assertEqual([(v.path, v.line, v.what) for v in found], [(path, 3, f"#include {include}")])
                self.assertIn(rule, found[0].rule)
                if before is None:
                    (self.root / path).unlink()
                else:
                    self.write(path, before)

    def test_each_use_of_a_clock_is_reported(self):
        for path, code, said in FORBIDDEN_WORDS:
            with self.subTest(path=path, code=code):
                self.write(path, f"void f() {{\n  {code}\n}}\n")
                found = self.violations()
                self.assertEqual([(v.path, v.line) for v in found], [(path, 2)])
                self.assertIn(said, found[0].what)
                self.assertIn("only base/clock reads a clock", found[0].rule)
                (self.root / path).unlink()

    def test_every_rule_of_the_tables_is_violated_by_some_case(self):
        forbidden_rules = {why for _, _, _, why in layers.MUST_NOT_INCLUDE}
        forbidden_areas = {area for area, (allowed, _) in layers.MAY_INCLUDE.items() if allowed != layers.ANYTHING}
        seen_areas = {layers.area_of(path) for path, _, _ in FORBIDDEN_INCLUDES}
        self.assertEqual(forbidden_areas - seen_areas, set())
        for why in forbidden_rules:
            self.assertTrue(any(rule in why for _, _, rule in FORBIDDEN_INCLUDES), why)

    def test_comments_and_strings_are_ignored(self):
        self.write(
            "base/a.h",
            '// #include "dsm/api.h"\n'
            '/* #include "dsm/api.h"\n   steady_clock */\n'
            'const char* a = "clock_gettime";\n'
            'const char* b = R"(\n#include "dsm/api.h"\nsteady_clock)";\n'
            "long million = 1'000'000;  // gettimeofday\n",
        )
        self.assertEqual(self.violations(), [])

    def test_a_quote_in_a_comment_or_a_digit_separator_hides_nothing(self):
        self.write("base/a.h", "// don't\nlong n = 1'000;\n#include \"dsm/api.h\"\nauto t = steady_clock::now();\n")
        self.assertEqual([v.line for v in self.violations()], [3, 4])

    def test_spacing_and_angle_brackets_make_no_difference(self):
        self.write("base/a.h", '  #  include   "dsm/api.h"\n#include <dsm/api.h>\n')
        self.assertEqual([v.line for v in self.violations()], [1, 2])

    def test_an_include_relative_to_its_file_is_checked(self):
        self.write("stack/window/a.h", '#include "../stack.h"\n')
        self.write("stack/wire/a.h", '#include "../stack.h"\n')
        found = self.violations()
        self.assertEqual([v.path for v in found].count("stack/window/a.h"), 1)
        self.assertEqual([v.path for v in found].count("stack/wire/a.h"), 2)
        self.assertTrue(all('"../stack.h"' in v.what for v in found))

    def test_tests_may_include_the_header_beside_them(self):
        self.write("tests/stack/support.h", "#include <vector>\n")
        self.write("tests/stack/a_test.cpp", '#include "support.h"\n')
        self.assertEqual(self.violations(), [])

    def test_a_header_that_does_not_exist_is_checked_by_its_name(self):
        self.write("base/a.h", '#include "proxy/nic/not_yet.h"\n')
        self.assertEqual(len(self.violations()), 1)

    def test_a_folder_without_a_row_is_reported(self):
        self.write("extras/a.h", "\n")
        found = self.violations()
        self.assertEqual([v.path for v in found], ["extras/a.h"])
        self.assertIn("add one", found[0].rule)

    def test_build_trees_are_ignored(self):
        self.write("build/release/a.h", '#include "apps/common/options.h"\n')
        self.write(".cache/a.h", "\n")
        self.assertEqual(self.violations(), [])

    def test_as_a_command_it_prints_the_places_and_fails(self):
        script = tree.TOOLS / "check_layers.py"
        clean = self.run_tool(sys.executable, script, self.root)
        self.assertEqual(clean.returncode, 0, clean.stdout + clean.stderr)
        self.assertIn(f"{len(CLEAN)} files, 0 violations", clean.stdout)
        self.write("base/a.h", '#include "dsm/api.h"\n')
        dirty = self.run_tool(sys.executable, script, self.root)
        self.assertEqual(dirty.returncode, 1)
        self.assertIn('base/a.h:1: #include "dsm/api.h": base may include base', dirty.stdout)

    def test_an_empty_tree_fails(self):
        (self.root / "empty").mkdir()
        self.assertEqual(
            self.run_tool(sys.executable, tree.TOOLS / "check_layers.py", self.root / "empty").returncode, 2
        )


if __name__ == "__main__":
    unittest.main()
