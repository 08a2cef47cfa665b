// The working folder, which is the program's, and so each cluster's: a change is carried out in all of them.
#include <errno.h>
#include <limits.h>
#include <unistd.h>

#include <array>
#include <cstdint>

#include "base/system_error.h"
#include "dsm/program/failure.h"
#include "dsm/program/host.h"
#include "dsm/pthreads/machine.h"
#include "dsm/pthreads/streams.h"
#include "dsm/pthreads/wrapped.h"

using namespace braid::dsm;            // NOLINT
using namespace braid::dsm::pthreads;  // NOLINT

namespace {

// Takes all other clusters to the caller's folder. What they get is on the program's stack.
void follow(const char* call) {
  if (!several_clusters()) return;
  if (!on_shared_stack()) refuse(call, "not by a handler of a signal: let a thread call it");
  std::array<char, PATH_MAX> folder;
  const Host& host = joined_host(call);
  const bool is_known = on_private([&] { return ::getcwd(folder.data(), folder.size()) != nullptr; });
  for (unsigned cluster = 0; cluster < host.shape().clusters; ++cluster) {
    if (cluster == host.shape().cluster) continue;
    const char* const name = folder.data();
    const int result =
        is_known ? at(cluster, call, [name] { return on_private([name] { return ::chdir(name); }); }) : -1;
    if (result == 0) continue;
    on_private([=, error_number = errno] {
      fail("{}{}: cluster {} cannot change to the folder: {}", call, place_of_call().c_str(), cluster,
           braid::cause_and_cure(error_number).c_str());
    });
  }
}

}  // namespace

extern "C" {

int WRAPPED(chdir)(const char* path) {
  const int result = on_private([path] { return ::chdir(path); });
  if (result == 0) follow("chdir()");
  return result;
}
int WRAPPED(fchdir)(int descriptor) {
  const int result = on_private([descriptor] { return ::fchdir(descriptor); });
  if (result == 0) follow("fchdir()");
  return result;
}

}  // extern "C"
