// `braid decrypt`: captures whose packets are opened, and captures and files of keys that hold anything.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "base/prng.h"
#include "proxy/nic/capture_queue.h"
#include "stack/secure/packet_cipher.h"
#include "stack/wire/ipv4.h"
#include "stack/wire/segment.h"
#include "stack/wire/udp.h"
#include "tests/base/temporary_folder.h"
#include "tests/fuzz/udp_frame.h"
#include "tests/nic/pcapng.h"
#include "tools/braid/decrypt/key_ring.h"
#include "tools/braid/decrypt/opened_capture.h"

namespace braid::cli {
namespace {

using proxy::CaptureDirection;
using proxy::CaptureFile;
using stack::CipherKind;
using ::testing::HasSubstr;
namespace test = proxy::test;
using Bytes = std::vector<std::byte>;

constexpr std::uint64_t kSender = 0xa1, kReceiver = 0xb1;
constexpr std::uint64_t kPerKey = std::uint64_t{1} << stack::kPacketsPerKeyBits;
constexpr fuzz::FrameEnds kEnds = {
    {2, 0, 0, 0, 0, 2}, {2, 0, 0, 0, 0, 1}, 0x0a000002, 0x0a000001, 7700, 7700};
const std::string kText = "what the members of a run say to each other";

Instant no_time() {
  return Instant::from_ns(1);
}

// The keys that a sealer tells.
struct Ring final : stack::KeyObserver {
  void on_key(const stack::PacketKey& key) override { keys.add(key); }
  KeyRing keys;
};

class DecryptTest : public ::testing::Test {
 protected:
  DecryptTest() {
    CaptureFile::Options options;
    options.clock = no_time;
    options.clock_since_1970 = Duration();
    Result<std::unique_ptr<CaptureFile>> file = CaptureFile::create(path("sealed"), options);
    CHECK(file.ok());
    file_ = std::move(*file);
    file_->add_interface("link 0", 9014);
    key_.fill(std::byte{0x3c});
    sealer_.start(CipherKind::kAesGcm, key_, 0, {&ring_, kSender, kReceiver});
  }
  std::string path(const std::string& name) const { return folder_ / name; }

  // A packet of a header and what follows it.
  static Bytes packet(stack::PacketType type, std::size_t rest_bytes, std::uint64_t receiver = kReceiver) {
    stack::PacketHeader h;
    h.type = type;
    h.records = type == stack::PacketType::kData ? 1 : 0;
    h.sender_epoch = kSender;
    h.receiver_epoch = receiver;
    Bytes all(stack::kMaxPacketHeaderBytes + rest_bytes);
    all.resize(stack::write_packet_header(all.data(), h) + rest_bytes);
    return all;
  }
  static Bytes plain(const std::string& text, std::uint64_t receiver = kReceiver) {
    Bytes all = packet(stack::PacketType::kData, text.size(), receiver);
    std::memcpy(all.data() + stack::kPacketHeaderBytes, text.data(), text.size());
    return all;
  }
  Bytes sealed(const std::string& text, std::uint64_t receiver = kReceiver) {
    Bytes all = plain(text, receiver);
    const std::size_t bytes = all.size();
    all.resize(bytes + stack::kSealBytes);
    sealer_.seal(all.data(), stack::kPacketHeaderBytes, bytes);
    return all;
  }
  void capture(const Bytes& payload, CaptureDirection direction = CaptureDirection::kSent) {
    capture_frame(fuzz::udp_frame(kEnds, payload), direction);
  }
  void capture_frame(const Bytes& frame, CaptureDirection direction = CaptureDirection::kSent) {
    file_->record(0, direction, Instant::from_ns(static_cast<std::int64_t>(++frames_)), frame);
  }
  std::string captured() {
    file_->flush();
    std::ostringstream all;
    all << std::ifstream(path("sealed"), std::ios::binary).rdbuf();
    return all.str();
  }

  // Opens `text` with the ring; the result is in opened_ and out_.
  void open(const std::string& text) { open(text, ring_.keys); }
  void open(const std::string& text, KeyRing& keys) {
    std::istringstream in(text);
    out_.clear();
    const auto opened = open_capture(in, "CAPTURE", keys, [&](ByteView block) {
      out_.append(reinterpret_cast<const char*>(block.data()), block.size());
      return Result<void>();
    });
    problem_ = opened ? opened->problem : opened.error().text;
    opened_ = opened ? opened->packets : OpenedPackets();
  }
  test::Capture plain_capture() const {
    std::ofstream(path("plain"), std::ios::binary) << out_;
    return test::read_capture(path("plain"));
  }
  static std::string payload_text(const Bytes& frame) {
    const std::size_t at = fuzz::kPayloadAt + stack::kPacketHeaderBytes;
    return {reinterpret_cast<const char*>(frame.data()) + at, frame.size() - at};
  }

  TemporaryFolder folder_;
  std::shared_ptr<CaptureFile> file_;
  std::uint64_t frames_ = 0;
  stack::KeyBytes key_;
  stack::PacketSealer sealer_;
  Ring ring_;
  OpenedPackets opened_;
  std::string problem_;
  std::string out_;
};

// The number of a packet and the zeros in the place of its tag.
std::string tail(std::uint64_t number) {
  std::string text(reinterpret_cast<const char*>(&number), sizeof number);
  return text + std::string(16, '\0');
}

TEST_F(DecryptTest, PacketsAreOpenedInTheirPlaceAndAllElseStays) {
  const Bytes hello = packet(stack::PacketType::kHello, 36);
  capture(hello);
  capture(sealed(kText), CaptureDirection::kReceived);
  capture(sealed(""));
  const std::string before = captured();
  ASSERT_EQ(before.find(kText), std::string::npos);
  open(before);
  EXPECT_EQ(problem_, "");
  EXPECT_EQ(opened_.opened, 2u);
  EXPECT_EQ(opened_.without_key + opened_.not_opened + opened_.fragments, 0u);
  EXPECT_EQ(out_.size(), before.size());
  const test::Capture after = plain_capture(), original = test::read_capture(path("sealed"));
  EXPECT_EQ(after.problem, "");
  ASSERT_EQ(after.frames.size(), 3u);
  EXPECT_EQ(after.interfaces[0].name, "link 0");
  EXPECT_EQ(after.frames[0].bytes, original.frames[0].bytes) << "hellos are never sealed";
  EXPECT_EQ(payload_text(after.frames[1].bytes), kText + tail(0));
  EXPECT_EQ(payload_text(after.frames[2].bytes), tail(1));
  for (std::size_t i = 0; i < 3; ++i) {
    const test::CapturedFrame& frame = after.frames[i];
    EXPECT_EQ(frame.flags, original.frames[i].flags);
    EXPECT_EQ(frame.ns, original.frames[i].ns);
    // Everything up to UDP's checksum is as it was, and that is right.
    EXPECT_TRUE(std::equal(frame.bytes.begin(), frame.bytes.begin() + fuzz::kPayloadAt - 2,
                           original.frames[i].bytes.begin()));
    stack::Ipv4Packet ip;
    ASSERT_EQ(stack::parse_ipv4(ByteView(frame.bytes).subspan(14), ip), stack::Ipv4Parse::kOk);
    stack::UdpDatagram udp;
    EXPECT_EQ(stack::parse_udp(ip.payload, ip.source, ip.destination, udp), stack::UdpParse::kOk);
  }
}

TEST_F(DecryptTest, PacketsOfBothKeysAroundAChangeAreOpened) {
  for (const CipherKind cipher : {CipherKind::kAesGcm, CipherKind::kChaChaPoly}) {
    sealer_.start(cipher, key_, kPerKey - 2, {&ring_, kSender, static_cast<std::uint64_t>(cipher)});
    for (int i = 0; i < 4; ++i) capture(sealed(kText, static_cast<std::uint64_t>(cipher)));
  }
  open(captured());
  EXPECT_EQ(opened_.opened, 8u);
  EXPECT_EQ(opened_.without_key + opened_.not_opened, 0u);
}

TEST_F(DecryptTest, PacketsWithoutAKeyOrForgedAreCountedAndLeftAsTheyAre) {
  capture(packet(stack::PacketType::kHello, 84));
  capture(sealed(kText));
  Bytes forged = sealed(kText);
  forged.back() ^= std::byte{1};
  capture(forged);
  capture(packet(stack::PacketType::kAck, 0));  // shorter than a seal
  const std::string before = captured();
  open(before);
  EXPECT_EQ(opened_.opened, 1u);
  EXPECT_EQ(opened_.not_opened, 1u);
  EXPECT_EQ(opened_.without_key, 1u);
  KeyRing of_another_run;
  of_another_run.add({CipherKind::kAesGcm, kSender, kReceiver + 1, 0, key_});
  open(before, of_another_run);
  EXPECT_EQ(out_, before);
  EXPECT_EQ(opened_.opened, 0u);
  EXPECT_EQ(opened_.without_key, 3u);
  KeyRing wrong;
  wrong.add({CipherKind::kAesGcm, kSender, kReceiver, 0, stack::KeyBytes{}});
  open(before, wrong);
  EXPECT_EQ(out_, before) << "what a wrong key makes of a packet is not written";
  EXPECT_EQ(opened_.not_opened, 2u);
}

TEST_F(DecryptTest, OtherFramesStayAsTheyAre) {
  capture(plain(kText));
  capture_frame(Bytes(60, std::byte{0xff}));
  capture_frame(fuzz::ipv4_frame(kEnds, 1, sealed(kText)));
  capture_frame(fuzz::ipv4_frame(kEnds, 17, sealed(kText), 7, 1));
  const std::string before = captured();
  open(before);
  EXPECT_EQ(out_, before);
  EXPECT_EQ(opened_.fragments, 1u);
  EXPECT_EQ(opened_.opened + opened_.without_key, 0u);
}

TEST_F(DecryptTest, DatagramWithoutAChecksumGetsNone) {
  Bytes frame = fuzz::udp_frame(kEnds, sealed(kText));
  store(frame.data() + fuzz::kPayloadAt - 2, std::uint16_t{0});
  capture_frame(frame);
  open(captured());
  EXPECT_EQ(opened_.opened, 1u);
  EXPECT_EQ(load<std::uint16_t>(plain_capture().frames[0].bytes.data() + fuzz::kPayloadAt - 2), 0u);
}

TEST_F(DecryptTest, WhatIsNoCaptureIsRefusedByName) {
  capture(sealed(kText));
  std::string swapped_order = captured();
  std::reverse(swapped_order.begin() + 8, swapped_order.begin() + 12);
  for (const std::string& text :
       {std::string(), std::string("\xd4\xc3\xb2\xa1 classic", 12), std::string(4000, 'x'),
        captured().substr(0, 20), captured().substr(28), swapped_order}) {
    open(text);
    EXPECT_THAT(problem_, HasSubstr("CAPTURE: it is no pcapng file (")) << text.size();
    EXPECT_EQ(out_, "");
  }
  EXPECT_THAT(problem_, HasSubstr("a machine of the other byte order wrote it"));
}

TEST_F(DecryptTest, OfACaptureThatIsCutOffOrDamagedTheBeginningIsOpened) {
  for (int i = 0; i < 3; ++i) capture(sealed(kText));
  const std::string whole = captured();
  const std::size_t block =
      12 + 20 + (fuzz::kPayloadAt + stack::kPacketHeaderBytes + kText.size() + 24 + 3) / 4 * 4 + 12;
  const std::size_t begin = whole.size() - 3 * block;
  for (std::size_t length = begin; length <= whole.size(); ++length) {
    open(whole.substr(0, length));
    const std::size_t blocks = (length - begin) / block;
    EXPECT_EQ(opened_.opened, blocks) << length;
    EXPECT_EQ(out_.size(), begin + blocks * block);
    EXPECT_EQ(problem_.empty(), out_.size() == length);
    if (!problem_.empty()) {
      EXPECT_THAT(problem_, HasSubstr("it ends inside a block; the rest is left out"));
    }
  }
  const auto damaged = [&](std::size_t at, std::uint32_t value) {
    std::string text = whole;
    store(reinterpret_cast<std::byte*>(text.data()) + begin + block + at, value);
    open(text);
    EXPECT_EQ(opened_.opened, 1u);
    return problem_;
  };
  for (const std::uint32_t length : {0u, 8u, 13u, 0xfffffffcu, (16u << 20) + 4})
    EXPECT_THAT(damaged(4, length), HasSubstr("a block has an impossible length"));
  EXPECT_THAT(damaged(4, static_cast<std::uint32_t>(block + 4)), HasSubstr("a block's two lengths differ"));
  EXPECT_THAT(damaged(4, 1u << 20), HasSubstr("it ends inside a block"));
  EXPECT_THAT(damaged(8, 1), HasSubstr("a packet has an interface that is not described"));
  EXPECT_THAT(damaged(20, 0xffffffff), HasSubstr("a packet is longer than its block"));
}

// Any bytes: nothing crashes, and what comes out is a beginning of what went in but for opened packets.
TEST_F(DecryptTest, HostileCapturesAreReadWithoutHarm) {
  capture(packet(stack::PacketType::kHello, 36));
  for (int i = 0; i < 4; ++i) capture(sealed(kText));
  const std::string whole = captured();
  Prng prng(15);
  std::uint64_t opened = 0, problems = 0;
  for (int round = 0; round < 20'000; ++round) {
    std::string text = whole;
    for (std::uint64_t change = 0; change <= prng.below(4); ++change) {
      const std::size_t at = prng.below(text.size());
      switch (prng.below(4)) {
        case 0:
          text[at] ^= static_cast<char>(1u << prng.below(8));
          break;
        case 1:
          text[at] = static_cast<char>(prng.below(256));
          break;
        case 2:
          text.erase(at, prng.below(9));
          break;
        case 3:
          text.insert(at, text.substr(prng.below(text.size()), prng.below(200)));
          break;
      }
      if (text.empty()) text = "x";
    }
    open(text);
    ASSERT_LE(out_.size(), text.size());
    ASSERT_EQ(out_.size() == text.size(), problem_.empty());
    if (opened_.opened == 0) {
      ASSERT_EQ(out_, text.substr(0, out_.size()));
    }
    opened += opened_.opened;
    problems += problem_.empty() ? 0 : 1;
  }
  EXPECT_GT(opened, 10'000u);
  EXPECT_GT(problems, 1'000u);
}

TEST_F(DecryptTest, FilesOfKeysAreReadLineByLine) {
  const std::string line = "BRAID_AES_256_GCM 00000000000000a1 00000000000000b1 0 ", digits(64, '3');
  std::ofstream(path("keys")) << "# a comment\n\n"
                              << line << digits << "\n"
                              << line << digits << "x\n"
                              << std::string(5000, '0') << "\nnonsense\n"
                              << line << digits;
  KeyRing ring;
  const auto lines = ring.add_file(path("keys"));
  ASSERT_TRUE(lines.ok()) << lines.error().text;
  EXPECT_EQ(lines->keys, 2u) << "the last has no end of line";
  EXPECT_EQ(lines->others, 3u);
  EXPECT_EQ(lines->first_other, 4u);
  key_.fill(std::byte{0x33});
  sealer_.start(CipherKind::kAesGcm, key_);
  capture(sealed(kText));
  open(captured(), ring);
  EXPECT_EQ(opened_.opened, 1u);
}

TEST_F(DecryptTest, WhatHasNoKeysIsRefusedByName) {
  const auto refusal = [&](const std::string& file) {
    KeyRing ring;
    const auto lines = ring.add_file(file);
    return lines.ok() ? "(read)" : lines.error().text;
  };
  std::ofstream(path("keys")) << "";
  EXPECT_THAT(refusal(path("keys")),
              HasSubstr(path("keys") + ": none of its lines is a key; name the file that"));
  Prng prng(16);
  std::string noise(100'000, 'x');
  for (char& c : noise) c = static_cast<char>(prng.below(256));
  std::ofstream(path("keys"), std::ios::binary) << noise;
  EXPECT_THAT(refusal(path("keys")), HasSubstr("none of its lines is a key"));
  EXPECT_THAT(refusal(path("none")),
              HasSubstr(path("none") + ": cannot be read (No such file or directory)"));
  EXPECT_THAT(refusal(folder_.path().string()), HasSubstr("it is no regular file"));
  EXPECT_THAT(refusal("/dev/zero"), HasSubstr("it is no regular file"));
}

}  // namespace
}  // namespace braid::cli
