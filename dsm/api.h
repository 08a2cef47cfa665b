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
// by others (threads of libraries can be adopted: dsm/threads.h), nor by signal handlers.
//
// Library functions that work in user space (memcpy, strlen, sort, sprintf) may be used on it like any code.
// A system call is another matter: the kernel does not wait for a page that is not here, and fails with
// EFAULT. Use read(), write(), fread() and fwrite() of this header, which go through private memory and so
// work whatever other clusters do meanwhile; for any other call, copy through private memory as they do.
//
// Memory is release consistent: what a node wrote before unlock() or barrier() is seen by every node after
// its following lock() or barrier(). So it is with flags and semaphores, and with words unless the call says
// otherwise: setting, posting or changing one releases, and whoever sees that it was done sees what was
// written before. Programs without data races behave as on one machine.
//
// A program started without `braid run` runs on one cluster (BRAID_COMPUTE threads, default 1) without a
// service.
#pragma once

#include <sys/types.h>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <type_traits>

namespace braid::dsm {

// Who keeps the master copies of an allocation's pages.
struct Placement {
  enum class Kind : std::uint8_t { kBlock, kCyclic, kCluster, kFirstTouch };
  Kind kind = Kind::kBlock;
  unsigned cluster = 0;  // kCluster: all of them here

  // Cluster k of n keeps the k-th n-th of the pages: right for arrays that nodes work on in contiguous
  // shares.
  static constexpr Placement block() { return {}; }
  static constexpr Placement cyclic() { return {Kind::kCyclic, 0}; }
  static constexpr Placement on(unsigned cluster) { return {Kind::kCluster, cluster}; }
  // Each page at the cluster that touches it first: right where the program's own initialisation shares the
  // work out as its computation does.
  static constexpr Placement first_touch() { return {Kind::kFirstTouch, 0}; }
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

// How many there are of each; programs name them by numbers below these. All start at zero: words 0, flags
// cleared, semaphores empty.
inline constexpr unsigned kLocks = 4096;
inline constexpr unsigned kBarriers = 64;
inline constexpr unsigned kConditions = 32768;
inline constexpr unsigned kFlags = 4096;
inline constexpr unsigned kSemaphores = 4096;
inline constexpr unsigned kWords = 4096;

// What a reduction makes of the values that nodes bring.
enum class Reduce : std::uint8_t { kSum, kMin, kMax };

// What a call on a word means for the memory around it.
enum class MemoryOrder : std::uint8_t {
  kAcquireRelease,
  kRelaxed,  // nothing: faster where pages were written, and enough for a counter that guards nothing
};

// A compute node as the function given to parallel() sees it. Belongs to its thread. A number that is out of
// range ends the program with a message, and so does a call that cannot be.
class Node {
 public:
  explicit Node(unsigned local) : local_(local) {}
  unsigned id() const;     // 0 .. count()-1; nodes of one cluster are neighbours
  unsigned count() const;  // of the whole machine
  unsigned cluster() const;
  unsigned local() const { return local_; }  // inside its cluster
  // This node's contiguous share of n things.
  Range share(std::size_t n) const;
  // Waits for all nodes of the machine; `which` names one of several barriers.
  void barrier(unsigned which = 0);
  // A barrier at which every node brings a value and gets what all of them are reduced to. All nodes call it
  // for the same barrier with the same kind of reduction and type. The order of the operations is fixed by
  // the shape of the machine, so sums of floating-point numbers are the same in every run.
  template <class T>
  T reduce(T value, Reduce how = Reduce::kSum, unsigned which = 0) {
    static_assert(std::is_arithmetic_v<T> && sizeof(T) <= 8, "reductions are of numbers of at most 64 bits");
    if constexpr (std::is_floating_point_v<T>) {
      return static_cast<T>(std::bit_cast<double>(
          reduce_bits(std::bit_cast<std::uint64_t>(static_cast<double>(value)), how, Type::kDouble, which)));
    } else {
      // Sign-extended or not, as the type says.
      return static_cast<T>(reduce_bits(static_cast<std::uint64_t>(value), how,
                                        std::is_signed_v<T> ? Type::kInt64 : Type::kUint64, which));
    }
  }

  // Not recursive. Nodes of a cluster pass a lock among themselves without messages; other clusters get it in
  // the order in which they asked.
  void lock(unsigned lock);
  void unlock(unsigned lock);  // this node has it

  // Gives up `lock`, which this node has, waits for a signal, and has the lock again when it returns. Look
  // again at what is waited for: others may have had the lock in between. No signal that is sent under the
  // lock is lost. A node may wait for the same condition with another lock at another time.
  void condition_wait(unsigned condition, unsigned lock);
  void condition_signal(unsigned condition);     // the node that has waited longest, if any
  void condition_broadcast(unsigned condition);  // all that wait

  // A set flag lets everybody through who waits or comes, until it is cleared.
  void flag_set(unsigned flag);
  void flag_wait(unsigned flag);
  void flag_clear(unsigned flag);

  void semaphore_post(unsigned semaphore, std::uint32_t count = 1);
  void semaphore_wait(unsigned semaphore);  // takes one, in the order of the calls

  // A word is 64 bits at a home, outside the shared memory: one message there and one back, whoever uses it.
  // Each returns what the word was before.
  std::int64_t fetch_add(unsigned word, std::int64_t summand,
                         MemoryOrder order = MemoryOrder::kAcquireRelease);
  std::int64_t exchange(unsigned word, std::int64_t value, MemoryOrder order = MemoryOrder::kAcquireRelease);
  // Becomes `desired` if it is `expected`, which is so if that is what is returned.
  std::int64_t compare_exchange(unsigned word, std::int64_t expected, std::int64_t desired,
                                MemoryOrder order = MemoryOrder::kAcquireRelease);
  std::int64_t load(unsigned word);  // an acquire
  void store(unsigned word, std::int64_t value, MemoryOrder order = MemoryOrder::kAcquireRelease);

  // Memory for this node alone to name, as braid::dsm::allocate_bytes() inside parallel().
  void* allocate_bytes(std::size_t bytes, Placement placement = {});
  template <class T>
  T* allocate(std::size_t count, Placement placement = {}) {
    static_assert(std::is_trivially_copyable_v<T>, "shared memory is shared bytes: no constructors run");
    return static_cast<T*>(allocate_bytes(count * sizeof(T), placement));
  }

 private:
  enum class Type : std::uint8_t { kDouble, kInt64, kUint64 };
  std::uint64_t reduce_bits(std::uint64_t bits, Reduce how, Type type, unsigned which);

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

// Zeroed, page-aligned memory, whole pages of 4 KiB; it stays until the end. A pointer to it is valid in
// every cluster. Ends the program with a message when the heap is used up.
//
// Outside parallel(): the initial threads of all clusters together, the same calls with the same sizes, and
// each gets the same pointer. Inside parallel(): any compute node alone, at any time; it tells others the
// pointer through shared memory as it tells them anything else. A single node's call costs a message to every
// cluster: take much at once.
void* allocate_bytes(std::size_t bytes, Placement placement = {});
template <class T>
T* allocate(std::size_t count, Placement placement = {}) {
  static_assert(std::is_trivially_copyable_v<T>, "shared memory is shared bytes: no constructors run");
  return static_cast<T*>(allocate_bytes(count * sizeof(T), placement));
}

// Runs `body` on every compute node of the machine and returns when all are through (with a barrier, so
// everything written is visible everywhere). Every cluster must make the same calls.
void parallel(const std::function<void(Node&)>& body);

// read(2), write(2), fread(3) and fwrite(3) for shared memory, and for any other: the same results and errno.
// A read() from something that gives its bytes as they come returns what was there, as read(2) does.
ssize_t read(int fd, void* buffer, std::size_t bytes);
ssize_t write(int fd, const void* buffer, std::size_t bytes);
std::size_t fread(void* buffer, std::size_t size, std::size_t count, std::FILE* file);
std::size_t fwrite(const void* buffer, std::size_t size, std::size_t count, std::FILE* file);

// Brings all pages of a range here, readable or writable, before they are used: the faults happen now. A hint
// for speed: another cluster's write can take them away again at any time. Bytes are not changed.
void prepare_read(const void* memory, std::size_t bytes);
void prepare_write(void* memory, std::size_t bytes);

// Seconds since some moment in the past, by a clock that only goes forward: for programs that time
// themselves.
double seconds();

// Leaves the machine; returns `status`, for main() to return. Every cluster must call it: a process that ends
// without it has died, as far as the others are concerned. Shared memory is gone when it returns.
int finish(int status);

}  // namespace braid::dsm
