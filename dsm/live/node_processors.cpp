#include "dsm/live/node_processors.h"

#include <dlfcn.h>
#include <fmt/core.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <memory>
#include <new>
#include <utility>

#include "base/processors.h"

namespace braid::dsm {
namespace {

// Of the thread: the processor that it is bound to, and by whom; null: it is not.
constinit thread_local const NodeProcessors* bound_by = nullptr;
constinit thread_local unsigned bound_to = 0;

// A thread that a bound one creates.
struct Begin {
  void* (*function)(void*);
  void* argument;
  std::vector<unsigned> processors;
};

void* begin_unbound(void* begin) {
  // Freed before, because the function may not return (pthread_exit()).
  auto* const own = static_cast<Begin*>(begin);
  (void)run_on_processors(own->processors);
  void* (*const function)(void*) = own->function;
  void* const argument = own->argument;
  delete own;
  return function(argument);
}

bool says_where(const pthread_attr_t* attributes) {
  cpu_set_t set;
  return attributes != nullptr && ::pthread_attr_getaffinity_np(attributes, sizeof set, &set) == 0 &&
         CPU_COUNT(&set) < CPU_SETSIZE;
}

using Create = int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);

}  // namespace

NodeProcessors::NodeProcessors(std::vector<unsigned> processors)
    : processors_(std::move(processors)), whole_(processors_of_this_thread()) {}

void NodeProcessors::bind(unsigned local) const {
  if (processors_.empty()) return;
  if (local >= processors_.size()) return release();
  const unsigned processor = processors_[local];
  if (bound_by == this && bound_to == processor) return;
  const int problem = run_on_processors({&processor, 1});
  if (problem == 0) {
    bound_by = this;
    bound_to = processor;
    return;
  }
  static std::atomic<bool> told{false};
  if (told.exchange(true)) return;
  fmt::print(
      stderr,
      "braid: compute node {} of its cluster runs on any processor, because it is refused processor {}: {}\n",
      local, processor, ::strerror(problem));
}

void NodeProcessors::release() const {
  if (bound_by == nullptr) return;
  (void)run_on_processors(whole_);
  bound_by = nullptr;
}

}  // namespace braid::dsm

// In front of the C library's, for all that the program and its libraries create.
extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*function)(void*),
                              void* argument) noexcept {
  using namespace braid::dsm;  // NOLINT
  // Looked up each time: what is kept would be a global of the program's, which reports would name as one that clusters wrote.
  const auto original = reinterpret_cast<Create>(::dlsym(RTLD_NEXT, "pthread_create"));
  if (bound_by == nullptr || says_where(attributes)) return original(thread, attributes, function, argument);
  std::unique_ptr<Begin> begin(new (std::nothrow) Begin{function, argument, bound_by->whole()});
  if (begin == nullptr) return EAGAIN;
  const int problem = original(thread, attributes, &begin_unbound, begin.get());
  if (problem == 0) (void)begin.release();
  return problem;
}
