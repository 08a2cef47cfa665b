// The shared memory that programs see. A program's main() runs once in every cluster, on the cluster's
// initial thread (single program, multiple data); parallel() runs a function on every compute node of the
// machine.
//
//     int main(int argc, char** argv) {
//       braid::dsm::init();
//       double* a = braid::dsm::allocate<double>(n);             // the same address in every cluster
//       braid::dsm::parallel([&](braid::dsm::Node& node) {       // on every compute node
//         for (auto i : node.share(n)) a[i] = f(i);
//         node.barrier();
//         ...
//       });
//       return braid::dsm::finish(ok ? 0 : 1);
//     }
//
// Shared memory may be touched by the initial thread and by the threads that run parallel()'s function: not
// by others (threads of libraries can be adopted: dsm/threads.h), nor by signal handlers. A system call that
// writes into it fails with EFAULT where the page is not here: read into private memory and copy.
//
// Memory is release consistent: what a node wrote before unlock() or barrier() is seen by every node after
// its following lock() or barrier(). Programs without data races behave as on one machine.
//
// A program started without `braid run` runs on one cluster (BRAID_COMPUTE threads, default 1) without a
// service.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <type_traits>

namespace braid::dsm {

// Who keeps the master copies of an allocation's pages.
struct Placement {
  enum class Kind : std::uint8_t { kBlock, kCyclic, kCluster };
  Kind kind = Kind::kBlock;
  unsigned cluster = 0;  // kCluster: all of them here

  // Cluster k of n keeps the k-th n-th of the pages: right for arrays that nodes work on in contiguous
  // shares.
  static constexpr Placement block() { return {}; }
  static constexpr Placement cyclic() { return {Kind::kCyclic, 0}; }
  static constexpr Placement on(unsigned cluster) { return {Kind::kCluster, cluster}; }
};

// A half-open range of indices that a range-for walks.
class Range {
 public:
  class Iterator {
   public:
    explicit constexpr Iterator(std::size_t i) : i_(i) {}
    constexpr std::size_t operator*() const { return i_; }
    constexpr Iterator& operator++() {
      ++i_;
      return *this;
    }
    constexpr bool operator!=(const Iterator& o) const { return i_ != o.i_; }

   private:
    std::size_t i_;
  };
  constexpr Range(std::size_t first, std::size_t last) : first_(first), last_(last) {}
  constexpr Iterator begin() const { return Iterator(first_); }
  constexpr Iterator end() const { return Iterator(last_); }
  constexpr std::size_t first() const { return first_; }
  constexpr std::size_t last() const { return last_; }
  constexpr std::size_t size() const { return last_ - first_; }

 private:
  std::size_t first_, last_;
};

// A compute node as the function given to parallel() sees it. Belongs to its thread.
class Node {
 public:
  explicit Node(unsigned local) : local_(local) {}
  unsigned id() const;     // 0 .. count()-1; nodes of one cluster are neighbours
  unsigned count() const;  // of the whole machine
  unsigned cluster() const;
  unsigned local() const { return local_; }  // inside its cluster
  // This node's contiguous share of n things.
  Range share(std::size_t n) const;
  // All nodes of the machine; `which`, 0 .. 63, names one of several barriers.
  void barrier(unsigned which = 0);
  // `lock` is 0 .. 4095.
  void lock(unsigned lock);
  void unlock(unsigned lock);

 private:
  unsigned local_;
};

class LockGuard {
 public:
  LockGuard(Node& node, unsigned lock) : node_(node), lock_(lock) { node_.lock(lock_); }
  ~LockGuard() { node_.unlock(lock_); }
  LockGuard(const LockGuard&) = delete;
  LockGuard& operator=(const LockGuard&) = delete;

 private:
  Node& node_;
  unsigned lock_;
};

// Joins the machine that `braid run` described in the environment. Ends the process with a message that names
// the cure when it cannot. Initial thread, once, first.
void init();

unsigned clusters();
unsigned cluster();
unsigned nodes_per_cluster();

// Zeroed, page-aligned memory at the same address in every cluster. Initial thread, outside parallel(), the
// same calls with the same sizes in every cluster. Ends the program with a message when the heap is used up.
void* allocate_bytes(std::size_t bytes, Placement placement = {});
template <class T>
T* allocate(std::size_t count, Placement placement = {}) {
  static_assert(std::is_trivially_copyable_v<T>, "shared memory is shared bytes: no constructors run");
  return static_cast<T*>(allocate_bytes(count * sizeof(T), placement));
}

// Runs `body` on every compute node of the machine and returns when all are through (with a barrier, so
// everything written is visible everywhere). Every cluster must make the same calls.
void parallel(const std::function<void(Node&)>& body);

// Seconds since some moment in the past, by a clock that only goes forward: for programs that time
// themselves.
double seconds();

// Leaves the machine; returns `status`, for main() to return. Every cluster must call it: a process that ends
// without it has died, as far as the others are concerned. Shared memory is gone when it returns.
int finish(int status);

}  // namespace braid::dsm
