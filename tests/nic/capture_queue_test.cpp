#include "proxy/nic/capture_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <memory>
#include <vector>

#include "proxy/nic/shm_wire.h"
#include "tests/base/temporary_folder.h"
#include "tests/nic/frames.h"
#include "tests/nic/pcapng.h"

namespace braid::proxy {
namespace {

using test::Capture;
using test::CapturedFrame;
using test::read_capture;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr std::uint64_t k2026 = 1'767'225'600'000'000'000;  // in ns since 1970

// The clock of the files under test.
Instant g_now;
Instant written_clock() {
  return g_now;
}

class CaptureQueueTest : public ::testing::Test {
 protected:
  CaptureQueueTest() { g_now = Instant::from_ns(5'000'000'123); }

  std::string path() const { return folder_ / "a.pcapng"; }

  std::shared_ptr<CaptureFile> open(std::uint64_t limit_bytes = std::uint64_t{1} << 30) const {
    CaptureFile::Options options;
    options.limit_bytes = limit_bytes;
    options.clock = written_clock;
    options.clock_since_1970 = Duration::ns(static_cast<std::int64_t>(k2026));
    Result<std::unique_ptr<CaptureFile>> file = CaptureFile::create(path(), options);
    EXPECT_TRUE(file.ok()) << file.error().text;
    return std::move(file).value();
  }

  TemporaryFolder folder_;
};

// Two ends of a wire in memory; the one at `near` records its frames.
struct Link {
  explicit Link(std::shared_ptr<CaptureFile> file, const std::string& name = "link 0") {
    const Result<int> fd = create_shm_wire({});
    CHECK(fd.ok());
    auto a = ShmWire::map(fd.value(), ShmSide::kA);
    auto b = ShmWire::map(fd.value(), ShmSide::kB);
    CHECK(a.ok() && b.ok());
    ::close(fd.value());
    std::unique_ptr<NicQueue> wire = (*a)->queue(0);
    const unsigned interface = file->add_interface(name, wire->max_frame_bytes());
    near = std::make_unique<CaptureQueue>(std::move(wire), std::move(file), interface);
    far = (*b)->queue(0);
  }
  static std::vector<std::vector<std::byte>> receive(NicQueue& queue) {
    std::array<MutableBytes, kMaxBurst> frames;
    const std::size_t n = queue.receive(frames);
    std::vector<std::vector<std::byte>> all;
    for (std::size_t i = 0; i < n; ++i) all.emplace_back(frames[i].begin(), frames[i].end());
    return all;
  }
  std::unique_ptr<NicQueue> near;
  std::unique_ptr<NicQueue> far;
};

TEST_F(CaptureQueueTest, RecordsFramesOfBothDirectionsWithTheirTime) {
  {
    Link link(open());
    ASSERT_EQ(test::send_numbered(*link.near, 1, 2, [](std::uint64_t n) { return 60u + unsigned(n); }), 2u);
    EXPECT_EQ(Link::receive(*link.far).size(), 2u) << "the wire still carries them";
    g_now = g_now + 7_us;
    ASSERT_EQ(test::send_numbered(*link.far, 77, 1, 9014), 1u);
    const auto arrived = Link::receive(*link.near);
    ASSERT_EQ(arrived.size(), 1u);
    EXPECT_EQ(test::number_of(arrived[0]), 77u);
    EXPECT_TRUE(test::pattern_holds(arrived[0]));
  }
  const Capture capture = read_capture(path());
  EXPECT_EQ(capture.problem, "");
  ASSERT_EQ(capture.interfaces.size(), 1u);
  EXPECT_EQ(capture.interfaces[0].name, "link 0");
  EXPECT_EQ(capture.interfaces[0].link_type, 1) << "Ethernet";
  EXPECT_EQ(capture.interfaces[0].snap_bytes, 9014u);
  EXPECT_EQ(capture.interfaces[0].time_digits, 9);
  ASSERT_EQ(capture.frames.size(), 3u);
  for (unsigned i = 0; i < 3; ++i) {
    SCOPED_TRACE(i);
    const CapturedFrame& frame = capture.frames[i];
    EXPECT_EQ(frame.interface, 0u);
    EXPECT_EQ(frame.length, frame.bytes.size());
    EXPECT_TRUE(test::is_numbered(frame.bytes) && test::pattern_holds(frame.bytes));
    EXPECT_EQ(test::number_of(frame.bytes), i < 2 ? 1 + i : 77);
    EXPECT_EQ(frame.ns, k2026 + 5'000'000'123 + (i < 2 ? 0 : 7'000));
    EXPECT_EQ(frame.flags, i < 2 ? 2u : 1u) << "1: received, 2: sent";
  }
  EXPECT_EQ(capture.frames[1].length, 62u) << "not filled up to a word";
  EXPECT_EQ(capture.interfaces[0].seen, 3u);
  EXPECT_EQ(capture.interfaces[0].missing, 0u);
}

TEST_F(CaptureQueueTest, HasAnInterfaceForEachLinkOfTheProxy) {
  {
    const std::shared_ptr<CaptureFile> file = open();
    Link first(file, "link 0"), second(file, "link 1");
    test::send_numbered(*second.near, 1, 1);
    test::send_numbered(*first.near, 2, 1);
  }
  const Capture capture = read_capture(path());
  EXPECT_EQ(capture.problem, "");
  ASSERT_EQ(capture.interfaces.size(), 2u);
  EXPECT_EQ(capture.interfaces[1].name, "link 1");
  ASSERT_EQ(capture.frames.size(), 2u);
  EXPECT_EQ(capture.frames[0].interface, 1u);
  EXPECT_EQ(capture.frames[1].interface, 0u);
}

TEST_F(CaptureQueueTest, CutsFramesAtTheInterfacesSnapLength) {
  {
    const std::shared_ptr<CaptureFile> file = open();
    const unsigned interface = file->add_interface("short", 61);
    std::vector<std::byte> frame(100);
    test::write_numbered(frame.data(), 100, 5);
    file->record(interface, CaptureDirection::kReceived, g_now, frame);
  }
  const Capture capture = read_capture(path());
  EXPECT_EQ(capture.problem, "");
  ASSERT_EQ(capture.frames.size(), 1u);
  EXPECT_EQ(capture.frames[0].length, 100u);
  EXPECT_EQ(capture.frames[0].bytes.size(), 61u);
  EXPECT_TRUE(test::pattern_holds(capture.frames[0].bytes));
}

TEST_F(CaptureQueueTest, BufferedFramesAreWrittenAfterTheirTime) {
  Link link(open());
  test::send_numbered(*link.near, 1, 1);
  g_now = g_now + CaptureFile::kLongestWait - 1_ns;
  Link::receive(*link.near);
  EXPECT_EQ(read_capture(path()).frames.size(), 0u);
  g_now = g_now + 1_ns;
  Link::receive(*link.near);
  const Capture capture = read_capture(path());
  EXPECT_EQ(capture.problem, "");
  EXPECT_EQ(capture.frames.size(), 1u);
  EXPECT_FALSE(capture.interfaces[0].seen.has_value()) << "statistics come at the end";
}

TEST_F(CaptureQueueTest, ManyFramesNeedMoreThanOneBuffer) {
  constexpr std::uint64_t kFrames = 500;  // of 9 KB: 17 buffers
  {
    Link link(open());
    for (std::uint64_t n = 0; n < kFrames; ++n) {
      test::send_numbered(*link.near, n, 1, 9000 + static_cast<std::uint32_t>(n % 14));
      Link::receive(*link.far);
    }
  }
  const Capture capture = read_capture(path());
  EXPECT_EQ(capture.problem, "");
  ASSERT_EQ(capture.frames.size(), kFrames);
  for (std::uint64_t n = 0; n < kFrames; ++n) {
    ASSERT_EQ(test::number_of(capture.frames[n].bytes), n);
    ASSERT_TRUE(test::pattern_holds(capture.frames[n].bytes));
  }
}

TEST_F(CaptureQueueTest, AfterAKillTheFileIsReadableUpToTheLastWrite) {
  const pid_t victim = ::fork();
  ASSERT_GE(victim, 0);
  if (victim == 0) {
    Link link(open());
    test::send_numbered(*link.near, 1, 10);
    g_now = g_now + CaptureFile::kLongestWait;
    Link::receive(*link.near);
    test::send_numbered(*link.near, 11, 10);  // these wait
    ::raise(SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(victim, &status, 0), victim);
  ASSERT_TRUE(WIFSIGNALED(status));
  const Capture capture = read_capture(path());
  EXPECT_EQ(capture.problem, "");
  ASSERT_EQ(capture.frames.size(), 10u);
  EXPECT_EQ(test::number_of(capture.frames.back().bytes), 10u);
}

TEST_F(CaptureQueueTest, StopsAtItsLimitAndCountsMissingFrames) {
  constexpr std::uint64_t kLimit = 10'000;
  std::size_t fitted = 0;
  {
    const std::shared_ptr<CaptureFile> file = open(kLimit);
    Link link(file);
    for (int i = 0; i < 100; ++i) {
      test::send_numbered(*link.near, 1, 1, 200);
      Link::receive(*link.far);
    }
    fitted = file->recorded();
    EXPECT_GT(fitted, 35u);
    EXPECT_LT(fitted, 50u);
    EXPECT_EQ(file->missing(), 100 - fitted);
    file->flush();
    EXPECT_LE(std::filesystem::file_size(path()), kLimit);
  }
  const Capture capture = read_capture(path());
  EXPECT_EQ(capture.problem, "");
  EXPECT_EQ(capture.frames.size(), fitted);
  EXPECT_EQ(capture.interfaces[0].seen, 100u);
  EXPECT_EQ(capture.interfaces[0].missing, 100 - fitted);
}

// A full disk, simulated by a limit of the process: what was written before stays readable, and the
// proxy goes on.
TEST_F(CaptureQueueTest, AFailedWriteLeavesNoPartialFrame) {
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    std::size_t carried = 0;
    {
      Link link(open());
      const rlimit limit{300'000, 300'000};
      ::signal(SIGXFSZ, SIG_IGN);
      if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) ::_exit(2);
      for (int i = 0; i < 100; ++i) {
        test::send_numbered(*link.near, 1, 1, 9000);
        carried += Link::receive(*link.far).size();
      }
    }
    ::_exit(carried == 100 ? 0 : 3);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  const Capture capture = read_capture(path());
  EXPECT_EQ(capture.problem, "");
  EXPECT_GT(capture.frames.size(), 20u);
  EXPECT_LT(capture.frames.size(), 34u);
  ASSERT_EQ(capture.interfaces.size(), 1u);
  EXPECT_EQ(capture.interfaces[0].seen, 100u);
  EXPECT_EQ(capture.interfaces[0].missing, 100 - capture.frames.size());
}

TEST_F(CaptureQueueTest, FullDeviceIsToldOnceAndIsTheErrorOfTheEnd) {
  std::filesystem::create_symlink("/dev/full", path());
  const std::shared_ptr<CaptureFile> file = open();
  Link link(file);
  test::send_numbered(*link.near, 1, 3, 100);
  EXPECT_EQ(file->poll_problem(), std::nullopt);
  file->flush();
  EXPECT_EQ(file->poll_problem(),
            "capture: " + path() +
                " cannot be written: No space left on device: make room on that file system, or " +
                "name another; later frames are missing from it");
  EXPECT_EQ(file->poll_problem(), std::nullopt);
  const Result<void> finished = file->finish();
  ASSERT_FALSE(finished.ok());
  EXPECT_THAT(finished.error().text, HasSubstr("No space left on device"));
  EXPECT_THAT(finished.error().text, HasSubstr("; it lacks 3 frames"));
}

TEST_F(CaptureQueueTest, ReachedLimitIsToldAndIsNoError) {
  const std::shared_ptr<CaptureFile> file = open(2000);
  Link link(file);
  test::send_numbered(*link.near, 1, 30, 100);
  EXPECT_THAT(file->poll_problem().value_or(""),
              HasSubstr("has reached its limit of 0 MiB (capture.limit_mib)"));
  EXPECT_TRUE(file->finish().ok());
}

TEST_F(CaptureQueueTest, FileIsReadableByItsOwnerOnly) {
  open();
  struct stat status {};
  ASSERT_EQ(::stat(path().c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
}

TEST_F(CaptureQueueTest, MissingFolderIsNamedWithTheCure) {
  const Result<std::unique_ptr<CaptureFile>> file = CaptureFile::create(folder_ / "none/a.pcapng");
  ASSERT_FALSE(file.ok());
  EXPECT_THAT(file.error().text,
              AllOf(HasSubstr(folder_ / "none/a.pcapng cannot be written: No such file or directory"),
                    HasSubstr("name a folder that exists")));
}

}  // namespace
}  // namespace braid::proxy
