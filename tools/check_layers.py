#!/usr/bin/env python3
"""Checks that includes run downhill, as docs/ARCHITECTURE.md draws it, and that only base/clock reads a clock.

    tools/check_layers.py [ROOT]     exit status 0: clean; 1: violations, one a line; 2: the tables are wrong

It checks direct includes: the includes of a lower folder's header are checked with that header. The rules are the
tables below; the rest of this file only applies them.
"""

import argparse
import dataclasses
import pathlib
import re
import sys

# --- the rules --------------------------------------------------------------------------------------------------

ANYTHING = ("*",)

# area: (areas that its files may include, why). An area is a folder or one file; the longest that fits a path is its
# area. "dsm/*" means the files of that folder, without its sub-folders. Every folder of sources must have a row.
MAY_INCLUDE = {
    "base": (("base",), "base depends on no other folder"),
    "stack": (("base", "stack"), "stack stands on base"),
    "stack/wire": (("base", "stack/wire"), "formats do not depend on the window and the stack that use them"),
    "stack/secure": (("base", "stack/secure"), "keys and ciphers know nothing of packets"),
    "convergence": (("base", "stack", "convergence"), "convergence stands on stack"),
    "settings": (
        ("base", "stack", "convergence", "proxy/nic/steering.h", "dsm/engine/types.h", "settings/*"),
        "settings know their owners' enumerations, but not their views",
    ),
    "settings/views": (("base", "settings"), "a view of settings knows the declarations and its own format"),
    "proxy": (("base", "stack", "convergence", "proxy"), "proxy stands on convergence"),
    "proxy/nic/steering.h": (("base",), "settings name its enumeration"),
    "proxy/nic/nic_queue.h": (("base",), "the interface of queues knows no kind of queue"),
    "proxy/udp": (
        ("base", "stack/wire", "proxy/nic/nic_queue.h", "proxy/udp"),
        "the kernel makes headers of its own, so this queue takes a stack's off and puts them on",
    ),
    "proxy/packet": (
        ("base", "stack/wire", "proxy/nic/nic_queue.h", "proxy/udp", "proxy/packet"),
        "like proxy/udp: the kernel has the address, the ways and the stations",
    ),
    "proxy/xdp": (
        ("base", "stack/wire", "proxy/nic/nic_queue.h", "proxy/udp", "proxy/packet", "proxy/xdp"),
        "like proxy/udp: the kernel has the address, the ways and the stations",
    ),
    "proxy/nic": (("base", "proxy/nic"), "a NIC queue moves frames and knows nothing of their contents"),
    "proxy/channel": (
        ("base", "stack/wire", "convergence", "proxy/channel"),
        "channels are shared by the daemon and its clients and depend on neither",
    ),
    "proxy/client": (
        ("base", "stack", "convergence", "proxy/channel", "proxy/client"),
        "applications link the client library: no NIC, no daemon in it",
    ),
    "proxy/daemon": (("base", "stack", "convergence", "settings", "proxy"), "the daemon is the top of proxy"),
    "dsm": (
        ("base", "convergence", "settings/*", "proxy/client", "dsm"),
        "dsm knows nothing of packets and reaches the service through proxy/client's headers only",
    ),
    "dsm/api.h": (("dsm/*",), "programs include api.h: nothing below dsm comes with it"),
    "dsm/engine": (("base", "convergence", "dsm/engine"), "the page protocol is pure: base and convergence only"),
    "dsm/engine/types.h": (("base", "dsm/engine/page_length.h"), "the engine's vocabulary depends on none of its parts"),
    "dsm/engine/page_length.h": (("base",), "a part of the engine's vocabulary"),
    "dsm/engine/lock_words.h": (
        ("base", "dsm/engine/types.h"),
        "the words of open locks, which threads share, know nothing of the protocol",
    ),
    "dsm/engine/engine.cpp": (("base", "convergence", "dsm/engine"), "the engine joins its parts"),
    "dsm/program": (
        ("base", "dsm/*", "dsm/engine/types.h", "dsm/program"),
        "programs' calls know nothing of the host that carries them out",
    ),
    "dsm/blocks": (
        ("base", "dsm/*", "dsm/engine/types.h", "dsm/program", "dsm/blocks"),
        "blocks are divided on top of programs' calls, whatever host carries them out",
    ),
    "dsm/once": (
        ("base", "convergence", "settings/*", "proxy/client", "dsm"),
        "main() once stands on the live runtime",
    ),
    "dsm/once/fork.h": (("base",), "any host's library includes it"),
    "dsm/once/host.h": (("base",), "any host's library includes it"),
    "dsm/once/main_once.h": (("base",), "any host's library includes it"),
    "dsm/once/early_heap.cpp": (
        ("base", "dsm/*", "dsm/engine/types.h", "dsm/program", "dsm/once"),
        "what main() once needs of a host is in dsm/once/host.h",
    ),
    "dsm/once/fork.cpp": (
        ("base", "dsm/*", "dsm/engine/types.h", "dsm/program", "dsm/once"),
        "what main() once needs of a host is in dsm/once/host.h",
    ),
    "dsm/parmacs": (
        ("base", "dsm/*", "dsm/engine/types.h", "dsm/program", "dsm/blocks", "dsm/once", "dsm/parmacs"),
        "the macros' runtime stands on programs' calls and on main() once, whatever host carries them out",
    ),
    "dsm/pthreads": (
        ("base", "dsm/*", "dsm/engine/types.h", "dsm/program", "dsm/blocks", "dsm/once", "dsm/pthreads"),
        "pthread programs stand on programs' calls and on main() once, whatever host carries them out",
    ),
    "sim": (
        ("base", "stack", "convergence", "settings", "proxy/client", "proxy/channel", "proxy/daemon",
         "proxy/nic/nic_queue.h", "dsm/engine", "dsm/program", "sim"),
        "the simulator drives the nodes that braidd runs, and knows none of its wires",
    ),
    "sim/shell": (
        ("base", "dsm/*", "dsm/engine/types.h", "dsm/program", "dsm/once/fork.h", "dsm/once/host.h",
         "dsm/once/main_once.h", "sim/charge", "sim/shell"),
        "a shell is part of a program: it knows what it shares with the engine, and no protocol",
    ),
    "sim/races": (
        ("base", "dsm/*", "dsm/engine/types.h", "dsm/program", "sim/shell", "sim/races"),
        "the detector of data races is a layer between a program and its shell",
    ),
    "sim/charge": (("base", "sim/charge"), "charges are counted inside programs, whatever host they have"),
    "apps": (("dsm", "apps"), "programs depend on nothing below dsm"),
    "examples": (
        ("base", "dsm/*", "proxy/client", "examples"),
        "examples show what a user's program may include: the client library or dsm/api.h",
    ),
    "examples/remote_counter.h": (
        ("base", "proxy/daemon", "stack/wire"),
        "a protocol of one's own is a part of the node, and knows its interface only",
    ),
    "bench": (ANYTHING, "benches may include anything"),
    "tests": (ANYTHING, "tests may include anything"),
    "tools": (ANYTHING, "tools may include anything"),
    "tools/braid/run/ranks": (("base", "stack/wire", "tools"), "ranks join hosts to a run, and know no node"),
    "tools/braid/process": (("base", "tools/braid/process"), "child processes serve every command and depend on none"),
}

SANS_IO = ("stack", "convergence", "dsm/engine")

# (areas, or ANYTHING; areas that are exempt; pattern of the include's name; why)
MUST_NOT_INCLUDE = [
    (
        SANS_IO,
        (),
        r"(thread|mutex|shared_mutex|condition_variable|future|semaphore|latch|barrier|stop_token|chrono|ctime"
        r"|time\.h|pthread\.h|unistd\.h|sys/(socket|time|timerfd|epoll|select|uio)\.h|poll\.h|netinet/.*|arpa/.*)",
        "sans-I/O: time and events come in, decisions go out; no clock, thread or socket inside",
    ),
    (
        SANS_IO,
        ("dsm/engine/lock_words.h",),
        r"atomic",
        "sans-I/O: one thread at a time calls in; the words of open locks are what threads share past the engine",
    ),
    (SANS_IO, (), r"base/clock\.h", "sans-I/O: the driver reads the clock and hands the instant in"),
    (SANS_IO, (), r"spdlog/.*|cstdio|stdio\.h|iostream|fstream", "sans-I/O: no log and no files inside"),
    (
        ("dsm/engine",),
        ("dsm/engine/engine.cpp",),
        r"dsm/engine/engine\.h",
        "the engine's parts stand below it: what they share with it is in types.h",
    ),
    (
        (*SANS_IO, "settings"),
        ("settings/views",),
        r"(nlohmann/.*|CLI/.*|base/json\.h)",
        "formats of files and command lines are views: settings/views",
    ),
    (ANYTHING, ("stack/secure", "tools/braid/run/ranks", "tests", "bench"), r"openssl/.*",
     "only stack/secure and tools/braid/run/ranks know of OpenSSL"),
    (ANYTHING, ("settings/views",), r"yaml-cpp/.*", "only settings/views knows of yaml-cpp: settings/views/yaml.h"),
    (ANYTHING, ("proxy/nic", "tests", "bench", "tools"), r"rte_.*\.h", "only proxy/nic knows of DPDK"),
]

# (areas that are exempt, pattern of the text outside comments and strings, why)
MUST_NOT_SAY = [
    (
        # The last two define the C library's names, for programs.
        ("base/clock.h", "base/clock.cpp", "bench", "tests", "dsm/program/system_calls_processes.cpp", "dsm/pthreads/time.cpp"),
        r"\b(clock_gettime|gettimeofday|timespec_get|(steady|system|high_resolution)_clock|__rdtscp?|rte_rdtsc\w*"
        r"|rte_get_(tsc|timer)_cycles|std::time\s*\(|time\s*\(\s*(NULL|nullptr|0)\s*\))",
        "only base/clock reads a clock: monotonic_now()",
    ),
]

SOURCE_SUFFIXES = {".h", ".hpp", ".c", ".cc", ".cpp", ".inl"}
SKIPPED_FOLDERS = {"build", "docs", "configs", "cmake"}

# --- applying them ---------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, order=True)
class Violation:
    path: str
    line: int
    what: str
    rule: str

    def __str__(self):
        return f"{self.path}:{self.line}: {self.what}: {self.rule}"


def in_area(path, area):
    """Whether `path` (from the root, with /) is in `area`."""
    if area == "*":
        return True
    if area.endswith("/*"):
        return path.rpartition("/")[0] == area[:-2]
    return path == area or path.startswith(area + "/")


def area_of(path):
    """The longest area of the table that contains the path, or None."""
    fitting = [area for area in MAY_INCLUDE if in_area(path, area)]
    return max(fitting, key=len, default=None)


def in_any(path, areas):
    return any(in_area(path, area) for area in areas)


TOKEN = re.compile(
    r"""(?P<comment>//(?:\\\n|[^\n])*|/\*.*?\*/)
      | (?P<raw>R"(?P<mark>[^\s()\\"]{0,16})\(.*?\)(?P=mark)")
      | (?P<string>"(?:\\.|[^"\\\n])*"|(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])*')""",
    re.DOTALL | re.VERBOSE,
)
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(?:"([^"\n]+)"|<([^>\n]+)>)', re.MULTILINE)


def blanked(text, groups):
    """The text with tokens of these kinds replaced by blanks; lines keep their numbers."""

    def blank(match):
        return re.sub(r"[^\n]", " ", match[0]) if match.lastgroup in groups else match[0]

    return TOKEN.sub(blank, text)


def line_of(text, offset):
    return text.count("\n", 0, offset) + 1


def included_path(root, path, quoted, name):
    """The path from the root of an include of the project; None for others. An include is the project's if its name is
    relative to the root or, quoted, names a file relative to the including one."""
    if area_of(name) is not None and "/" in name and (quoted or (root / name).is_file()):
        return name
    if quoted:
        beside = (root / path).parent / name
        if beside.is_file():
            try:
                return beside.resolve().relative_to(root.resolve()).as_posix()
            except ValueError:
                return None
    return None


def check_include(root, path, area, line, quoted, name):
    shown = f'#include "{name}"' if quoted else f"#include <{name}>"
    target = included_path(root, path, quoted, name)
    if target is not None:
        allowed, why = MAY_INCLUDE[area]
        if target != name and allowed != ANYTHING:
            yield Violation(path, line, shown, f'spell it from the root: "{target}"')
        if not in_any(target, allowed):
            yield Violation(path, line, shown, f"{area} may include {', '.join(allowed)} ({why})")
    for areas, exempt, pattern, why in MUST_NOT_INCLUDE:
        if in_any(path, areas) and not in_any(path, exempt) and re.fullmatch(pattern, target or name):
            yield Violation(path, line, shown, why)


def check_file(root, path):
    text = (root / path).read_text(encoding="utf-8", errors="replace")
    area = area_of(path)
    if area is None:
        yield Violation(path, 1, "no layer", "its folder has no row in MAY_INCLUDE of tools/check_layers.py: add one")
        return
    uncommented = blanked(text, {"comment", "raw"})
    for match in INCLUDE.finditer(uncommented):
        quoted = match[1] is not None
        yield from check_include(
            root, path, area, line_of(text, match.start(1 if quoted else 2)), quoted, match[1] or match[2]
        )
    code = blanked(text, {"comment", "raw", "string"})
    for exempt, pattern, why in MUST_NOT_SAY:
        if in_any(path, exempt):
            continue
        for match in re.finditer(pattern, code):
            yield Violation(path, line_of(code, match.start()), match[0].strip(), why)


def sources(root):
    for file in sorted(root.rglob("*")):
        path = file.relative_to(root)
        if file.suffix not in SOURCE_SUFFIXES or not file.is_file():
            continue
        if path.parts[0] in SKIPPED_FOLDERS or path.parts[0].startswith("."):
            continue
        yield path.as_posix()


def check_tree(root):
    """(violations in order, number of files checked)"""
    root = pathlib.Path(root)
    files = list(sources(root))
    return sorted(v for path in files for v in check_file(root, path)), len(files)


def check_tables():
    """The areas that the tables name but do not have; a misspelt one would forbid or allow nothing."""
    named = {a for allowed, _ in MAY_INCLUDE.values() for a in allowed}
    named |= {a for areas, exempt, _, _ in MUST_NOT_INCLUDE for a in (*areas, *exempt)}
    return sorted(a for a in named - {"*"} if a.removesuffix("/*") not in MAY_INCLUDE)


def main():
    here = pathlib.Path(__file__).resolve().parent.parent
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("root", nargs="?", type=pathlib.Path, default=here)
    root = parser.parse_args().root
    if unknown := check_tables():
        print(f"check_layers: the tables name areas without a row: {', '.join(unknown)}", file=sys.stderr)
        return 2
    violations, looked_at = check_tree(root)
    for violation in violations:
        print(violation)
    if looked_at == 0:
        print(f"check_layers: no source file under {root}", file=sys.stderr)
        return 2
    print(f"check_layers: {looked_at} files, {len(violations)} violations")
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
