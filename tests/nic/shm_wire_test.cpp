#include "proxy/nic/shm_wire.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstring>
#include <new>
#include <thread>

#include "base/prng.h"
#include "tests/nic/frames.h"

namespace braid::proxy {
namespace {

using test::is_numbered;
using test::number_of;
using test::pattern_holds;
using test::send_numbered;

// A wire with both of its sides mapped into this process, as two processes would map it.
struct Wire {
  explicit Wire(const ShmWireOptions& options) {
    Result<int> made = create_shm_wire(options);
    CHECK(made.ok());
    fd = made.value();
    a = ShmWire::map(fd, ShmSide::kA).value();
    b = ShmWire::map(fd, ShmSide::kB).value();
  }
  ~Wire() { ::close(fd); }
  int fd = -1;
  std::shared_ptr<ShmWire> a;
  std::shared_ptr<ShmWire> b;
};

struct Received {
  std::uint64_t frames = 0;
  bool in_order = true;
  bool intact = true;
};

// Takes what has arrived once and compares it with the numbers that must come next.
void take(NicQueue& queue, Received& so_far, std::size_t burst = kMaxBurst) {
  std::array<MutableBytes, kMaxBurst> frames;
  const std::size_t n = queue.receive(std::span(frames).first(burst));
  for (std::size_t i = 0; i < n; ++i) {
    if (!is_numbered(frames[i]) || !pattern_holds(frames[i])) {
      so_far.intact = false;
    } else if (number_of(frames[i]) != so_far.frames) {
      so_far.in_order = false;
    }
    ++so_far.frames;
  }
}

// Lengths from the shortest to the longest, none a multiple of the last.
std::uint32_t mixed_length(std::uint64_t number) {
  return test::kNumberedHeaderBytes + static_cast<std::uint32_t>(number * 37 % 1400);
}

TEST(ShmWire, CarriesFramesBothWaysAndKeepsQueuesApart) {
  Wire wire({.queues = 2, .frames_per_ring = 32, .max_frame_bytes = 1514});
  const auto a0 = wire.a->queue(0), a1 = wire.a->queue(1);
  const auto b0 = wire.b->queue(0), b1 = wire.b->queue(1);

  ASSERT_EQ(send_numbered(*a0, 0, 3), 3u);
  ASSERT_EQ(send_numbered(*b0, 100, 1, 1514), 1u);
  ASSERT_EQ(send_numbered(*a1, 200, 1), 1u);

  std::array<MutableBytes, kMaxBurst> frames;
  ASSERT_EQ(b0->receive(frames), 3u);
  EXPECT_EQ(number_of(frames[0]), 0u);
  EXPECT_EQ(number_of(frames[2]), 2u);
  EXPECT_EQ(frames[0].size(), test::kNumberedHeaderBytes);
  ASSERT_EQ(a0->receive(frames), 1u);
  EXPECT_EQ(number_of(frames[0]), 100u);
  EXPECT_EQ(frames[0].size(), 1514u);
  EXPECT_TRUE(pattern_holds(frames[0]));
  ASSERT_EQ(b1->receive(frames), 1u);
  EXPECT_EQ(number_of(frames[0]), 200u);
  EXPECT_EQ(b0->receive(frames), 0u);
  EXPECT_EQ(a1->receive(frames), 0u);
}

TEST(ShmWire, KeepsOrderAndContentOverManyLaps) {
  Wire wire({.frames_per_ring = 64, .max_frame_bytes = 1514});
  const auto a = wire.a->queue(0), b = wire.b->queue(0);
  Prng random(1);
  Received received;
  std::uint64_t sent = 0;
  while (sent < 20'000) {
    sent += send_numbered(*a, sent, random.below(kMaxBurst + 1), mixed_length);
    take(*b, received, random.below(kMaxBurst + 1));
  }
  while (received.frames < sent) take(*b, received);
  EXPECT_TRUE(received.in_order);
  EXPECT_TRUE(received.intact);
  EXPECT_EQ(received.frames, sent);
  EXPECT_EQ(b->bad_lengths(), 0u);
}

TEST(ShmWire, OffersNothingWhenFullAndContinuesWhenThereIsRoom) {
  Wire wire({.frames_per_ring = 32, .max_frame_bytes = 64});
  const auto a = wire.a->queue(0), b = wire.b->queue(0);
  std::array<TxFrame, kMaxBurst> room;
  EXPECT_EQ(send_numbered(*a, 0, 20), 20u);
  EXPECT_EQ(send_numbered(*a, 20, 32), 12u);
  EXPECT_EQ(a->reserve(room), 0u);
  Received received;
  take(*b, received, 5);
  EXPECT_EQ(received.frames, 5u);
  EXPECT_EQ(a->reserve(room), 0u) << "the last five are being read";
  take(*b, received, 1);
  EXPECT_EQ(send_numbered(*a, 32, 32), 5u);
  EXPECT_EQ(a->reserve(room), 0u);
  while (received.frames < 37) take(*b, received);
  EXPECT_TRUE(received.in_order);
}

TEST(ShmWire, ReceivedFramesStayUntilTheNextReceive) {
  Wire wire({.frames_per_ring = 64, .max_frame_bytes = 256});
  const auto a = wire.a->queue(0), b = wire.b->queue(0);
  std::uint64_t sent = 0;
  for (int lap = 0; lap < 10; ++lap) {
    sent += send_numbered(*a, sent, kMaxBurst, 256);
    std::array<MutableBytes, kMaxBurst> frames;
    const std::size_t n = b->receive(frames);
    ASSERT_EQ(n, kMaxBurst);
    const std::uint64_t first = number_of(frames[0]);
    while (const std::size_t more = send_numbered(*a, sent, 7, 256)) sent += more;  // fills all that it may
    for (std::size_t i = 0; i < n; ++i) {
      ASSERT_EQ(number_of(frames[i]), first + i);
      ASSERT_TRUE(pattern_holds(frames[i]));
    }
    Received rest{.frames = first + n};
    while (rest.frames < sent) take(*b, rest);
    ASSERT_TRUE(rest.in_order && rest.intact);
  }
}

TEST(ShmWire, OffersTheSameBuffersUntilTheyAreCommitted) {
  Wire wire({.frames_per_ring = 64, .max_frame_bytes = 128});
  const auto a = wire.a->queue(0), b = wire.b->queue(0);
  std::array<TxFrame, 4> first, second;
  ASSERT_EQ(a->reserve(first), 4u);
  ASSERT_EQ(a->reserve(second), 4u);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(first[i].data, second[i].data);
  EXPECT_EQ(first[0].capacity, 128u);

  test::write_numbered(second[0].data, 40, 0);
  second[0].length = 40;
  a->commit(std::span(second).first(1));  // the other three are given back
  ASSERT_EQ(a->reserve(first), 4u);
  EXPECT_EQ(first[0].data, second[1].data);
  Received received;
  take(*b, received);
  EXPECT_EQ(received.frames, 1u);
  EXPECT_TRUE(received.intact);
}

// Two ends of a queue; the one that is to sleep, and the one that sends to it.
struct Sleep : Wire {
  Sleep() : Wire({.frames_per_ring = 32, .max_frame_bytes = 512}) {}
  void take_all(ShmQueue& queue) {
    Received ignored;
    for (int i = 0; i < 3; ++i) take(queue, ignored);
  }
  std::unique_ptr<ShmQueue> sleeper = b->queue(0);
  std::unique_ptr<ShmQueue> sender = a->queue(0);
};

TEST(ShmWireSleep, FrameForASleepingSideRings) {
  Sleep wire;
  wire.sleeper->announce_sleep();
  wire.take_all(*wire.sender);
  EXPECT_TRUE(wire.sleeper->wake_word()->asleep()) << "nothing was sent";
  ASSERT_EQ(send_numbered(*wire.sender, 0, 1), 1u);
  wire.take_all(*wire.sender);
  EXPECT_TRUE(wire.sleeper->wake_word()->rung());
}

TEST(ShmWireSleep, FrameThatCrossedTheAnnouncementRings) {
  Sleep wire;
  wire.take_all(*wire.sender);
  wire.take_all(*wire.sleeper);
  ASSERT_EQ(send_numbered(*wire.sender, 0, 1), 1u);
  wire.sleeper->announce_sleep();
  EXPECT_TRUE(wire.sleeper->wake_word()->asleep());
  wire.take_all(*wire.sender);
  EXPECT_TRUE(wire.sleeper->wake_word()->rung());
}

TEST(ShmWireSleep, SideThatHasTakenEverythingIsNotRung) {
  Sleep wire;
  ASSERT_EQ(send_numbered(*wire.sender, 0, 3), 3u);
  wire.take_all(*wire.sleeper);
  wire.sleeper->announce_sleep();
  wire.take_all(*wire.sender);
  EXPECT_TRUE(wire.sleeper->wake_word()->asleep());
}

TEST(ShmWireSleep, SideIsRungOnceForWhatWasSent) {
  Sleep wire;
  wire.sleeper->announce_sleep();
  ASSERT_EQ(send_numbered(*wire.sender, 0, 2), 2u);
  wire.take_all(*wire.sender);
  ASSERT_TRUE(wire.sleeper->wake_word()->rung());
  wire.sleeper->wake_word()->announce();
  wire.take_all(*wire.sender);
  EXPECT_TRUE(wire.sleeper->wake_word()->asleep());
  ASSERT_EQ(send_numbered(*wire.sender, 2, 1), 1u);
  EXPECT_TRUE(wire.sleeper->wake_word()->rung()) << "at once: the side is known to sleep";
}

// Through several laps, whichever of the two sends next.
TEST(ShmWireSleep, AnnouncementsTakeNoFramesPlace) {
  Sleep wire;
  Received forth, back;
  for (std::uint64_t n = 0; n < 100; ++n) {
    wire.sleeper->announce_sleep();
    if (n % 3 != 0) wire.sleeper->withdraw_sleep();
    ASSERT_EQ(send_numbered(*wire.sleeper, n, 1), 1u);
    if (n % 3 == 0) wire.sleeper->withdraw_sleep();
    ASSERT_EQ(send_numbered(*wire.sender, n, 1), 1u);
    take(*wire.sleeper, forth);
    take(*wire.sender, back);
  }
  for (const Received& r : {forth, back}) {
    EXPECT_EQ(r.frames, 100u);
    EXPECT_TRUE(r.in_order && r.intact);
  }
  EXPECT_EQ(wire.sender->bad_lengths() + wire.sleeper->bad_lengths(), 0u);
}

TEST(ShmWireSleep, SideWithAFullRingMustPoll) {
  Sleep wire;
  EXPECT_NE(wire.sleeper->wake_word(), nullptr);
  ASSERT_EQ(send_numbered(*wire.sleeper, 0, 32), 32u);
  EXPECT_EQ(wire.sleeper->wake_word(), nullptr);
  wire.sleeper->announce_sleep();
  wire.sleeper->withdraw_sleep();
  Received received;
  for (int i = 0; i < 3; ++i) take(*wire.sender, received);
  EXPECT_EQ(received.frames, 32u);
  EXPECT_TRUE(received.in_order && received.intact);
  EXPECT_NE(wire.sleeper->wake_word(), nullptr);
}

TEST(ShmWireSleep, SideThatEndsRings) {
  Sleep wire;
  wire.sleeper->announce_sleep();
  wire.sender.reset();
  wire.a.reset();
  EXPECT_TRUE(wire.sleeper->wake_word()->rung());
}

TEST(ShmWire, DropsImpossibleLengthsAndCountsThem) {
  const ShmWireOptions options{.frames_per_ring = 64, .max_frame_bytes = 512};
  Wire wire(options);
  const auto a = wire.a->queue(0), b = wire.b->queue(0);
  // A hostile peer announces impossible lengths between two good frames.
  const ShmWireLayout layout(options);
  void* memory = ::mmap(nullptr, layout.total_bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, wire.fd, 0);
  ASSERT_NE(memory, MAP_FAILED);
  auto* ring = std::launder(
      reinterpret_cast<ShmRing*>(static_cast<std::byte*>(memory) + layout.ring_offset(0, ShmSide::kA)));
  std::byte* slots = static_cast<std::byte*>(memory) + layout.slots_offset(0, ShmSide::kA);
  ASSERT_EQ(send_numbered(*a, 0, 1), 1u);
  std::uint32_t number = 1;
  for (const std::uint32_t length : {0u, 513u, 0xffffffffu, 0x80000000u}) {
    ring->entries[number].store(shm_entry(number, length));
    ++number;
  }
  test::write_numbered(slots + number * layout.slot_stride(), 512, 1);
  ring->entries[number].store(shm_entry(number, 512));
  ring->entries[number + 1].store(shm_entry(number + 2, 512));  // a number that is not due
  Received received;
  take(*b, received);
  EXPECT_EQ(received.frames, 2u);
  EXPECT_TRUE(received.in_order && received.intact);
  EXPECT_EQ(b->bad_lengths(), 4u);

  // It also claims to have consumed frames that were never sent.
  ring->consumed.store(0x7fffffff);
  EXPECT_EQ(send_numbered(*a, 1, 32), 32u);
  EXPECT_EQ(send_numbered(*a, 33, 32), 31u) << "64 entries, of which none was given back";
  ::munmap(memory, layout.total_bytes());
}

TEST(ShmWire, IsUpWhileTheOtherSideHasItMapped) {
  const int fd = create_shm_wire({.max_frame_bytes = 1514}).value();
  auto a = ShmWire::map(fd, ShmSide::kA).value();
  auto qa = a->queue(0);
  EXPECT_FALSE(qa->link_up());
  auto b = ShmWire::map(fd, ShmSide::kB).value();
  EXPECT_TRUE(qa->link_up());
  EXPECT_TRUE(b->link_up());
  auto qb = b->queue(0);
  b.reset();
  EXPECT_TRUE(qa->link_up()) << "a queue keeps its wire";
  qb.reset();
  EXPECT_FALSE(qa->link_up());
  ::close(fd);
}

TEST(ShmWire, RefusesImpossibleOptions) {
  const auto text = [](const ShmWireOptions& options) { return create_shm_wire(options).error().text; };
  EXPECT_EQ(text({.queues = 0}), "shm wire: 0 queues; 1 to 64 are possible");
  EXPECT_EQ(text({.queues = 65}), "shm wire: 65 queues; 1 to 64 are possible");
  EXPECT_EQ(text({.frames_per_ring = 31}),
            "shm wire: frames_per_ring 31; the powers of two from 32 to 1024 are possible");
  EXPECT_EQ(text({.frames_per_ring = 96}),
            "shm wire: frames_per_ring 96; the powers of two from 32 to 1024 are possible");
  EXPECT_EQ(text({.max_frame_bytes = 63}), "shm wire: max_frame_bytes 63; 64 to 65549 are possible");
  EXPECT_EQ(text({.max_frame_bytes = 65550}), "shm wire: max_frame_bytes 65550; 64 to 65549 are possible");
}

TEST(ShmWire, MapsOnlyASealedWireOfTheRightSize) {
  const ShmWireOptions options{.frames_per_ring = 32, .max_frame_bytes = 64};
  const int real = create_shm_wire(options).value();
  const auto bytes = static_cast<std::size_t>(ShmWireLayout(options).total_bytes());

  const auto refusal = [](int fd) {
    const Result<std::shared_ptr<ShmWire>> mapped = ShmWire::map(fd, ShmSide::kA);
    return mapped ? std::string("mapped") : mapped.error().text;
  };
  const auto copy_of_header = [&](std::size_t size) {
    const int fd = ::memfd_create("copy", MFD_ALLOW_SEALING);
    std::array<std::byte, 64> header;
    CHECK_EQ(::pread(real, header.data(), header.size(), 0), 64);
    CHECK_EQ(::pwrite(fd, header.data(), header.size(), 0), 64);
    CHECK_EQ(::ftruncate(fd, static_cast<off_t>(size)), 0);
    return fd;
  };
  const int empty = ::memfd_create("empty", 0);
  const int short_one = copy_of_header(bytes - 1);
  const int unsealed = copy_of_header(bytes);
  EXPECT_THAT(refusal(empty), testing::HasSubstr("header cannot be read"));
  EXPECT_THAT(refusal(short_one), testing::HasSubstr("a wire of its geometry has"));
  EXPECT_THAT(refusal(unsealed), testing::HasSubstr("not sealed"));
  const std::uint32_t no_queues = 0;
  CHECK_EQ(::pwrite(unsealed, &no_queues, 4, 12), 4);
  EXPECT_THAT(refusal(unsealed), testing::HasSubstr("0 queues; 1 to 64 are possible"));

  EXPECT_EQ(::ftruncate(real, 0), -1) << "a wire must not shrink under its mappings";
  EXPECT_EQ(refusal(real), "mapped");
  EXPECT_EQ(refusal(real), "shm wire: side A is or was mapped already: give the restarted side a new wire");
  for (const int fd : {real, empty, short_one, unsealed}) ::close(fd);
}

TEST(ShmWire, TwoThreadsUseItWithoutWaiting) {
  constexpr std::uint64_t kFrames = 30'000;
  Wire wire({.frames_per_ring = 64, .max_frame_bytes = 256});
  // Each end sends and receives, as a proxy does, and checks every byte of what it gets.
  const auto drive = [](std::unique_ptr<ShmQueue> queue, Received& received) {
    std::uint64_t sent = 0;
    while (sent < kFrames || received.frames < kFrames) {
      if (sent < kFrames) {
        sent += send_numbered(*queue, sent, std::min<std::uint64_t>(kMaxBurst, kFrames - sent),
                              [](std::uint64_t n) { return 32 + static_cast<std::uint32_t>(n % 200); });
      }
      const std::uint64_t before = received.frames;
      take(*queue, received);
      if (received.frames == before) std::this_thread::yield();
    }
  };
  Received at_a, at_b;
  std::thread other([&, queue = wire.b->queue(0)]() mutable { drive(std::move(queue), at_b); });
  drive(wire.a->queue(0), at_a);
  other.join();
  for (const Received& received : {at_a, at_b}) {
    EXPECT_EQ(received.frames, kFrames);
    EXPECT_TRUE(received.in_order);
    EXPECT_TRUE(received.intact);
  }
}

// A child process with side B of the wire; what it runs never returns.
template <class Body>
pid_t child_at_b(int fd, Body body) {
  const pid_t pid = ::fork();
  CHECK_GE(pid, 0);
  if (pid == 0) {
    auto wire = ShmWire::map(fd, ShmSide::kB).value();
    body(*wire->queue(0));
    ::_exit(0);
  }
  return pid;
}

TEST(ShmWire, ConnectsTwoProcesses) {
  constexpr std::uint64_t kFrames = 20'000;
  const int fd = create_shm_wire({.frames_per_ring = 128, .max_frame_bytes = 1514}).value();
  auto a = ShmWire::map(fd, ShmSide::kA).value()->queue(0);
  const pid_t echo = child_at_b(fd, [](ShmQueue& queue) {  // returns every frame, incremented by kFrames
    std::array<MutableBytes, kMaxBurst> in;
    std::array<TxFrame, kMaxBurst> out;
    for (std::uint64_t echoed = 0; echoed < kFrames;) {
      const std::size_t room = queue.reserve(out);
      const std::size_t n = queue.receive(std::span(in).first(room));
      for (std::size_t i = 0; i < n; ++i) {
        out[i].length = static_cast<std::uint32_t>(in[i].size());
        test::write_numbered(out[i].data, out[i].length, number_of(in[i]) + kFrames);
      }
      queue.commit(std::span(out).first(n));
      echoed += n;
      if (n == 0) std::this_thread::yield();
    }
  });
  Received received{.frames = kFrames};
  std::uint64_t sent = 0;
  while (received.frames < 2 * kFrames) {
    sent += send_numbered(*a, sent, std::min<std::uint64_t>(kMaxBurst, kFrames - sent), mixed_length);
    take(*a, received);
    std::this_thread::yield();
  }
  int status = -1;
  ASSERT_EQ(::waitpid(echo, &status, 0), echo);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(received.in_order);
  EXPECT_TRUE(received.intact);
  ::close(fd);
}

TEST(ShmWire, KillOfTheOtherSideAtAnyInstructionIsHarmless) {
  constexpr std::uint64_t kSeed = 7;
  Prng random(kSeed);
  std::uint64_t frames_in_all = 0;
  for (int trial = 0; trial < 40; ++trial) {
    SCOPED_TRACE(fmt::format("seed {}, trial {}", kSeed, trial));
    const int fd = create_shm_wire({.frames_per_ring = 64, .max_frame_bytes = 512}).value();
    auto a = ShmWire::map(fd, ShmSide::kA).value()->queue(0);
    const pid_t victim = child_at_b(fd, [](ShmQueue& queue) {  // transmits and receives for ever
      Received ignored;
      for (std::uint64_t sent = 0;;) {
        sent += send_numbered(queue, sent, kMaxBurst, 100);
        take(queue, ignored);
      }
    });
    Received received;
    std::uint64_t sent = 0;
    const auto both_ways = [&] {
      take(*a, received);
      sent += send_numbered(*a, sent, 8, 300);
    };
    while (received.frames == 0) both_ways();
    const auto end = std::chrono::steady_clock::now() + std::chrono::microseconds(random.below(3000));
    while (std::chrono::steady_clock::now() < end) both_ways();
    ::kill(victim, SIGKILL);
    both_ways();
    int status = 0;
    ASSERT_EQ(::waitpid(victim, &status, 0), victim);
    ASSERT_TRUE(WIFSIGNALED(status));

    // All frames sent before the death arrive; then the wire is silent and fills up.
    for (int i = 0; i < 200; ++i) take(*a, received);
    EXPECT_TRUE(received.in_order);
    EXPECT_TRUE(received.intact);
    EXPECT_EQ(a->bad_lengths(), 0u);
    const std::uint64_t before = received.frames;
    std::uint64_t accepted = 0;
    for (int i = 0; i < 200; ++i) {
      const std::size_t n = send_numbered(*a, sent, kMaxBurst, 300);
      sent += n;
      accepted += n;
      take(*a, received);
    }
    EXPECT_LE(accepted, 64u);
    EXPECT_EQ(received.frames, before);
    frames_in_all += received.frames;
    ::close(fd);
  }
  EXPECT_GT(frames_in_all, 40u);
}

}  // namespace
}  // namespace braid::proxy
