// Descriptors that threads have opened: each is one of its own cluster's process alone. A call with one that is open elsewhere, but not
// here, ends the program: many programs take a failed read for the end of a file.
#include <errno.h>
#include <fcntl.h>

#include <utility>

#include "dsm/program/failure.h"
#include "dsm/program/host.h"
#include "dsm/program/shared_arguments.h"
#include "dsm/pthreads/machine.h"
#include "dsm/pthreads/streams.h"

namespace braid::dsm::pthreads {

namespace {

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
  if (!on_shared_stack() || !several_clusters() || !started() || is_forked_child()) return;
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

[[gnu::constructor]] void begin() {
  when_not_open = look_elsewhere;
}

}  // namespace

}  // namespace braid::dsm::pthreads
