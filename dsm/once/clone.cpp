#include "dsm/once/clone.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <utility>
#include <vector>

#include "base/system_error.h"
#include "dsm/live/debugger.h"
#include "dsm/live/environment.h"
#include "dsm/once/courier.h"
#include "dsm/once/fork.h"
#include "dsm/once/image.h"
#include "dsm/once/messages.h"
#include "dsm/program/failure.h"

namespace braid::dsm::once {

namespace {

struct Place {
  Message message;
  Descriptors with;
};

[[noreturn]] void fail_for_warden() {
  fail("the process that watches the program's processes has gone");
}

std::vector<Place> take_places(int warden, std::size_t count) {
  if (!send(warden, {.kind = Kind::kStart})) fail_for_warden();
  std::vector<Place> places(count);
  for (Place& place : places) {
    if (!receive(warden, &place.message, &place.with)) fail_for_warden();
    if (place.message.kind == Kind::kFailure) fail("{}", place.message.text.data());
  }
  return places;
}

// The clone's environment names its cluster and its descriptors.
void take_environment(const Place& place) {
  const char* const text = place.message.text.data();
  for (std::size_t at = 0; at < place.message.text_bytes;) {
    const std::string variable(text + at);
    at += variable.size() + 1;
    const std::size_t equals = variable.find('=');
    if (equals == std::string::npos) continue;
    const std::string name = variable.substr(0, equals);
    std::string value = variable.substr(equals + 1);
    if (name == variable::kRun) continue;
    if (name == variable::kReportFd || name == variable::kPulseFd) {
      for (std::size_t i = 3; i < place.with.fds.size(); ++i) {
        if (place.with.fds[i] >= 0 && std::to_string(place.message.numbers[i]) == value) {
          value = std::to_string(place.with.fds[i]);
          break;
        }
      }
    }
    ::setenv(name.c_str(), value.c_str(), 1);
  }
}

void close_descriptor_in(const char* name) {
  if (const char* const text = ::getenv(name)) ::close(::atoi(text));
}

// What `braid run` gives to a cluster that is to read nothing.
bool is_null_device(int fd) {
  struct stat status {};
  return ::fstat(fd, &status) == 0 && S_ISCHR(status.st_mode) && status.st_rdev == makedev(1, 3);
}

void take_place(const Origin& origin, Place& place) {
  ::close(origin.socket);
  for (const char* const name : {variable::kReportFd, variable::kPulseFd}) close_descriptor_in(name);
  take_environment(place);
  for (int fd = 0; fd <= 2; ++fd) {
    const auto at = static_cast<std::size_t>(fd);
    const bool shares_input = fd == STDIN_FILENO && is_null_device(place.with.fds[at]);
    if (is_original(fd) && !shares_input) ::dup2(place.with.fds[at], fd);
    ::close(place.with.fds[at]);
  }
  forget_what_is_read();
  wait_for_debugger();
}

// The clone itself, until it may continue.
void await_permission(const Origin& origin, int permission) {
  char byte = 0;
  ssize_t n;
  while ((n = ::read(permission, &byte, 1)) < 0 && errno == EINTR) {
  }
  if (n != 1) ::_exit(kFailureStatus);
  ::close(permission);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != origin.warden) ::_exit(kFailureStatus);
}

void register_clone(const Origin& origin, unsigned cluster, pid_t pid) {
  Message message{.kind = Kind::kProgram, .cluster = cluster, .pid = pid};
  if (!send(origin.socket, message) || !receive(origin.socket, &message)) fail_for_warden();
}

}  // namespace

namespace {

// Returns in the clones: the number of its cluster; and 0 in the caller, which has none of the places.
unsigned make_clones(const Origin& origin, std::vector<Place> places) {
  // No clone continues before all are known to the warden.
  int permission[2];
  if (::pipe(permission) != 0) fail("cannot make a pipe: {}", cause_and_cure(errno).c_str());
  for (Place& place : places) {
    // `braid run` kills the group of a cluster's process with its end.
    const pid_t clone = fork_orphan(place.message.group);
    if (clone == 0) {
      ::close(permission[1]);
      for (Place& other : places) {
        if (&other != &place) other.with.close_all();
      }
      await_permission(origin, permission[0]);
      take_place(origin, place);
      return place.message.cluster;
    }
    register_clone(origin, place.message.cluster, clone);
    place.with.close_all();
  }
  for (std::size_t i = 0; i < places.size(); ++i) {
    if (::write(permission[1], "", 1) != 1) fail("cannot write to a pipe: {}", cause_and_cure(errno).c_str());
  }
  ::close(permission[0]);
  ::close(permission[1]);
  ::close(origin.socket);
  return 0;
}

// In the process that has become the image of cluster 0's on another host: clones it for all clusters of that host.
unsigned clone_arrived_program() {
  const Arrival here = arrival();
  const Origin origin{.socket = here.socket, .warden = here.warden, .clusters = here.clusters};
  note_standard_descriptors();
  // Those of cluster 0, which are not here.
  for (const char* const name : {variable::kReportFd, variable::kPulseFd}) ::unsetenv(name);
  const unsigned cluster = make_clones(origin, take_places(origin.socket, origin.clusters));
  if (cluster == 0) ::_exit(0);
  return cluster;
}

// The image is of a copy, which has the memory of this process at one moment. True: this is the process of the image.
bool send_copy(const Origin& origin) {
  const pid_t copy = ::fork();
  if (copy < 0) fail("cannot copy the program for other hosts: {}", cause_and_cure(errno).c_str());
  if (copy == 0) {
    if (write_image(origin.image)) return true;
    ::_exit(0);
  }
  int status = 0;
  while (::waitpid(copy, &status, 0) < 0 && errno == EINTR) {
  }
  if (status != 0) ::_exit(kFailureStatus);  // it has told why
  ::close(origin.image);
  send_image(origin.courier);
  ::close(origin.courier);
  return false;
}

}  // namespace

unsigned clone_program(const Origin& origin) {
  if (origin.courier >= 0) check_image_can_go();
  std::vector<Place> places = take_places(origin.socket, origin.clusters - 1);
  // Or each clone would write what is buffered once more.
  (void)::fflush(nullptr);
  stop_reading_ahead();
  if (origin.courier >= 0 && send_copy(origin)) return clone_arrived_program();
  return make_clones(origin, std::move(places));
}

}  // namespace braid::dsm::once
