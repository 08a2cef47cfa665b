#!/usr/bin/env python3
"""A run among packets of somebody who has no secret, as many as one process sends: those of a recorded run, whole and in parts, and
forged hellos, from many addresses. The run's result is the same, its daemon's memory does not grow, and it is about as fast as beside the
same packets to a port that nobody has.

    flood_hosts_test.py BIN [unittest's options]
"""

import json
import os
import pathlib
import pickle
import random
import re
import signal
import struct
import subprocess
import sys
import time
import unittest

from runs import MOST_SECONDS, CommandTest, wait_until

BIN = sys.argv.pop(1) if len(sys.argv) > 1 else ""
TWO = ("127.0.0.1", "127.0.0.2")
SEED = int(os.environ.get("SEED", random.randrange(1 << 32)))
ROUNDS = 2
ITERATIONS = 60
HEADERS = 14 + 20 + 8  # Ethernet, IPv4, UDP
# The kernel's and the allocator's own changes; a flood of that many senders would take more than this with some bytes for each.
GROWTH_KIB = 2048

# Sends the packets of the file FROM to ADDRESS PORT, until it is told to end; then prints how many.
SENDER = r"""
import pickle, random, signal, socket, sys
packets = pickle.load(open(sys.argv[1], "rb"))
prng, to, go = random.Random(int(sys.argv[4])), (sys.argv[2], int(sys.argv[3])), [True]
signal.signal(signal.SIGTERM, lambda *_: go.clear())
sockets = []
for _ in range(200):
    one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    one.bind((f"127.{prng.randrange(1, 255)}.{prng.randrange(255)}.{prng.randrange(1, 255)}", 0))
    sockets.append(one)
hellos = [packet for packet in packets if packet[1] == 1]
sent = 0
while go:
    packet = prng.choice(packets)
    if prng.random() < 0.5:
        packet = prng.choice(hellos)
        if prng.random() < 0.5:  # of another epoch
            packet = packet[:12] + prng.randbytes(8) + packet[20:]
    if prng.random() < 0.3:
        packet = packet[:prng.randrange(len(packet) + 1)]
    try:
        prng.choice(sockets).sendto(packet, to)
    except OSError:
        pass  # of a datagram before: nobody has the port
    sent += 1
print(sent)
"""


def udp_payloads(capture):
    """Those of all packets of a file of captures (pcapng: blocks of type 6 have one each)."""
    data, at, found = capture.read_bytes(), 0, []
    while at + 12 <= len(data):
        kind, length = struct.unpack_from("<II", data, at)
        if kind == 6:
            captured = struct.unpack_from("<I", data, at + 20)[0]
            found.append(data[at + 28 + HEADERS:at + 28 + captured])
        at += length
    return [payload for payload in found if payload]


class Flood(CommandTest):
    binaries = BIN

    def words(self, iterations):
        return ("--hosts", ",".join(TWO), "--compute", "1", "--bind", "none", self.braid.application("jacobi"), "--size", "128",
                "--iterations", str(iterations))

    def recorded(self):
        """A file with the packets of an earlier run, hellos and all."""
        frames = self.folder / "frames"
        run = self.braid.run("--quiet", "--capture", str(frames), *self.words(10))
        self.assertEqual(run.returncode, 0, run.stderr)
        packets = [packet for file in sorted(frames.iterdir()) for packet in udp_payloads(file)]
        self.assertGreater(len(packets), 20)
        path = self.folder / "packets"
        path.write_bytes(pickle.dumps(packets))
        return path

    @staticmethod
    def daemons(run):
        """The daemons of a run, by the address of the one UDP socket that each has: (process, port)."""
        found = {}
        for folder in pathlib.Path("/proc").iterdir():
            try:
                if not folder.name.isdigit() or (folder / "comm").read_text() != "braidd\n":
                    continue
                if os.getsid(int(folder.name)) != os.getsid(run.pid):
                    continue
                inodes = {os.readlink(file)[8:-1] for file in (folder / "fd").iterdir() if os.readlink(file).startswith("socket:")}
                for line in (folder / "net" / "udp").read_text().splitlines()[1:]:
                    parts = line.split()
                    if parts[9] in inodes:
                        address, port = parts[1].split(":")
                        found[".".join(str(byte) for byte in reversed(bytes.fromhex(address)))] = (int(folder.name), int(port, 16))
            except OSError:
                pass
        return found

    @staticmethod
    def resident_kib(pid):
        status = pathlib.Path(f"/proc/{pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", status)[1])

    def run_among(self, packets, to_open_port, iterations):
        """Runs with a sender beside it. Returns the seconds, what was sent, and the report's counters of the daemon that got it."""
        report = self.folder / "report.json"
        run = subprocess.Popen(self.braid.words("--report", str(report), *self.words(iterations)), stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
        self.addCleanup(run.kill)
        self.assertTrue(wait_until(lambda: set(self.daemons(run)) == set(TWO) or run.poll() is not None))
        pid, port = self.daemons(run)[TWO[0]]
        # A port that nobody has: sockets of runs are below it.
        to = str(port if to_open_port else 65500)
        sender = subprocess.Popen([sys.executable, "-c", SENDER, str(packets), TWO[0], to, str(SEED)], stdout=subprocess.PIPE, text=True)
        self.addCleanup(sender.kill)
        sizes = []
        while run.poll() is None:
            time.sleep(0.2)
            try:
                sizes.append(self.resident_kib(pid))
            except (OSError, TypeError):
                pass  # it has ended
        sender.send_signal(signal.SIGTERM)
        sent = int(sender.communicate(timeout=MOST_SECONDS)[0])
        out, err = run.communicate(timeout=MOST_SECONDS)
        self.assertEqual(run.returncode, 0, err)
        self.assertIn("verified", out)
        told = json.loads(report.read_text())
        seconds = float(re.search(r"ran ([0-9.]+) s", err)[1])
        return seconds, sent, sizes, told["clusters"][0]["proxies"][0]

    def test_a_recorded_run_is_sent_again_and_again(self):
        packets = self.recorded()
        took = {True: [], False: []}
        for _ in range(ROUNDS):
            for to_open_port in (True, False):
                seconds, sent, sizes, counters = self.run_among(packets, to_open_port, ITERATIONS)
                took[to_open_port].append(seconds)
                refused = {name: counters.get(name, 0) for name in ("unknown_epoch", "refused_other_secret", "hellos_unread", "malformed",
                                                                    "receive_drops")}
                print(f"seed {SEED}: {'open' if to_open_port else 'closed'} port: {seconds:.2f} s, {sent} packets, {refused}, "
                      f"{sizes[:1]} to {sizes[-1:]} KiB", file=sys.stderr)
                self.assertGreater(sent, 1000)
                if to_open_port:
                    self.assertGreater(sum(refused.values()), 1000)
                    self.assertGreater(refused["refused_other_secret"], 0)
                    # Its first quarter is that of starting.
                    later = sizes[len(sizes) // 4:]
                    self.assertLess(max(later) - later[0], GROWTH_KIB, sizes)
        ratio = min(took[True]) / min(took[False])
        print(f"seed {SEED}: {ratio:.2f} of the time beside the same packets to a closed port", file=sys.stderr)
        self.assertLess(ratio, 2.5, took)


if __name__ == "__main__":
    unittest.main()
