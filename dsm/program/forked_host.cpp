#include "dsm/program/forked_host.h"

#include "dsm/program/failure.h"

namespace braid::dsm {

void ForkedHost::refuse(const char* call) {
  fail(
      "a child of fork() called {}: only the process that called init() may; make the call there, or let the "
      "child call exec()",
      call);
}

std::optional<PageId> ForkedHost::allocate_together(const Allocation&) {
  refuse("allocate()");
}
std::optional<PageId> ForkedHost::allocate_alone(unsigned, const Allocation&) {
  refuse("allocate()");
}
void ForkedHost::parallel(const std::function<void(Node&)>&) {
  refuse("parallel()");
}
void ForkedHost::begin_parallel(std::function<void(Node&)>) {
  refuse("parallel()");
}
void ForkedHost::end_parallel() {
  refuse("the end of parallel()");
}
void ForkedHost::fill(PageId, std::span<const std::byte>) {
  refuse("allocate()");
}
void ForkedHost::run_on_cluster(const std::function<void(unsigned)>&) {
  refuse("run_on_cluster()");
}
void ForkedHost::barrier_of_clusters() {
  refuse("barrier()");
}
void ForkedHost::finish() {
  refuse("finish()");
}
void ForkedHost::prefetch(unsigned, PageId, std::uint32_t) {
  refuse("prefetch()");
}
void ForkedHost::lock(unsigned, LockId) {
  refuse("Node::lock()");
}
void ForkedHost::unlock(unsigned, LockId) {
  refuse("Node::unlock()");
}
bool ForkedHost::try_lock(unsigned, LockId) {
  refuse("Node::try_lock()");
}
Reduced ForkedHost::barrier(unsigned, BarrierId, Reduction reduction, std::uint64_t) {
  refuse(reduction == Reduction::kNone ? "Node::barrier()" : "Node::reduce()");
}
std::uint64_t ForkedHost::sync(unsigned, const SyncCall&) {
  refuse("a synchronising function of Node");
}
void ForkedHost::reset_figures(unsigned) {
  refuse("Node::reset_figures()");
}
std::uint32_t ForkedHost::free_pages() {
  refuse("allocate()");
}

}  // namespace braid::dsm
