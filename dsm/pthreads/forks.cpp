// fork() before the machine starts. The child is a process of its own: it has a copy of the heap, which the program's anonymous
// mappings are blocks of, and its locks are no others than the parent's by address alone. What it would share with the parent
// is refused by name; a child that works on its own, or becomes another program, is left alone.
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>

#include "dsm/program/failure.h"
#include "dsm/program/host.h"
#include "dsm/program/thread_host.h"
#include "dsm/pthreads/machine.h"
#include "dsm/pthreads/wrapped.h"

namespace braid::dsm::pthreads {

namespace {

constexpr std::uintptr_t kPage = 4096;

struct Mapping {
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;
  bool in_heap = false;
};
// Those with MAP_SHARED, until the machine starts. More than these are not watched.
constinit std::array<Mapping, 64> mappings{};
constinit bool has_forked = false;
constinit bool is_child = false;

Mapping* mapping_of(const void* memory) {
  const auto address = reinterpret_cast<std::uintptr_t>(memory);
  const auto found = std::find_if(mappings.begin(), mappings.end(),
                                  [=](const Mapping& m) { return m.begin <= address && address < m.end; });
  return found == mappings.end() ? nullptr : found;
}

void on_fault(int signal, siginfo_t* fault, void*) {
  const Mapping* const mapping = mapping_of(fault->si_addr);
  if (mapping != nullptr && mapping->in_heap)
    fail(
        "a child of fork() uses memory from mmap() with MAP_SHARED and MAP_ANONYMOUS, which processes do not share with --pthreads: "
        "create a thread in place of the child, or map a file");
  (void)::signal(signal, SIG_DFL);  // the access is made again
}

// The copies that the child has would hide what the other process writes.
void take_mappings_away() {
  bool any = false;
  for (const Mapping& mapping : mappings) {
    if (!mapping.in_heap || mapping.end == 0) continue;
    any = true;
    (void)::mprotect(reinterpret_cast<void*>(mapping.begin), mapping.end - mapping.begin, PROT_NONE);
  }
  struct sigaction now {};
  if (!any || ::sigaction(SIGSEGV, nullptr, &now) != 0 || now.sa_handler != SIG_DFL) return;
  now = {};
  now.sa_sigaction = on_fault;
  now.sa_flags = SA_SIGINFO;
  (void)::sigaction(SIGSEGV, &now, nullptr);
}

}  // namespace

void note_mapping(const void* memory, std::size_t bytes, bool in_heap) {
  const auto free_place =
      std::find_if(mappings.begin(), mappings.end(), [](const Mapping& m) { return m.end == 0; });
  if (started() || memory == MAP_FAILED || free_place == mappings.end()) return;
  const auto begin = reinterpret_cast<std::uintptr_t>(memory);
  *free_place = {begin, (begin + bytes + kPage - 1) / kPage * kPage, in_heap};
}

void forget_mapping(const void* memory) {
  if (started()) return;
  if (Mapping* const mapping = mapping_of(memory)) *mapping = {};
}

void check_fork_has_not_shared(const char* call, const void* object) {
  if (!has_forked || started() || mapping_of(object) == nullptr) return;
  refuse(
      call,
      "the object is in memory that children of fork() share, and locks and semaphores of --pthreads are those of the threads of "
      "one program; create threads in place of the children");
}

void check_not_forked() {
  const bool alone = thread_host::starts_threads() && thread_host::machine().clusters == 1;
  if (!is_child || alone) return;
  refuse(
      "pthread_create() in a child of fork()",
      "the other clusters belong to the process that was started, which the child is not; create threads there, or leave fork() out");
}

bool forked_before_start() {
  return has_forked;
}

}  // namespace braid::dsm::pthreads

using namespace braid::dsm;            // NOLINT
using namespace braid::dsm::pthreads;  // NOLINT

extern "C" {

// After the start a child would have neither its stack nor the globals.
pid_t WRAPPED(fork)() {
  if (started()) {
    if (!is_forked_child())
      on_private([] {
        refuse(
            "fork()",
            "stacks and globals are shared memory, which no child has; use posix_spawn(), popen() or system()");
      });
    return ::fork();
  }
  const pid_t child = ::fork();
  if (child >= 0) has_forked = true;
  if (child == 0) {
    is_child = true;
    take_mappings_away();
  }
  return child;
}

// The process that was started ends in it, and with it the run.
int WRAPPED(daemon)(int keep_folder, int keep_streams) {
  on_private([] {
    if (started() || !thread_host::starts_threads() || thread_host::machine().clusters > 1)
      refuse(
          "daemon()",
          "the run ends with the process that it has started; leave it out, and start the run itself in the background");
  });
  return ::daemon(keep_folder, keep_streams);
}

}  // extern "C"
