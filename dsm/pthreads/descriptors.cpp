// Descriptors that threads have opened: each is one of its own cluster's process alone. A call with one that is open elsewhere, but not
// here, ends the program: many programs take a failed read for the end of a file. So that none has the number of another, each cluster
// but the first has its part of the numbers.
#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "dsm/program/failure.h"
#include "dsm/program/host.h"
#include "dsm/program/shared_arguments.h"
#include "dsm/pthreads/machine.h"
#include "dsm/pthreads/streams.h"

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

[[noreturn]] void refuse_descriptor(const char* call, int descriptor, unsigned cluster) {
  on_private([=] {
    fail(
        "{}{}: descriptor {} is one of cluster {}, where a thread has opened it: open it before the first pthread_create(), use it in threads "
        "of that cluster alone, or use a stream (fopen())",
        call, place_of_call().c_str(), descriptor, cluster);
  });
  __builtin_unreachable();
}

// The call has failed with EBADF.
void look_elsewhere(const char* call, int descriptor) {
  if (!called_in_clusters()) return;
  if (on_private([=] { return is_open(descriptor); })) return;  // it is not open for this
  const auto [clusters, own_cluster] = [&] {
    const auto& shape = joined_host(call).shape();
    return std::pair(shape.clusters, shape.cluster);
  }();
  for (unsigned cluster = 0; cluster < clusters; ++cluster)
    if (cluster != own_cluster &&
        at(cluster, call, [=] { return on_private([=] { return is_open(descriptor); }); }))
      refuse_descriptor(call, descriptor, cluster);
}

// The number of the new descriptor in the cluster's part; the given one where that is full. Standard input, output and error
// stay, which a program may have closed to open others.
int move_to_own_part(int descriptor) {
  if (descriptor <= STDERR_FILENO || !called_in_clusters()) return descriptor;
  const auto& shape = joined_host("open()").shape();
  if (shape.cluster == 0) return descriptor;
  return on_private([descriptor, clusters = shape.clusters, cluster = shape.cluster] {
    rlimit most{};
    if (::getrlimit(RLIMIT_NOFILE, &most) != 0) return descriptor;
    const int each = static_cast<int>(std::min<rlim_t>(most.rlim_cur, kMostNumbers) / clusters);
    const int first = static_cast<int>(cluster) * each;
    const bool closes = (::fcntl(descriptor, F_GETFD) & FD_CLOEXEC) != 0;
    const int moved = ::fcntl(descriptor, closes ? F_DUPFD_CLOEXEC : F_DUPFD, first);
    const bool is_own = moved >= first && moved < first + each;
    if (moved >= 0) ::close(is_own ? descriptor : moved);
    return is_own ? moved : descriptor;
  });
}

[[gnu::constructor]] void begin() {
  when_not_open = look_elsewhere;
  when_opened = move_to_own_part;
}

}  // namespace

}  // namespace braid::dsm::pthreads
