// Descriptors that threads have opened: each is one of its own cluster's process. A call with one that is open elsewhere, but not
// here, is made there, by a thread that is made for it, as for streams (streams.h). So that none has the number of another, each cluster
// has its part of the numbers, above those that the processes have at the start: the runtime's own are others in each.
#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "dsm/program/failure.h"
#include "dsm/program/host.h"
#include "dsm/program/shared_arguments.h"
#include "dsm/pthreads/machine.h"
#include "dsm/pthreads/streams.h"

extern "C" {
void* __wrap_malloc(std::size_t bytes);
void __wrap_free(void* memory);
}

namespace braid::dsm::pthreads {

namespace {

constexpr rlim_t kMostNumbers = FD_SETSIZE;  // select() takes no others

// A thread of one of several clusters calls, and no handler of a signal.
bool called_in_clusters() {
  return on_shared_stack() && several_clusters() && started() && !is_forked_child();
}

bool is_open(int descriptor) {
  return ::fcntl(descriptor, F_GETFD) >= 0;
}

bool may_have(int descriptor) {
  // One that is open here is not open for the call.
  return called_in_clusters() && !on_private([=] { return is_open(descriptor); });
}

// How many numbers each cluster has, from (its own + 1) x as many on; 0: not known.
int numbers_of_each(unsigned clusters) {
  rlimit most{};
  if (::getrlimit(RLIMIT_NOFILE, &most) != 0) return 0;
  return static_cast<int>(std::min<rlim_t>(most.rlim_cur, kMostNumbers) / (clusters + 1));
}

// Calls use(cluster), which says whether that one has the descriptor, for each other cluster until one has: first the one whose part the
// number is in.
template <class Use>
bool find_elsewhere(const char* call, int descriptor, Use use) {
  if (!may_have(descriptor)) return false;
  const auto& shape = joined_host(call).shape();
  const unsigned clusters = shape.clusters, own = shape.cluster;
  const int each = on_private([=] { return numbers_of_each(clusters); });
  const int part = each == 0 ? 0 : std::clamp(descriptor / each - 1, 0, static_cast<int>(clusters) - 1);
  const auto owner = static_cast<unsigned>(part);
  for (unsigned i = 0; i < clusters; ++i) {
    const unsigned cluster = (owner + i) % clusters;
    if (cluster != own && use(cluster)) return true;
  }
  return false;
}

bool carry_out(const char* call, int descriptor, void (*function)(void*), void* argument) {
  return find_elsewhere(call, descriptor, [=](unsigned cluster) {
    return at(cluster, call, [=] {
      if (!on_private([=] { return is_open(descriptor); })) return false;
      errno = 0;
      function(argument);
      return true;
    });
  });
}

void refuse_descriptor(const char* call, int descriptor) {
  find_elsewhere(call, descriptor, [=](unsigned cluster) {
    if (!at(cluster, call, [=] { return on_private([=] { return is_open(descriptor); }); })) return false;
    on_private([=] {
      fail(
          "{}{}: descriptor {} is one of cluster {}, where a thread has opened it: open it before the first pthread_create(), use it in threads "
          "of that cluster alone, or use read() and write(), which work everywhere",
          call, place_of_call().c_str(), descriptor, cluster);
    });
    return true;
  });
}

// The number of the new descriptor in the cluster's part; the given one where that is full. Standard input, output and error
// stay, which a program may have closed to open others.
int move_to_own_part(int descriptor) {
  if (descriptor <= STDERR_FILENO || !called_in_clusters()) return descriptor;
  const auto& shape = joined_host("open()").shape();
  return on_private([descriptor, clusters = shape.clusters, cluster = shape.cluster] {
    const int each = numbers_of_each(clusters);
    if (each == 0) return descriptor;
    const int first = static_cast<int>(cluster + 1) * each;
    const bool closes = (::fcntl(descriptor, F_GETFD) & FD_CLOEXEC) != 0;
    const int moved = ::fcntl(descriptor, closes ? F_DUPFD_CLOEXEC : F_DUPFD, first);
    const bool is_own = moved >= first && moved < first + each;
    if (moved >= 0) ::close(is_own ? descriptor : moved);
    return is_own ? moved : descriptor;
  });
}

// The inode of a pipe or socket; 0: none.
ino_t channel(int descriptor) {
  struct stat status {};
  const bool is_one =
      ::fstat(descriptor, &status) == 0 && (S_ISFIFO(status.st_mode) || S_ISSOCK(status.st_mode));
  return is_one ? status.st_ino : 0;
}

// A pipe or socket from before the start is open in all clusters: who reads its other end would wait for ever if it stayed open
// in one.
void close_elsewhere(int descriptor) {
  if (descriptor <= STDERR_FILENO || !called_in_clusters()) return;
  const auto& shape = joined_host("close()").shape();
  const unsigned clusters = shape.clusters, own = shape.cluster;
  const ino_t inode =
      on_private([=] { return descriptor < numbers_of_each(clusters) ? channel(descriptor) : ino_t{0}; });
  for (unsigned cluster = 0; inode != 0 && cluster < clusters; ++cluster) {
    if (cluster == own) continue;
    at(cluster, "close()",
       [=] { return on_private([=] { return channel(descriptor) == inode ? ::close(descriptor) : 0; }); });
  }
}

[[gnu::constructor]] void begin() {
  static constexpr Elsewhere kOthers{may_have, carry_out, refuse_descriptor, __wrap_malloc, __wrap_free};
  elsewhere = &kOthers;
  when_closed = close_elsewhere;
  when_opened = move_to_own_part;
}

}  // namespace

}  // namespace braid::dsm::pthreads
