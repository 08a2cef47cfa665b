"""tools/wireshark/braid.lua shows in real captures what the proxies did, and knows what is not theirs.

The programs come from the environment: BRAID_COMMAND, BRAID_JACOBI. Ends with status 77 where there is no tshark.
"""

import collections
import decimal
import functools
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "tools" / "wireshark" / "braid.lua"
SKIPPED = 77

# Types and kinds of docs/PROTOCOL.md.
HELLO, DATA, ACK, CLOSE = "1", "2", "3", "5"
MESSAGE, CREDIT, DATAGRAM, RETURNED = "1", "2", "3", "4"
MESSAGES, SHARED_MEMORY, DATAGRAMS, CONTROL = "1", "2", "3", "4"  # protocols
CONNECT, ACCEPT, CONFIRM = "1", "2", "3"

PACKET_FIELDS = [
    "frame.number", "frame.time_epoch", "frame.packet_flags_direction", "braid.type", "braid.version", "braid.records",
    "braid.source.cluster", "braid.source.proxy", "braid.destination.cluster", "braid.destination.proxy",
    "braid.epoch.sender", "braid.epoch.receiver", "braid.seq", "braid.ack", "braid.sacked", "braid.timestamp",
    "braid.timestamp_echo", "braid.hello.hash", "braid.hello.incarnation", "braid.first_sent",
    "braid.record.destination", "braid.record.source", "braid.record.kind", "braid.record.protocol", "braid.record.position",
    "braid.record.returned",
    "braid.record.bytes", "braid.record.message_bytes", "braid.record.part", "braid.record.first", "braid.record.last",
    "braid.record.message", "braid.record.message_offset",
    "braid.train.messages", "braid.train.length", "braid.train.position", "braid.train.data",
    "braid.control.kind", "braid.control.window",
]


def tshark(capture, *words):
    """What tshark prints of a capture, with our script and every checksum checked."""
    result = subprocess.run(
        ["tshark", "-X", f"lua_script:{SCRIPT}", "-o", "udp.check_checksum:TRUE", "-o", "ip.check_checksum:TRUE",
         "-n", "-r", str(capture), *words],
        capture_output=True, text=True, timeout=100, check=False,
    )
    if result.returncode != 0 or "Lua" in result.stderr:
        raise AssertionError(f"tshark ended with status {result.returncode}: {result.stderr}")
    return result.stdout


def packets(capture):
    """Our packets as dictionaries of field -> list of its values, which the caller does not change."""
    now = os.stat(capture)
    return packets_of(capture, (now.st_mtime_ns, now.st_size))


@functools.cache
def packets_of(capture, _version):
    words = ["-T", "fields", "-E", "separator=;", "-E", "occurrence=a", "-E", "aggregator=,", "-Y", "braid"]
    for field in PACKET_FIELDS:
        words += ["-e", field]
    rows = []
    for line in tshark(capture, *words).splitlines():
        values = [value.split(",") if value else [] for value in line.split(";")]
        rows.append(dict(zip(PACKET_FIELDS, values)))
    return rows


def one(packet, field):
    assert len(packet[field]) == 1, (field, packet)
    return packet[field][0]


def number(packet, field):
    return int(one(packet, field), 0)


def time_of(packet):
    return decimal.Decimal(one(packet, "frame.time_epoch"))


def count(capture, display_filter):
    return len(tshark(capture, "-Y", display_filter, "-T", "fields", "-e", "frame.number").split())


@functools.cache
def run(*options):
    """The folder that a small run with these options was captured in; it verified its result."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="braid-dissector-"))
    RUNS.append(folder)
    result = subprocess.run(
        [os.environ["BRAID_COMMAND"], "run", "--quiet", "--capture", str(folder), *options,
         os.environ["BRAID_JACOBI"], "--size", "192", "--iterations", "6"],
        capture_output=True, text=True, timeout=100, check=False,
    )
    if result.returncode != 0 or "verified" not in result.stdout:
        raise AssertionError(f"the run failed: {result.stdout}{result.stderr}")
    return folder


RUNS = []


def tearDownModule():
    for folder in RUNS:
        shutil.rmtree(folder, ignore_errors=True)


@functools.cache
def opened_run(*options):
    """The same of a sealed run, whose packets `braid decrypt` has opened."""
    keys = tempfile.NamedTemporaryFile(prefix="braid-dissector-keys-")
    sealed = run("--security", "required", "--keylog", keys.name, *options)
    opened = pathlib.Path(tempfile.mkdtemp(prefix="braid-dissector-"))
    RUNS.append(opened)
    with keys:
        for capture in sealed.iterdir():
            result = subprocess.run(
                [os.environ["BRAID_COMMAND"], "decrypt", str(capture), "--keylog", keys.name, "-o", str(opened / capture.name)],
                capture_output=True, text=True, timeout=100, check=False,
            )
            if not re.fullmatch(r"braid: opened (\d+) of \1 sealed packets\n", result.stderr):
                raise AssertionError(f"not all was opened: {result.stderr}")
    return opened


# Two proxies, so that there are four sub-connections' ends; an MTU that cuts pages into parts.
QUIET = ("--proxies", "2", "--mtu", "1500")


def quiet_run():
    return run(*QUIET)


class CapturedRun(unittest.TestCase):
    def run_with(self, *options):
        return run(*options)

    def quiet_run(self):
        return self.run_with(*QUIET)

    def captures(self, folder):
        files = sorted(folder.iterdir())
        self.assertEqual(
            [file.name for file in files],
            [f"cluster{c}-proxy{p}.pcapng" for c in range(2) for p in range(len(files) // 2)],
        )
        return files

    def test_every_packet_is_dissected_completely_and_its_checksums_are_right(self):
        for capture in self.captures(self.quiet_run()):
            with self.subTest(capture.name):
                self.assertGreater(len(packets(capture)), 20)
                wrong = ("not braid", "_ws.malformed or braid.malformed or _ws.lua.error",
                         "not (udp.checksum.status == 1 and ip.checksum.status == 1)")
                if count(capture, " or ".join(f"({one})" for one in wrong)) != 0:
                    self.assertEqual({one: count(capture, one) for one in wrong}, dict.fromkeys(wrong, 0))

    def test_hellos_have_the_epochs_of_all_other_packets(self):
        incarnations = collections.defaultdict(set)
        hashes = set()
        captures = self.captures(self.quiet_run())
        # A node that is still there when the other ends greets it with another incarnation as soon as one proxy has heard of it, maybe before
        # another proxy does.
        closed = min(time_of(p) for capture in captures for p in packets(capture) if one(p, "braid.type") == CLOSE)
        for capture in captures:
            with self.subTest(capture.name):
                all_packets = [p for p in packets(capture) if time_of(p) < closed]
                self.assertGreater(len(all_packets), 20)
                epoch = {}
                for p in all_packets:
                    if one(p, "braid.type") == HELLO:
                        epoch[one(p, "braid.source.cluster")] = one(p, "braid.epoch.sender")
                        hashes.add(one(p, "braid.hello.hash"))
                        incarnations[one(p, "braid.source.cluster")].add(one(p, "braid.hello.incarnation"))
                self.assertEqual(set(epoch), {"0", "1"})
                for p in all_packets:
                    self.assertEqual(one(p, "braid.epoch.sender"), epoch[one(p, "braid.source.cluster")])
                    if one(p, "braid.type") != HELLO:
                        self.assertEqual(one(p, "braid.epoch.receiver"), epoch[one(p, "braid.destination.cluster")])
                        self.assertGreater(number(p, "braid.timestamp"), 0)
        self.assertEqual(len(hashes), 1, "both nodes have the same settings")
        self.assertEqual([len(incarnations[c]) for c in "01"], [1, 1], "a node has one, whatever the proxy")

    def test_directions_and_ends_are_those_of_the_proxy_that_captured(self):
        for capture in self.captures(self.quiet_run()):
            cluster, proxy = capture.name[len("cluster")], capture.name[-len("0.pcapng")]
            for p in packets(capture):
                sent = number(p, "frame.packet_flags_direction") == 2
                side = "source" if sent else "destination"
                self.assertEqual(one(p, f"braid.{side}.cluster"), cluster, p)
                self.assertEqual(one(p, f"braid.{side}.proxy"), proxy, p)

    def test_numbers_have_no_gap_and_only_sent_packets_are_acknowledged(self):
        for capture in self.captures(self.quiet_run()):
            with self.subTest(capture.name):
                next_seq = collections.Counter()  # by sender
                for p in packets(capture):
                    source, destination = one(p, "braid.source.cluster"), one(p, "braid.destination.cluster")
                    self.assertLessEqual(number(p, "braid.ack"), next_seq[destination], p)
                    if one(p, "braid.type") == DATA:
                        self.assertLessEqual(number(p, "braid.seq"), next_seq[source], p)
                        if not p["braid.first_sent"]:
                            self.assertEqual(number(p, "braid.seq"), next_seq[source])
                            next_seq[source] += 1
                self.assertGreater(min(next_seq.values()), 5)

    def test_records_show_where_messages_begin_and_end(self):
        kinds = collections.Counter()
        protocols = collections.defaultdict(set)  # by kind
        pieces = collections.defaultdict(list)  # of what was cut: (cluster, its port, position) -> offsets, lengths
        lengths = {}
        for capture in self.captures(self.quiet_run()):
            for p in packets(capture):
                if one(p, "braid.type") != DATA or number(p, "frame.packet_flags_direction") != 2 or p["braid.first_sent"]:
                    continue
                columns = [p[f"braid.record.{name}"] for name in
                           ("kind", "destination", "bytes", "message_bytes", "part")]
                self.assertEqual({len(column) for column in columns}, {number(p, "braid.records")})
                kinds.update(columns[0])
                for kind, protocol in zip(p["braid.record.kind"], p["braid.record.protocol"]):
                    protocols[kind].add(protocol)
                boundaries = iter(zip(p["braid.record.first"], p["braid.record.last"]))
                names = iter(zip(p["braid.record.message"], p["braid.record.message_offset"]))
                for kind, port, here, whole, part in zip(*columns):
                    begins, ends = next(boundaries) if kind == MESSAGE else ("1", "1")
                    if part == "0":
                        self.assertEqual((here, begins, ends), (whole, "1", "1"))
                        continue
                    message, offset = next(names)
                    self.assertEqual(begins, str(int(offset == "0")))
                    self.assertEqual(ends, str(int(int(offset) + int(here) == int(whole))))
                    key = (one(p, "braid.destination.cluster"), port, message)
                    pieces[key].append((int(offset), int(here)))
                    lengths[key] = int(whole)
        self.assertGreater(kinds[MESSAGE], 50)
        self.assertGreaterEqual(kinds[DATAGRAM], 3)
        self.assertEqual(protocols[MESSAGE], {SHARED_MEMORY}, "the program's pages")
        self.assertEqual(protocols[DATAGRAM], {CONTROL})
        self.assertGreater(len(pieces), 10, "pages do not fit packets of 1500 bytes")
        for key, parts in pieces.items():
            end = 0
            for offset, here in sorted(parts):
                self.assertEqual(offset, end, key)
                end += here
            self.assertEqual(end, lengths[key], "the parts make the whole")

    def test_control_messages_are_shown_as_text(self):
        said = collections.Counter()
        for capture in self.captures(self.quiet_run()):
            for p in packets(capture):
                if p["braid.control.kind"] and number(p, "frame.packet_flags_direction") == 2 and not p["braid.first_sent"]:
                    said.update(p["braid.control.kind"])
                    self.assertTrue(all(int(w) in (0, 512 << 10) for w in p["braid.control.window"]))
        for kind in (CONNECT, ACCEPT, CONFIRM):
            self.assertGreaterEqual(said[kind], 1)
        self.assertEqual(said[ACCEPT], said[CONFIRM])

    def test_the_text_shows_the_main_fields(self):
        capture = self.captures(self.quiet_run())[0]
        text = tshark(capture, "-V", "-Y", "braid.record.part == 1", "-c", "2000")
        for words in ("Type: Data (2)", "Sender's epoch: 0x", "Sequence number: ", "Acknowledges all before: ",
                      "Record: Message ", "Kind: Message (1)", "A part: True", "[Begins the message: True]",
                      "[Ends the message: True]", "Position that names the message: ", "Timestamp echo (64 ns): "):
            self.assertIn(words, text)
        lines = tshark(capture, "-c", "200")
        self.assertRegex(lines, r"braid \d+ Hello [01]\.0 > [01]\.0")
        self.assertRegex(lines, r"braid \d+ Data [01]\.0 > [01]\.0 seq=\d+ ack=\d+")

    def test_fragmented_packets_are_shown_reassembled(self):
        """In the capture lie fragments; tshark puts them together before it asks the script."""
        for capture in self.captures(run("--fragmentation", "ip", "--mtu", "1500")):
            self.assertGreater(count(capture, "ip.flags.mf == 1"), 20)
            self.assertGreater(count(capture, "braid.type == 2 and ip.reassembled.length > 1500"), 10)
            self.assertEqual(count(capture, "not braid and not ip.flags.mf == 1 and not ip.reassembled_in"), 0)
            self.assertEqual(count(capture, "_ws.malformed or braid.malformed or _ws.lua.error"), 0)
            self.assertEqual(count(capture, "ip.checksum.status == 0 or udp.checksum.status == 0"), 0)

    def test_losses_are_shown_as_holes_and_as_retransmitted_packets(self):
        again, behind_a_hole = 0, 0
        for capture in self.captures(self.run_with("--loss", "0.03", "--seed", "7", "--mtu", "1500")):
            self.assertEqual(count(capture, "_ws.malformed or braid.malformed or _ws.lua.error"), 0)
            sent = [p for p in packets(capture) if number(p, "frame.packet_flags_direction") == 2]
            seen = {}
            for p in sent:
                behind_a_hole += len(p["braid.sacked"])
                for acknowledged in p["braid.sacked"]:
                    self.assertGreater(int(acknowledged), number(p, "braid.ack"))
                if one(p, "braid.type") != DATA:
                    continue
                first = seen.setdefault(one(p, "braid.seq"), one(p, "frame.number"))
                self.assertEqual(p["braid.first_sent"], [first] if first != one(p, "frame.number") else [])
                again += first != one(p, "frame.number")
        self.assertGreater(again, 0)
        self.assertGreater(behind_a_hole, 0)


class OpenedRun(CapturedRun):
    """What `braid decrypt` writes is shown as a plain run is."""

    test_fragmented_packets_are_shown_reassembled = None  # pieces of packets are not opened
    # Of headers, which are never sealed.
    test_hellos_have_the_epochs_of_all_other_packets = None
    test_directions_and_ends_are_those_of_the_proxy_that_captured = None

    def run_with(self, *options):
        return opened_run(*options)

    def test_each_packet_but_hellos_is_shown_with_its_number(self):
        for capture in self.captures(self.quiet_run()):
            self.assertEqual(count(capture, "braid.type != 1 and not (braid.opened and braid.number)"), 0)
            self.assertEqual(count(capture, "braid.type == 1 and braid.opened"), 0)
            self.assertEqual(count(capture, "braid.sealed"), 0)


class SealedRun(unittest.TestCase):
    def test_headers_are_shown_and_records_are_not(self):
        for capture in sorted(run("--security", "required").iterdir()):
            self.assertEqual(count(capture, "not braid"), 0, "acknowledgements are recognized, too")
            self.assertGreater(count(capture, "braid.type == 2 and braid.sealed and braid.number"), 20)
            self.assertGreater(count(capture, "braid.type == 3 and braid.sealed"), 0)
            self.assertEqual(count(capture, "braid.record or braid.opened or braid.malformed or _ws.lua.error"), 0)


class CaptureThatCannotBe(unittest.TestCase):
    def test_a_folder_that_cannot_be_made_is_named_before_anything_starts(self):
        result = subprocess.run(
            [os.environ["BRAID_COMMAND"], "run", "--capture", "/proc/nowhere", os.environ["BRAID_JACOBI"]],
            capture_output=True, text=True, timeout=100, check=False,
        )
        self.assertEqual(result.returncode, 73)
        self.assertEqual(result.stdout, "")
        self.assertRegex(result.stderr, "^braid: --capture: /proc/nowhere cannot be written: .*; name a folder that "
                         "this user may write in\n$")


def datagram(payload, port=7700):
    """An Ethernet frame with a UDP datagram; no checksums, nobody looks at them here."""
    udp = struct.pack(">HHHH", port, port, 8 + len(payload), 0) + payload
    ip = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 20 + len(udp), 1, 0, 64, 17, 0, bytes([10, 98, 0, 1]), bytes([10, 98, 1, 1]))
    return bytes(12) + b"\x08\x00" + ip + udp


class MadeUp(unittest.TestCase):
    """Packets that no proxy sends, in a capture that this test writes."""

    def capture(self, *frames):
        holder = tempfile.TemporaryDirectory(prefix="braid-dissector-")
        self.addCleanup(holder.cleanup)
        path = pathlib.Path(holder.name) / "made-up.pcap"
        with open(path, "wb") as file:
            file.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1))
            for frame in frames:
                file.write(struct.pack("<IIII", 1, 0, len(frame), len(frame)) + frame)
        return path

    def real_data_payload(self):
        """A data packet of one whole message, as it was captured."""
        capture = sorted(quiet_run().iterdir())[0]
        rows = tshark(capture, "-Y", "braid.type == 2 and braid.records == 1 and braid.record.kind == 1 and "
                      "braid.record.bytes > 8 and not braid.train.messages", "-T", "fields", "-e", "udp.payload").split()
        return bytearray.fromhex(rows[0].replace(":", ""))

    def test_other_packets_are_ignored(self):
        foreign = self.capture(
            datagram(b"hello"),
            datagram(bytes(200)),
            datagram(bytes([5, 2, 1, 0]) + bytes(196)),  # no epoch
            datagram(bytes([3, 2, 1, 0]) + bytes([7]) * 196),  # another version
            datagram(bytes([5, 3, 0, 0]) + bytes([7]) * 196),  # an acknowledgement with something behind it
        )
        self.assertEqual(count(foreign, "braid"), 0)
        self.assertEqual(count(foreign, "udp"), 5)

    def test_packets_are_recognized_on_any_port(self):
        self.assertEqual(count(self.capture(datagram(bytes(self.real_data_payload()), port=40001)), "braid.type == 2"), 1)

    POSITION = 0xFFFFFFFD  # they wrap

    def train_payload(self, lengths, **changes):
        """A data packet of one train, whose messages are filled with 1, 2, 3 …; `changes` to its header's fields."""
        padding = [-length % 8 for length in lengths]
        content = b"".join(bytes([i + 1]) * length + bytes(pad) for i, (length, pad) in enumerate(zip(lengths, padding)))
        fields = {"bytes": len(content), "flags": 1, "protocol": 1, "messages": len(lengths), "last": 0, **changes}
        table = struct.pack(f"<{len(lengths)}H", *fields.get("table", lengths))
        header = bytes([5, 2, 1, 0]) + struct.pack("<HBBHHQQ", 0, 0, 0, 1, 0, 0xA1, 0xB1) + bytes(20)
        record = struct.pack("<IIIHHBBBB", 7, 9, self.POSITION, fields["bytes"], 0, fields["flags"], fields["protocol"],
                             fields["messages"], fields["last"])
        return header + record + table + bytes(-len(table) % 4) + content

    def test_each_message_of_a_train_is_shown(self):
        lengths = [5, 0, 64, 130, 8]
        capture = self.capture(datagram(self.train_payload(lengths)))
        self.assertEqual(count(capture, "braid.malformed or _ws.malformed or _ws.lua.error"), 0)
        (packet,) = packets(capture)
        self.assertEqual(one(packet, "braid.version"), "5")
        self.assertEqual(one(packet, "braid.train.messages"), "5")
        self.assertEqual(one(packet, "braid.record.bytes"), str(8 + 0 + 64 + 136 + 8))
        self.assertEqual(packet["braid.train.length"], [str(length) for length in lengths])
        self.assertEqual([int(p) for p in packet["braid.train.position"]], [self.POSITION, self.POSITION + 1,
                                                                            self.POSITION + 2, 0, 3])
        self.assertEqual(packet["braid.train.data"],
                         [f"{i + 1:02x}" * length for i, length in enumerate(lengths) if length > 0])
        text = tshark(capture, "-V")
        self.assertIn(f"Record: Message 9 > 7, position {self.POSITION}, train of 5 messages, 216 bytes", text)
        self.assertIn("Message 4 of 5: position 0, 130 bytes", text)

    def test_a_malformed_train_is_shown_as_malformed(self):
        wrong = [
            ("a train has 2 to 16 messages", [8], {}),
            ("a train has 2 to 16 messages", [8] * 17, {}),
            ("the train is too long", [1024, 1024, 8], {}),
            ("the lengths of the train are not those of its bytes", [8, 16], {"table": [8, 17]}),
            ("the lengths of the train are not those of its bytes", [8, 16], {"table": [8, 8]}),
            ("a train is of whole messages", [8, 8], {"flags": 2}),
            ("a train is of whole messages", [8, 8], {"flags": 0x41}),
            ("a record is longer than its packet", [8, 8], {"messages": 255}),
            ("no such kind or flag", [8, 8], {"last": 1}),
            ("a train is of whole messages", [8, 8], {"flags": 4}),
        ]
        payloads = [self.train_payload(lengths, **changes) for _, lengths, changes in wrong]
        whole = self.train_payload([8, 8])
        cut = [whole[:length] for length in range(68, len(whole))]
        capture = self.capture(*map(datagram, payloads + cut))
        # Behind the wrong IP checksum that all of them have.
        said = [line.split(",")[-1] for line in tshark(capture, "-T", "fields", "-e", "_ws.expert.message").splitlines()]
        self.assertEqual(said[:len(wrong)], [what for what, _, _ in wrong])
        self.assertEqual(said[len(wrong):], ["a record is longer than its packet"] * len(cut))
        self.assertEqual(count(capture, "_ws.lua.error"), 0)

    def datagram_payload(self, kind, protocol, reason=0):
        """A data packet of one datagram of 8 bytes from port 500 for port 3."""
        header = bytes([5, 2, 1, 0]) + struct.pack("<HBBHHQQ", 0, 0, 0, 1, 0, 0xA1, 0xB1) + bytes(20)
        return header + struct.pack("<IIIHHBBBB", 3, 500, 0, 8, reason, kind, protocol, 0, 0) + bytes(range(8))

    def test_datagrams_and_their_protocols_are_shown(self):
        capture = self.capture(*(datagram(self.datagram_payload(*made)) for made in
                                 ((3, 3), (4, 3, 4), (3, 70), (3, 9), (4, 70, 1))))
        self.assertEqual(count(capture, "braid.malformed or _ws.malformed or _ws.lua.error"), 0)
        shown = packets(capture)
        self.assertEqual([one(p, "braid.record.kind") for p in shown], [DATAGRAM, RETURNED, DATAGRAM, DATAGRAM, RETURNED])
        self.assertEqual([one(p, "braid.record.protocol") for p in shown], [DATAGRAMS, DATAGRAMS, "70", "9", "70"])
        self.assertEqual([p["braid.record.returned"] for p in shown], [[], ["4"], [], [], ["1"]])
        self.assertEqual(count(capture, "braid.unknown_protocol"), 1, "70 may be a user's own, 9 is not")
        text = tshark(capture, "-V")
        for words in ("Record: Datagram 500 > 3 of datagrams, 8 bytes", "Returned datagram 500 > 3 of datagrams, 8 bytes, no room",
                      "Datagram 500 > 3 of protocol 70, 8 bytes", "Protocol: datagrams (3)",
                      "8 bytes, unknown protocol"):
            self.assertIn(words, text)

    def sealed_packet(self, kind, content, tag):
        """A packet of an end that has said a sealed hello; with a tag of zeros it was opened."""
        return bytes([5, kind, 0, 0]) + struct.pack("<HBBHHQQ", 0, 0, 0, 1, 0, 0xA1, 0xB1) + bytes(20) + content + struct.pack("<Q", 77) + tag

    def test_challenges_of_addresses_and_their_answers_are_shown(self):
        hello = bytes([5, 1, 0, 0]) + struct.pack("<HBBHHQQ", 0, 0, 0, 1, 0, 0xA1, 0) + bytes(20 + 36)
        challenge = struct.pack("<Q", 0x1122334455667788)
        sealed, opened = bytes([9]) * 16, bytes(16)
        capture = self.capture(*map(datagram, (
            hello, self.sealed_packet(6, challenge, sealed), self.sealed_packet(6, challenge, opened),
            self.sealed_packet(7, challenge, opened))))
        self.assertEqual(count(capture, "braid.malformed or _ws.lua.error"), 0)
        self.assertEqual(count(capture, "braid.type == 6 and braid.sealed"), 1)
        self.assertEqual(count(capture, "braid.type == 6 and braid.challenge == 0x1122334455667788 and braid.number == 77"), 1)
        self.assertEqual(count(capture, "braid.type == 7 and braid.challenge == 0x1122334455667788"), 1)
        text = tshark(capture, "-V")
        self.assertIn("Challenge 0.0 > 1.0", text)
        self.assertIn("Response 0.0 > 1.0", text)
        longer = self.capture(*map(datagram, (hello, self.sealed_packet(6, challenge + bytes(8), opened),
                                              self.sealed_packet(7, b"", opened), self.sealed_packet(8, challenge, opened))))
        self.assertEqual(count(longer, "braid"), 1, "no others have these lengths")

    def test_a_record_with_a_wrong_length_is_shown_as_malformed(self):
        whole = self.real_data_payload()
        record = len(whole) - len(self.record_of(whole))
        for what, harm in (
            ("longer than its packet", lambda b: struct.pack_into("<H", b, record + 12, 60000)),
            ("bytes behind the last record", lambda b: b.extend(bytes(8))),
            ("no such kind or flag", lambda b: b.__setitem__(record + 16, 5)),
        ):
            with self.subTest(what):
                payload = bytearray(whole)
                harm(payload)
                capture = self.capture(datagram(bytes(payload)))
                self.assertEqual(count(capture, "braid.malformed"), 1)
                self.assertIn(what, tshark(capture, "-V"))
        self.assertEqual(count(self.capture(datagram(bytes(whole))), "braid.malformed"), 0)

    def record_of(self, payload):
        """The record at the end of a packet that has one, and no words of selective acknowledgement."""
        text = tshark(self.capture(datagram(bytes(payload))), "-T", "fields", "-e", "braid.record.bytes")
        length = int(text)
        return payload[len(payload) - 20 - (length + 3) // 4 * 4:]

    def test_truncated_packets_do_not_make_the_script_fail(self):
        whole = bytes(self.real_data_payload())
        frames = [datagram(whole[:length]) for length in range(len(whole))]
        flipped = []
        for at in range(len(whole)):
            changed = bytearray(whole)
            changed[at] ^= 0xFF
            flipped.append(datagram(bytes(changed)))
        capture = self.capture(*frames, *flipped)
        self.assertEqual(count(capture, "_ws.lua.error"), 0)
        self.assertNotIn("Lua Error", tshark(capture, "-V"))


if __name__ == "__main__":
    if shutil.which("tshark") is None:
        print("skipped: there is no tshark here (tools/install_packages installs it)")
        sys.exit(SKIPPED)
    unittest.main()
