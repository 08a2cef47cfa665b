// The calls of dsm/api.h, on the one runtime that a process has.
#include "dsm/api.h"

#include <errno.h>
#include <unistd.h>

#include <memory>
#include <string>

#include "base/clock.h"
#include "dsm/live/environment.h"
#include "dsm/live/failure.h"
#include "dsm/live/machine.h"
#include "dsm/live/network.h"
#include "dsm/live/runtime.h"
#include "dsm/live/trace.h"
#include "dsm/threads.h"

namespace braid::dsm {

namespace {

// Not destroyed at exit: a program that calls exit() without finish() may have compute nodes at work.
Runtime* the_runtime = nullptr;

Runtime& runtime(const char* call) {
  if (the_runtime == nullptr) fail("{} was called before braid::dsm::init(), or after finish()", call);
  return *the_runtime;
}

[[noreturn]] void fail_with(const Error& error) {
  fail_with_text(error.text.data(), error.text.size());
}

void write_all(int fd, const std::string& text) {
  for (std::size_t written = 0; written < text.size();) {
    const ssize_t n = ::write(fd, text.data() + written, text.size() - written);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return;  // whoever wanted the report has gone: the program's result stands all the same
    written += static_cast<std::size_t>(n);
  }
}

}  // namespace

void join_machine(const Environment& environment, std::unique_ptr<Network> network) {
  if (the_runtime != nullptr) fail("braid::dsm::init() was called twice");
  Result<std::unique_ptr<Runtime>> started =
      Runtime::start(environment, std::move(network), ::program_invocation_short_name);
  if (!started) fail_with(started.error());
  the_runtime = std::move(started).value().release();
}

void init() {
  if (the_runtime != nullptr) fail("braid::dsm::init() was called twice");
  const Result<Environment> environment = Environment::read();
  if (!environment) fail_with(environment.error());
  std::unique_ptr<Network> network;
  if (environment->clusters > 1) {
    Result<std::unique_ptr<Network>> connected = connect_through_service(*environment);
    if (!connected) fail_with(connected.error());
    network = std::move(connected).value();
  }
  join_machine(*environment, std::move(network));
}

unsigned clusters() {
  return runtime("clusters()").environment().clusters;
}
unsigned cluster() {
  return runtime("cluster()").environment().cluster;
}
unsigned nodes_per_cluster() {
  return runtime("nodes_per_cluster()").environment().compute;
}

void* allocate_bytes(std::size_t bytes, Placement placement) {
  return runtime("allocate()").allocate(bytes, placement);
}

void parallel(const std::function<void(Node&)>& body) {
  runtime("parallel()").parallel(body);
}

void barrier() {
  runtime("barrier()").barrier_of_clusters();
}

AdoptedThread::AdoptedThread(unsigned local) : stack_(std::make_unique<SignalStack>()) {
  runtime("AdoptedThread").adopt(local);
}
AdoptedThread::~AdoptedThread() {
  Runtime::leave();
}

void trace_faults(bool on) {
  runtime("trace_faults()").trace_faults(on);
}
FaultStamps latest_fault() {
  return runtime("latest_fault()").latest_fault();
}

double seconds() {
  return static_cast<double>(monotonic_now().ns()) * 1e-9;
}

int finish(int status) {
  Runtime& leaving = runtime("finish()");
  leaving.finish();
  const int report_fd = leaving.environment().report_fd;
  if (report_fd >= 0) {
    write_all(report_fd, leaving.report());
    ::close(report_fd);
  }
  the_runtime = nullptr;
  delete &leaving;
  return status;
}

unsigned Node::id() const {
  return the_runtime->node_id(local_);
}
unsigned Node::count() const {
  return the_runtime->node_count();
}
unsigned Node::cluster() const {
  return the_runtime->environment().cluster;
}

Range Node::share(std::size_t n) const {
  // 128 bits: n times the number of nodes may not fit 64.
  const auto edge = [&](std::size_t node) {
    return static_cast<std::size_t>(static_cast<unsigned __int128>(n) * node / count());
  };
  return {edge(id()), edge(id() + 1)};
}

void Node::barrier(unsigned which) {
  if (which >= kBarriers) fail("barrier {} does not exist: there are {}, counted from 0", which, kBarriers);
  the_runtime->barrier(local_, which);
}
void Node::lock(unsigned lock) {
  the_runtime->lock(local_, lock);
}
void Node::unlock(unsigned lock) {
  the_runtime->unlock(local_, lock);
}

}  // namespace braid::dsm
