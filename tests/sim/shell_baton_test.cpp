// The baton and the mappings of a shell. A thread or the test's process takes the engine's part.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "dsm/program/failure.h"
#include "dsm/program/heap.h"
#include "sim/shell/baton.h"
#include "sim/shell/mappings.h"
#include "tests/dsm/page_bytes.h"

namespace braid::sim {
namespace {

TEST(Baton, GiveReturnsWhenTheEngineReturnsTheBaton) {
  const auto control = std::make_unique<Control>();
  Baton baton(*control, ::getppid());
  control->turn = Control::kShell;
  control->engines_turn = 0;
  std::thread engine([&] {
    for (std::uint32_t n = 0; n < 100; ++n) {
      while (control->engines_turn.load() == 0) std::this_thread::yield();
      control->engines_turn = 0;
      EXPECT_EQ(control->turn, Control::kOthers);
      EXPECT_EQ(control->asking, n);
      control->turn = Control::kShell;
      ::syscall(SYS_futex, &control->turn, FUTEX_WAKE, 1, nullptr, nullptr, 0);
    }
  });
  for (std::uint32_t n = 0; n < 100; ++n) baton.give(n);
  engine.join();
}

TEST(Baton, IsPassedOnUnlessANodeAsks) {
  std::vector<std::byte> memory(control_offset(3) + alignof(Control));
  void* at = memory.data();
  std::size_t room = memory.size();
  auto* const part = static_cast<std::byte*>(std::align(alignof(Control), control_offset(3), at, room));
  std::vector<Control*> controls;
  for (std::uint16_t k = 0; k < 3; ++k) {
    controls.push_back(new (part + control_offset(k)) Control);
    controls[k]->cluster = k;
    controls[k]->clusters = 3;
  }
  controls[0]->engines_turn = 0;
  controls[1]->turn = Control::kShell;
  controls[1]->next = 2;
  Baton baton(*controls[1], ::getppid());
  // Each waits for the other side's turn, and gives the baton back.
  std::thread others([&] {
    while (controls[2]->turn.load() != Control::kShell) std::this_thread::yield();
    EXPECT_EQ(controls[0]->engines_turn, 0u);
    EXPECT_EQ(controls[1]->asking, Control::kNobody);
    controls[2]->turn = Control::kOthers;
    controls[1]->turn = Control::kShell;
    ::syscall(SYS_futex, &controls[1]->turn, FUTEX_WAKE, 1, nullptr, nullptr, 0);
    while (controls[0]->engines_turn.load() == 0) std::this_thread::yield();
    EXPECT_EQ(controls[2]->turn, Control::kOthers);
    EXPECT_EQ(controls[1]->asking, 4u);
    controls[1]->turn = Control::kShell;
    ::syscall(SYS_futex, &controls[1]->turn, FUTEX_WAKE, 1, nullptr, nullptr, 0);
  });
  baton.give(Control::kNobody);
  baton.give(4);
  others.join();
}

// Calls await() in a child process and returns the exit status; 99: await() returned.
int status_of_await(std::uint32_t turn, bool engine_lives) {
  const pid_t child = ::fork();
  if (child == 0) {
    const auto control = std::make_unique<Control>();
    control->turn = turn;
    Baton(*control, engine_lives ? ::getppid() : 1'000'000'000).await();
    ::_exit(99);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(Baton, LeaveEndsTheShellsProcess) {
  EXPECT_EQ(status_of_await(Control::kLeave, true), 0);
}

TEST(Baton, AwaitReturnsWhenTheShellHasTheBaton) {
  EXPECT_EQ(status_of_await(Control::kShell, true), 99);
}

TEST(Baton, AwaitFailsWhenTheEngineHasDied) {
  EXPECT_EQ(status_of_await(Control::kOthers, false), dsm::kFailureStatus);
}

// Whether system calls can read and write the page: "rw", "r-" or "--".
std::string access_of(std::uint32_t page) {
  void* const address = dsm::application_address(PageId(page));
  const int fd = ::memfd_create("probe", 0);
  char byte = 0;
  const bool readable = ::pwrite(fd, address, 1, 0) == 1;
  const bool writable = ::pwrite(fd, &byte, 1, 0) == 1 && ::pread(fd, address, 1, 0) == 1;
  ::close(fd);
  return std::string(readable ? "r" : "-") + (writable ? "w" : "-");
}

TEST(Mappings, HeapIsInaccessibleUntilProtectionsAreAppliedInOrder) {
  constexpr std::uint32_t kPages = 8;
  constexpr unsigned kCluster = 2, kClusters = 3;  // its parts are the third ones
  const int control_fd = ::memfd_create("control", 0);
  const int heap_fd = ::memfd_create("heap", 0);
  ASSERT_EQ(::ftruncate(control_fd, control_offset(kCluster + 1)), 0);
  ASSERT_EQ(::ftruncate(heap_fd, heap_offset(kClusters + 1, kPages * dsm::kPageBytes)), 0);
  void* const memory = ::mmap(nullptr, sizeof(Control), PROT_READ | PROT_WRITE, MAP_SHARED, control_fd,
                              control_offset(kCluster));
  auto* const control = new (memory) Control;
  control->cluster = kCluster;
  control->clusters = kClusters;
  control->heap_pages = kPages;
  const std::string control_text = std::to_string(control_fd), heap_text = std::to_string(heap_fd);
  const int other_heap_fd = ::dup(heap_fd);
  {
    Result<Mappings> mappings = Mappings::map([&](const std::string& name) {
      if (name == variable::kCluster) return "2";
      return name == variable::kControlFd ? control_text.c_str() : heap_text.c_str();
    });
    ASSERT_TRUE(mappings.ok()) << mappings.error().text;
    EXPECT_EQ(::fcntl(control_fd, F_GETFD), -1) << "still open";
    for (std::uint32_t page = 0; page < kPages; ++page) EXPECT_EQ(access_of(page), "--");
    control->protections[0] = {0, 3, dsm::Access::kWrite};
    control->protections[1] = {3, 2, dsm::Access::kRead};
    control->protections[2] = {1, 1, dsm::Access::kNone};
    control->protection_runs = 3;
    mappings->protect();
    EXPECT_EQ(control->protection_runs, 0u);
    std::string all;
    for (std::uint32_t page = 0; page < kPages; ++page) all += access_of(page) + " ";
    EXPECT_EQ(all, "rw -- rw r- r- -- -- -- ");
    // Cluster 0 writes what pages begin with, once for all clusters, and nothing where it is zeros.
    std::vector<std::byte> contents(3 * dsm::kPageBytes);
    contents[7] = std::byte{42};
    contents[2 * dsm::kPageBytes] = std::byte{43};
    const auto pages_in_use = [&] {
      struct stat status {};
      EXPECT_EQ(::fstat(other_heap_fd, &status), 0);
      return status.st_blocks * 512 / static_cast<off_t>(dsm::kPageBytes);
    };
    const auto before = pages_in_use();
    mappings->fill(PageId(5), contents);
    EXPECT_EQ(control->filled_pages, 8u);
    EXPECT_EQ(pages_in_use(), before);
    control->cluster = 0;
    mappings->fill(PageId(5), contents);
    EXPECT_EQ(pages_in_use(), before + 2);
    control->cluster = kCluster;
    char byte = 0;
    const auto at = [&](std::size_t page) {
      return heap_offset(kClusters, kPages * dsm::kPageBytes) + page * dsm::kPageBytes;
    };
    EXPECT_EQ(::pread(other_heap_fd, &byte, 1, at(5) + 7), 1);
    EXPECT_EQ(byte, 42);
    EXPECT_EQ(::pread(other_heap_fd, &byte, 1, at(7)), 1);
    EXPECT_EQ(byte, 43);
  }
  unsigned char resident = 0;
  EXPECT_NE(::mincore(dsm::application_address(PageId(0)), 1, &resident), 0) << "still mapped";
  ::close(other_heap_fd);
  ::munmap(memory, sizeof(Control));
}

TEST(Mappings, ControlOfAnotherClusterIsThePartThatTheEnvironmentNames) {
  const int fd = ::memfd_create("control", 0);
  ASSERT_EQ(::ftruncate(fd, control_offset(2)), 0);
  for (std::uint16_t k = 0; k < 2; ++k) {
    void* const memory =
        ::mmap(nullptr, sizeof(Control), PROT_READ | PROT_WRITE, MAP_SHARED, fd, control_offset(k));
    auto* const control = new (memory) Control;
    control->cluster = k;
    control->clusters = 2;
    ::munmap(memory, sizeof(Control));
  }
  const std::string text = std::to_string(fd);
  const char* cluster = "1";
  const Lookup lookup = [&](const std::string& name) {
    return name == variable::kCluster ? cluster : text.c_str();
  };
  Result<Control*> control = map_control(lookup);
  ASSERT_TRUE(control.ok()) << control.error().text;
  EXPECT_EQ((*control)->cluster, 1);
  EXPECT_EQ(control_of(**control, 0).cluster, 0);
  unmap_control(*control);
  control = map_control(lookup, 0);
  ASSERT_TRUE(control.ok()) << control.error().text;
  EXPECT_EQ((*control)->cluster, 0);
  unmap_control(*control);
  cluster = "two";
  EXPECT_THAT(map_control(lookup).error().text,
              testing::HasSubstr("BRAID_SIM_CLUSTER is 'two', which is no number"));
  cluster = "9";
  EXPECT_THAT(map_control(lookup).error().text,
              testing::HasSubstr("program and simulator are of different builds"));
  ::close(fd);
}

}  // namespace
}  // namespace braid::sim
