// Streams of stdio where there are several clusters. A FILE is memory of one process, with a descriptor of that process. Those from
// before the start are in all clusters (dsm/once/fork.cpp). What a thread opens later is in its own cluster, its home: calls of
// threads elsewhere are carried out there, each by a thread that is made for it.
#pragma once

#include <errno.h>
#include <stdio.h>

#include <type_traits>

namespace braid::dsm::pthreads {

inline constexpr unsigned kHere = ~0u;
// The cluster that has opened it; kHere: the caller's, or all have it. On the program's stack. `call` is for messages.
unsigned home_of(FILE* stream, const char* call);

// The calling cluster has opened it. False: another one has a stream of that address.
bool claim(FILE* stream);

// Calls function(argument), in shared memory, by a thread of another cluster, and waits for its end. `call`: for messages.
void call_at(unsigned home, const char* call, void* (*function)(void*), void* argument);

// Calls use() in the cluster `home`, with errno. What it refers to is in shared memory.
template <class Use>
auto at(unsigned home, const char* call, Use use) {
  if (home == kHere) return use();
  struct Call {
    Use use;
    std::invoke_result_t<Use&> value;
    int error_number;
  };
  Call made{use, {}, 0};
  call_at(
      home, call,
      [](void* argument) -> void* {
        auto* const to = static_cast<Call*>(argument);
        to->value = to->use();
        to->error_number = errno;
        return nullptr;
      },
      &made);
  errno = made.error_number;
  return made.value;
}

// Of programs for simulation: output of a cluster's threads, which are fibres of one thread of the system, so that a stream's own
// lock does not keep them apart: one may wait for a page of its stack, or of a string, inside such a call while others go
// on. A lock of the machine does, in the order of their clocks.
class Printing {
 public:
  Printing();
  ~Printing();
  Printing(const Printing&) = delete;
  Printing& operator=(const Printing&) = delete;

 private:
  const bool takes_;
};

}  // namespace braid::dsm::pthreads
