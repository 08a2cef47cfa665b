#!/usr/bin/env python3
"""Messages and bytes between clusters of the eight applications, with both page protocols, on 2, 4 and 16 simulated clusters
of one compute node, compared with message_counts.txt: virtual time makes them exact. A change of the protocol, of the
transport's messages or of an application changes the table on purpose, and then one command writes it anew:

    tests/cli/message_counts_test.py build/release/bin --write

The problems are small, so that the table costs seconds; configs/study-protocols.yaml measures larger ones.
"""
import argparse
import concurrent.futures
import difflib
import json
import os
import pathlib
import subprocess
import sys
import tempfile

GOLDEN = pathlib.Path(__file__).with_name("message_counts.txt")
PROGRAMS = (
    "water --molecules 27 --iterations 1",
    "jacobi --size 64 --iterations 4",
    "matmul --size 48",
    "gauss --size 48",
    "tsp --cities 7",
    "fft --points 1024",
    "unstructured --nodes 200 --edges 1200",
    "barnes --bodies 128 --iterations 1",
)
CLUSTERS = (2, 4, 16)
PROTOCOLS = ("eager", "lazy")
HEAD = ("# Written by message_counts_test.py --write, which explains it. The numbers behind the bytes are the page protocol's messages\n"
        "# by kind; several may share a message of the transport.\n")


def simulate(bin_dir, point):
    """The report of one simulation."""
    program, clusters, protocol = point
    with tempfile.NamedTemporaryFile() as file:
        words = [f"{bin_dir}/braid", "sim", "--quiet", "--report", file.name, "--clusters", str(clusters), "--compute", "1",
                 "--protocol", protocol, *program.split()]
        run = subprocess.run(words, capture_output=True, text=True, timeout=300)
        if run.returncode != 0:
            sys.exit(f"{' '.join(words)}: status {run.returncode}\n{run.stdout}{run.stderr}")
        return json.load(file)


def line(point, report):
    program, clusters, protocol = point
    messages = report["messages"]
    size = round(messages["mean_bytes"] * messages["count"])
    kinds = {}
    for cluster in report["clusters"]:
        for name, count in cluster["cluster_counts"].items():
            if name.startswith("sent_"):
                kinds[name] = kinds.get(name, 0) + count
    by_kind = " ".join(f"{name.removeprefix('sent_')}={count}" for name, count in kinds.items() if count != 0)
    return f"{program}; {clusters} clusters, {protocol}: {messages['count']} messages, {size} bytes; {by_kind}\n"


def main():
    parser = argparse.ArgumentParser(description="Messages and bytes of the applications, exactly.")
    parser.add_argument("bin_dir", help="where braid and the simulated applications are")
    parser.add_argument("--write", action="store_true", help="write message_counts.txt anew")
    options = parser.parse_args()
    points = [(a, c, p) for a in PROGRAMS for c in CLUSTERS for p in PROTOCOLS]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        reports = list(pool.map(lambda point: simulate(options.bin_dir, point), points))
    if not all(report["deterministic"] for report in reports):
        print("message_counts_test: the compiler plug-in is not built, so simulations are not exact: nothing is compared")
        return 77  # ctest: skipped
    measured = HEAD + "".join(map(line, points, reports))
    if options.write:
        GOLDEN.write_text(measured, encoding="utf-8")
        return 0
    expected = GOLDEN.read_text(encoding="utf-8")
    if measured == expected:
        return 0
    sys.stdout.writelines(difflib.unified_diff(expected.splitlines(True), measured.splitlines(True), "message_counts.txt",
                                               "measured", n=0))
    print(f"message_counts_test: messages have changed. If that is meant: {__file__} {options.bin_dir} --write")
    return 1


if __name__ == "__main__":
    sys.exit(main())
