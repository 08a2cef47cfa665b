// The ring between two threads, or two processes, of one trust domain: Boost.Lockfree's.
#pragma once

#include <boost/lockfree/spsc_queue.hpp>
#include <cstddef>

namespace braid {

// One thread pushes, one pops. Storage is inline and free of pointers, so it may lie in shared memory.
template <class T, std::size_t kCapacity>
using LocalRing = boost::lockfree::spsc_queue<T, boost::lockfree::capacity<kCapacity>>;

}  // namespace braid
